# Written by `python -m flambeau._stubgen` from the op table; changes made here are lost.
