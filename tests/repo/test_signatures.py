"""Signature strings: what the core reads in them, and that docstrings explain the arguments they name."""

import re

import pytest

import flambeau as fb
from flambeau import _C
from flambeau._registry.signatures import parse_signature


def test_parse_signature():
    signature = parse_signature("linalg.f(Tensor input, *, bool b=True) -> (Tensor values, Tensor indices)")
    assert signature.name == "linalg.f"
    assert [p.keyword_only for p in signature.parameters] == [False, True]
    assert signature.returns == (("Tensor", "values"), ("Tensor", "indices"))


@pytest.mark.parametrize("text", ["no arrow(Tensor input)", "f(Tensor) -> Tensor", "f(Tensor input"])
def test_malformed_signature(text):
    with pytest.raises(RuntimeError, match="signature"):
        parse_signature(text)


def documented(doc):
    """The names that the section `Args:` explains; None without one."""
    section = re.search(r"^Args:\n((?:(?: {4}.*)?\n)*)", doc + "\n", re.MULTILINE)
    if section is None:
        return None
    lines = re.findall(r"^ {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*):", section[1], re.MULTILINE)
    return {name.strip(" *") for line in lines for name in line.split(",")}


def mistakes(overloads, doc):
    """What a docstring explains and no overload has, and what the overload that it comes closest to has beside that."""
    explained = documented(doc)
    if explained is None:
        return set()
    known = [{p.name for p in parse_signature(text).parameters} for text, _, _ in overloads]
    function = any(flags & _C.op_flags["FUNCTION"] for _, flags, _ in overloads)
    # What a method is called on needs no explanation.
    missing = min((names - explained - (set() if function else {"input"}) for names in known), key=len)
    return missing | explained - set().union(*known) - {"out"}


OPS = _C.registry()


def test_docstrings_explain_the_arguments_of_their_signatures():
    wrong = {name: found for name, (overloads, doc) in OPS.items() if (found := mistakes(overloads, doc))}
    assert not wrong, f"the arguments under Args: and those of the signature differ: {wrong}"


def test_differences_are_found():
    overloads = [("f(Tensor input, Tensor values) -> Tensor", _C.op_flags["FUNCTION"], False)]
    assert mistakes(overloads, "F.\n\nArgs:\n    input: one.\n    other: another.\n") == {"values", "other"}
    assert not mistakes(overloads, "F.\n\nArgs:\n    input, values: two.\n    out: where to.\n\nReturns:\n    x: no.\n")


def test_public_ops_explain_their_arguments():
    """An op with arguments beside the tensors it is called on has a section Args: in its docstring."""
    without = {
        name for name, (overloads, doc) in OPS.items()
        if documented(doc) is None and not name.rpartition(".")[2].startswith("_") and not name.startswith("_nn.")
        and not name.endswith("_copy") and any(len(parse_signature(text).parameters) > 1 for text, _, _ in overloads)
    }  # fmt: skip
    assert without <= SAME_AS_ANOTHER, sorted(without - SAME_AS_ANOTHER)


# Their docstrings name the op that explains the arguments.
SAME_AS_ANOTHER = {"linalg.matmul", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"}


def test_forms_in_place():
    """No op has one that PyTorch lacks: neither what tells something about an element, nor the choice between equals."""
    missing = "isnan isfinite isreal signbit angle maximum minimum fmax fmin logaddexp logaddexp2".split()
    assert [name for name in missing if hasattr(fb.Tensor, name + "_")] == []
    kept = "abs neg add mul hypot atan2 gcd nextafter copysign logical_not logical_and eq".split()
    assert [name for name in kept if not hasattr(fb.Tensor, name + "_")] == []
