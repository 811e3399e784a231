"""How tensors become text: `repr`, `format` and the print options.

The layout is PyTorch's, character for character. Only the elements that will be shown are converted, once, to NumPy;
columns are aligned on the widest of those, and a tensor with more than `threshold` elements shows its edges only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import numbers
import sys
from typing import Any

import numpy as np

from flambeau.errors import ArgumentError

_PREFIX = "tensor("
_INDENT = len(_PREFIX)


@dataclasses.dataclass(frozen=True)
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": _Options(),
    "short": _Options(precision=2, edgeitems=2),
    "full": _Options(threshold=math.inf),
}
_options = _Options()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Chooses how tensors are printed, for the whole process.

    Args:
        precision: digits after the decimal point (4).
        threshold: a tensor with more elements than this shows only its edges (1000).
        edgeitems: how many elements each edge shows (3).
        linewidth: where lines are broken (80).
        profile: `"default"`, `"short"` or `"full"`; the other arguments, where given, win over it.
        sci_mode: True or False forces scientific notation on or off; None lets the values decide.
            Every call sets it, as in PyTorch, so leaving it out returns to None.

    Example:
        >>> fb.set_printoptions(precision=2)
        >>> fb.tensor([1.2345])
        tensor([1.23])
        >>> fb.set_printoptions(profile="default")
        >>> fb.tensor([1.2345])
        tensor([1.2345])

    See also: `printoptions`, `get_printoptions`.
    """
    global _options
    if profile is not None and profile not in _PROFILES:
        raise ArgumentError(f"set_printoptions: unknown profile {profile!r}; expected one of {', '.join(_PROFILES)}")
    changes = {"sci_mode": _checked_sci_mode(sci_mode)}
    for name, value, least, kind in (
        ("precision", precision, 0, numbers.Integral),
        ("threshold", threshold, 0, numbers.Real),
        ("edgeitems", edgeitems, 0, numbers.Integral),
        ("linewidth", linewidth, 1, numbers.Integral),
    ):
        if value is not None:
            changes[name] = _checked_number(name, value, least, kind)
    _options = dataclasses.replace(_options if profile is None else _PROFILES[profile], **changes)


def _checked_number(name, value, least, kind):
    if isinstance(value, bool) or not isinstance(value, kind):
        wanted = "an int" if kind is numbers.Integral else "a number"
        raise TypeError(f"set_printoptions: {name} must be {wanted}, got {type(value).__name__}")
    if not value >= least:
        raise ArgumentError(f"set_printoptions: {name} must be at least {least}, got {value}")
    return value


def _checked_sci_mode(value):
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"set_printoptions: sci_mode must be True, False or None, got {type(value).__name__}")
    return value


def get_printoptions() -> dict[str, Any]:
    """Returns the print options in use, as a dictionary.

    Example:
        >>> fb.get_printoptions()["precision"]
        4

    See also: `set_printoptions`.
    """
    return dataclasses.asdict(_options)


@contextlib.contextmanager
def printoptions(**options):
    """Sets print options inside a `with` block and puts the old ones back after it.

    Args:
        **options: the arguments of `set_printoptions`.

    Example:
        >>> x = fb.tensor([1234.5678])
        >>> with fb.printoptions(precision=1, sci_mode=True):
        ...     print(x)
        tensor([1.2e+03])
        >>> print(x)
        tensor([1234.5677])

    See also: `set_printoptions`.
    """
    global _options
    before = _options
    set_printoptions(**options)
    try:
        yield
    finally:
        _options = before


def tensor_repr(t):
    """The text of a tensor: its values, then what they do not show (size, dtype, device, gradient)."""
    foreign = type(t).__module__.partition(".")[0] != "flambeau"
    prefix = f"{type(t).__name__}(" if foreign else _PREFIX
    if t.device.type == "meta":
        body = "..."
    elif t.numel() == 0:
        body = "[]"
    else:
        summarize = t.numel() > _options.threshold
        body = _array_text(_shown_values(t, summarize), tuple(t.shape), summarize, len(prefix))
    return _with_suffixes(prefix + body, _suffixes(t), len(prefix)) + ")"


def tensor_format(t, spec):
    """`format(t, spec)`: a 0-d tensor formats like its number, any other accepts only the empty spec."""
    if t.dim() == 0 and t.device.type != "meta":
        return format(t.item(), spec)
    if spec:
        raise TypeError(
            f"format: a tensor of shape {tuple(t.shape)} takes no format spec, got {spec!r}; "
            "format its elements (x.tolist()) or use fb.set_printoptions"
        )
    return str(t)


# ---- values ---------------------------------------------------------------------------------------------------------


def _shown_values(t, summarize):
    """The elements to print as a NumPy array: all of them, or in each long dimension the first and last few."""
    if getattr(t, "requires_grad", False):
        t = t.detach()
    if t.device.type != "cpu":
        t = t.cpu()
    is_bfloat16 = str(t.dtype).endswith("bfloat16")
    stored = _storage_dtype(t.dtype)
    values = _bits(t) if is_bfloat16 else t.view(stored).numpy() if stored else t.numpy()
    if summarize and t.dim() > 0:
        values = values[np.ix_(*(_edge_indices(size) for size in values.shape))]
    if stored:
        return _value_of(values, t.dtype)
    if is_bfloat16:
        # bfloat16 is the upper half of a float32, and NumPy has no such type.
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32) if values.dtype == np.float16 else values


def _storage_dtype(dtype):
    """For a dtype that NumPy lacks and that converts as a whole, an integer dtype of its size; None for others."""
    import flambeau as fb

    if dtype == fb.complex32:
        return fb.int32
    return fb.uint8 if dtype.is_floating_point and dtype.itemsize == 1 else None


def _value_of(bits, dtype):
    """The elements to print, from their bits, as float32 or complex64."""
    import flambeau as fb

    wide = fb.complex64 if dtype.is_complex else fb.float32
    return fb.from_numpy(np.ascontiguousarray(bits)).view(dtype).to(wide).numpy()


def _bits(t):
    import flambeau as fb

    return t.view(fb.int16).numpy().view(np.uint16)


def _edge_indices(size):
    edge = _options.edgeitems
    if size <= 2 * edge:
        return np.arange(size)
    return np.concatenate([np.arange(edge), np.arange(size - edge, size)])


def _formatter(values):
    """Returns (text of one value, width of a column) for the values to print."""
    if values.dtype.kind == "c":
        return _complex_formatter(values)
    if values.dtype.kind == "f":
        return _float_formatter(values)
    extremes = [values.min().item(), values.max().item()] if values.size else []
    width = max((len(str(v)) for v in extremes), default=1)
    return (lambda v: str(v).rjust(width)), width


def _float_formatter(values):
    """One notation for all values: integers as `3.`, fixed point, or scientific if magnitudes differ much."""
    counted = values[np.isfinite(values) & (values != 0)].astype(np.float64)
    precision = _options.precision
    whole, scientific = True, False
    if counted.size:
        magnitudes = np.abs(counted)
        least, most = magnitudes.min().item(), magnitudes.max().item()
        whole = bool((counted == np.ceil(counted)).all())
        scientific = most / least > 1000.0 or most > 1e8 or (not whole and least < 1e-4)
        if _options.sci_mode is not None:
            scientific = _options.sci_mode

    def text(v):
        if scientific:
            return f"{v:.{precision}e}"
        if whole:
            return f"{v:.0f}." if math.isfinite(v) else f"{v:.0f}"
        return f"{v:.{precision}f}"

    width = max((len(text(v)) for v in counted.tolist()), default=1)
    return (lambda v: text(v).rjust(width)), width


def _complex_formatter(values):
    real_text, real_width = _float_formatter(values.real)
    imag_text, imag_width = _float_formatter(values.imag)

    def text(v):
        imag = imag_text(v.imag).lstrip() + "j"
        sign = "" if imag[0] == "-" else "+"
        return real_text(v.real) + sign + imag

    return text, real_width + imag_width + 1


# ---- layout ---------------------------------------------------------------------------------------------------------


def _array_text(values, shape, summarize, indent=_INDENT):
    text, width = _formatter(values)
    return _nested_text(values.tolist(), shape, summarize, indent, text, width)


def _nested_text(values, shape, summarize, indent, text, width):
    if not shape:
        return text(values)
    if len(shape) == 1:
        return _row_text([text(v) for v in values], shape[0], summarize, indent, width)
    edge = _options.edgeitems
    parts = [_nested_text(v, shape[1:], summarize, indent + 1, text, width) for v in values]
    if summarize and shape[0] > 2 * edge:
        parts.insert(edge, "...")
    # An additional empty line per further dimension separates the blocks.
    return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(parts) + "]"


def _row_text(cells, size, summarize, indent, width):
    edge = _options.edgeitems
    if summarize and size > 2 * edge:
        cells.insert(edge, " ..." if edge else "...")
    per_line = max(1, (_options.linewidth - indent) // (width + 2))
    lines = [", ".join(cells[start : start + per_line]) for start in range(0, len(cells), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _suffixes(t):
    import flambeau as fb

    suffixes = []
    if t.device.type != "cpu":
        suffixes.append(f"device='{t.device}'")
    if t.device.type == "meta":
        suffixes.append(f"size={tuple(t.shape)}")
    default = fb.get_default_dtype()
    if t.device.type == "meta":
        obvious = (default,)
    elif t.numel() == 0:
        # Without elements, the rank and dtype must be shown.
        if t.dim() != 1:
            suffixes.append(f"size={tuple(t.shape)}")
        obvious = (default,)
    else:
        if _options.edgeitems == 0:
            suffixes.append(f"size={tuple(t.shape)}")
        obvious = (default, fb.complex128 if default == fb.float64 else fb.complex64, fb.int64, fb.bool)
    if t.dtype not in obvious:
        suffixes.append(f"dtype={t.dtype}")
    grad_fn = getattr(t, "grad_fn", None)
    if grad_fn is not None:
        suffixes.append(f"grad_fn=<{grad_fn.name()}>")
    elif getattr(t, "requires_grad", False):
        suffixes.append("requires_grad=True")
    forward_ad = sys.modules.get("flambeau.autograd.forward_ad")
    if forward_ad is not None and forward_ad._state.duals:
        tangent = forward_ad.unpack_dual(t).tangent
        if tangent is not None:
            suffixes.append(f"tangent={tangent.detach()!r}")
    return suffixes


def _with_suffixes(text, suffixes, indent=_INDENT):
    # PyTorch counts two characters too many here; its line breaks are the contract.
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if used + len(suffix) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + suffix
            used = indent + len(suffix)
        else:
            text += ", " + suffix
            used += len(suffix) + 2
    return text
