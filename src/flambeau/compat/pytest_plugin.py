"""A pytest plugin: `pytest -p flambeau.compat.pytest_plugin` runs tests written for PyTorch on flambeau."""

from __future__ import annotations

from typing import Any

import pytest

from flambeau import compat
from flambeau.compat._main import tell_children

# When the plugin is imported, which is before conftest files and tests.
compat.install()
tell_children()


def pytest_report_header() -> str:
    """The header line that says what `torch` is."""
    from flambeau import __version__

    return f"torch: flambeau {__version__}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: Any, call: Any) -> None:
    """Adds a hint about missing attributes to a failure."""
    if call.excinfo is not None:
        compat.explain(call.excinfo.value)
