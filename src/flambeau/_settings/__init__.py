"""Settings of the process and questions about it: seeds, determinism, memory, strictness."""
