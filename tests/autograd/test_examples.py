"""The examples in the docstrings of modules below autograd, func and utils run."""

from __future__ import annotations

import doctest
import importlib

import pytest

import flambeau as fb

MODULES = ["autograd.functional", "autograd.gradcheck", "autograd._visualize", "utils", "utils.checkpoint"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    fb.manual_seed(0)
    module = importlib.import_module(f"flambeau.{name}")
    result = doctest.testmod(module, extraglobs={"fb": fb})
    assert result.attempted and not result.failed
