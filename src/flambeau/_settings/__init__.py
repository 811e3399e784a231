"""Settings of the process and queries about it: seeds, determinism, memory, strictness."""
