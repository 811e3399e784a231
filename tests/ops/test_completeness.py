"""No op without a row, no row without an op, no exemption without need."""

from __future__ import annotations

from .catalogue import SPECS
from .registry import overloads, public_names
from .spec import find
from .specs_random import RANDOM, SPECIAL

# Ops without a row, and where their tests are instead.
EXEMPT: dict[str, str] = {
    "resize_": "changes the tensor's own shape; test_tensor.py::test_resize",
    "resize_as_": "changes the tensor's own shape; test_tensor.py::test_resize",
    "set_": "changes the tensor's memory; test_tensor.py::test_set",
    "_nn.dequantize": "weights of small integers; tests/nn/test_quantized.py, tests/files/test_gguf.py",
    "_nn.quantized_linear": "weights of small integers; tests/nn/test_quantized.py",
    "_nn.logsigmoid_recorded": "_nn.logsigmoid where gradients are wanted; tests/nn/test_orders.py",
} | dict.fromkeys(
    [
        "_nn.adaptive_avg_pool", "_nn.adaptive_max_pool", "_nn.fractional_max_pool", "_nn.max_unpool",
        "adaptive_avg_pool1d", "adaptive_max_pool1d", "avg_pool1d", "max_pool1d", "max_pool1d_with_indices", "max_pool2d",
        "max_pool3d", "nn.functional.avg_pool1d", "nn.functional.avg_pool2d", "nn.functional.avg_pool3d",
        "nn.functional.max_pool1d", "nn.functional.max_pool1d_with_indices", "nn.functional.max_pool2d",
        "nn.functional.max_pool2d_with_indices", "nn.functional.max_pool3d", "nn.functional.max_pool3d_with_indices",
    ],
    "windows of several dimensions, layouts and gradients; tests/nn/test_pooling.py",
) | dict.fromkeys(
    ["_nn.batch_norm", "_nn.batch_norm_relu", "_nn.group_norm", "_nn.row_norm"],
    "called by nn.functional after its checks; tests/nn/test_norm_kernels.py",
) | dict.fromkeys(["_nn.gru", "_nn.lstm"], "all steps of a layer; tests/nn/test_sequences.py")  # fmt: skip

ROWS = {**SPECS, **RANDOM, **dict.fromkeys(SPECIAL)}

HOW_TO = """
Add a row to the family's file tests/ops/specs_<family>.py:
    OpSpec("{name}", reference, samples, dtypes, …)
with a NumPy reference, samples and bad inputs (see spec.py), or name it in EXEMPT with the place of its tests."""


def covered(name: str) -> bool:
    """A row covers an op's in-place form; a row `fill_` covers the op registered as `fill`."""
    return name in ROWS or name + "_" in ROWS or (name.endswith("_") and name[:-1] in ROWS)


def test_every_op_has_a_row():
    missing = sorted(name for name in public_names() if not covered(name) and name not in EXEMPT)
    assert not missing, f"{len(missing)} ops without a spec row: {', '.join(missing)}{HOW_TO.format(name=missing[0])}"


def test_exemptions_are_needed():
    names = public_names()
    stale = sorted(name for name in EXEMPT if name not in names or covered(name))
    assert not stale, f"these exemptions are not needed any more, remove them: {', '.join(stale)}"
    assert all(reason.strip() for reason in EXEMPT.values())


def test_every_row_has_an_op():
    """A row names something that exists; a typing error would silently test nothing."""
    import flambeau as fb

    gone = []
    for name, row in ROWS.items():
        if row is not None and not getattr(row, "function", True) or name.endswith("_"):
            present = hasattr(fb.Tensor, name)
        else:
            try:
                present = callable(find(name))
            except AttributeError:
                present = False
        if not present:
            gone.append(name)
    assert not gone, f"{len(gone)} rows describe ops that do not exist: {', '.join(sorted(gone))}"


def test_promised_forms_exist():
    """PyTorch's in-place forms and out= that a row claims are in the op table."""
    wrong = []
    for name, rows in overloads().items():
        row = SPECS.get(name)
        if row is None:
            continue
        flags = 0
        for overload in rows:
            flags |= overload.flags
        for label, bit, claimed in (("method", 2, row.method), ("in-place form", 4, row.inplace), ("out=", 8, row.out)):
            if claimed and not flags & bit:
                wrong.append(f"{name}: no {label}")
    assert not wrong, "\n".join(wrong)
