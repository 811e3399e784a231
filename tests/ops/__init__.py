"""One row per op (specs_*.py) and the tests that follow from the rows."""
