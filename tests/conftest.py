"""Options and clean-up shared by all tests."""

from __future__ import annotations

import pytest

import flambeau as fb


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--dtypes", default="", help="comma-separated dtype names: op specs run on these only (default: all of a row)"
    )


@pytest.fixture(scope="session")
def only_dtypes(request: pytest.FixtureRequest) -> frozenset[str]:
    """The dtypes asked for on the command line; empty means all."""
    return frozenset(filter(None, request.config.getoption("--dtypes").split(",")))


fb.manual_seed(0)  # samples made while test modules are imported are the same in every worker process


@pytest.fixture(autouse=True)
def settings_restored():
    """A test starts from the same seed; it may change the default dtype or the thread count, and the next must not notice."""
    fb.manual_seed(0)
    dtype, threads = fb.get_default_dtype(), fb.get_num_threads()
    yield
    fb.set_default_dtype(dtype)
    if fb.get_num_threads() != threads:
        fb.set_num_threads(threads)
