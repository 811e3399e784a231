"""What the benchmark suites share: rows, the worker process, statistics and the report."""
