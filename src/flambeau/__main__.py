"""`python -m flambeau script.py` runs a script written for PyTorch."""

import sys

from flambeau.compat._main import main

if __name__ == "__main__":
    main(sys.argv[1:])
