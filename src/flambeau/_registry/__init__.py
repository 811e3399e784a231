"""Registries: ops and gradients written in Python, signatures, and submodules loaded on first use."""
