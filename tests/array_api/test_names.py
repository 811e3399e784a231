"""Every name of the standard is there, with the standard's arguments."""

import inspect
import math

import pytest

import flambeau as fb
from flambeau import array_api as xp

from . import standard


def find(space: str, name: str):
    if space == "info":
        return getattr(xp.__array_namespace_info__(), name)
    return getattr(getattr(xp, space) if space else xp, name)


def expected(line: str) -> inspect.Signature:
    scope: dict = {}
    exec(f"def {line}: return None", scope)
    return inspect.signature(scope[line.split("(")[0]])


@pytest.mark.parametrize(("space", "line"), standard.functions(), ids=lambda v: v.split("(")[0] if v else "main")
def test_signature(space, line):
    function = find(space, line.split("(")[0])
    found = [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]
    assert found == [(p.name, p.kind, p.default) for p in expected(line).parameters.values()]
    assert function.__doc__, f"{line} has no docstring"


def test_all_lists_exactly_the_standard():
    names = {line.split("(")[0] for space, line in standard.functions() if not space}
    names |= {*standard.DTYPES, *standard.CONSTANTS, "linalg", "fft", "__array_api_version__"}
    assert set(xp.__all__) == names
    for space in ("linalg", "fft"):
        assert set(getattr(xp, space).__all__) == {line.split("(")[0] for s, line in standard.functions() if s == space}
    assert all(hasattr(xp, name) for name in xp.__all__)


def test_constants():
    assert (xp.e, xp.pi, xp.inf, xp.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(xp.nan)
    assert xp.__array_api_version__ == "2025.12"


@pytest.mark.parametrize("name", standard.DTYPES)
def test_dtypes_are_those_of_flambeau(name):
    assert getattr(xp, name) is getattr(fb, name)


@pytest.mark.parametrize("name", standard.ARRAY_ATTRIBUTES + standard.ARRAY_METHODS)
def test_array_has(name):
    assert hasattr(fb.ones((2, 2)), name)


@pytest.mark.parametrize("version", [None, "2021.12", "2022.12", "2023.12", "2024.12", "2025.12"])
def test_array_namespace(version):
    assert fb.ones(2).__array_namespace__(api_version=version) is xp


@pytest.mark.parametrize("version", ["2020.12", "2999.12", "", 2025])
def test_unknown_version(version):
    with pytest.raises(ValueError, match="api_version"):
        fb.ones(2).__array_namespace__(api_version=version)


def test_to_device():
    x = fb.ones(2)
    assert x.to_device(x.device) is x
    with pytest.raises((RuntimeError, ValueError)):
        x.to_device("no such device")
