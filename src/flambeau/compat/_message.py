"""The message for a name that PyTorch may have and flambeau does not."""

from flambeau import __version__

PAGE = 'the page "Differences from PyTorch" (docs/differences.md)'


def missing(name: str) -> str:
    """Says that a name is missing, and where to read on."""
    return f"{name}: not in flambeau {__version__}; see {PAGE}"
