"""What is registered: ops and gradients written in Python, signatures, and submodules that load when first used."""
