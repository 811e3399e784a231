"""The tools import their neighbours by name, as they do when run from the command line."""

import sys
from pathlib import Path

TOOLS = Path(__file__).parents[2] / "tools"
if str(TOOLS) not in sys.path:
    sys.path.append(str(TOOLS))
