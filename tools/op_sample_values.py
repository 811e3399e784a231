"""Arguments and results as plain data that PyTorch and flambeau both read, and what differs between two of them; see op_samples.py.

A description is a tuple that begins with its kind: "tensor", "sparse", "meta", "list", "tuple", "dict", "slice", "name" (of a dtype
or layout), "device", "plain" (numbers, texts, arrays) or "left" (what both sides make for themselves, functions for example).
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Relative to the element and to the mean magnitude of the tensor: sums may add in another order.
TOLERANCE = {
    "float64": 1e-8, "complex128": 1e-8, "float32": 5e-5, "complex64": 5e-5, "float16": 1e-2, "complex32": 1e-2, "bfloat16": 4e-2,
}  # fmt: skip

torch: Any = None  # PyTorch or flambeau; set by op_samples.main()


def encode(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return encode_tensor(value)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return ("name", str(value).rpartition(".")[2])
    if isinstance(value, torch.device):
        return ("device", str(value))
    if isinstance(value, (list, tuple)):
        return ("list" if isinstance(value, list) else "tuple", [encode(item) for item in value])
    if isinstance(value, dict):
        return ("dict", {key: encode(item) for key, item in value.items()})
    if isinstance(value, slice):
        return ("slice", [encode(value.start), encode(value.stop), encode(value.step)])
    if value is None or isinstance(value, (bool, int, float, complex, str, np.generic, np.ndarray, type(...))):
        return ("plain", value)
    return ("left", None)


def encode_tensor(value: Any) -> Any:
    dtype = str(value.dtype).rpartition(".")[2]
    value, requires_grad = value.detach(), value.requires_grad
    if value.is_meta:
        return ("meta", dtype, tuple(value.shape), tuple(value.stride()))
    if getattr(value, "_is_zerotensor", bool)():
        value = torch.zeros(value.shape, dtype=value.dtype)
    if value.layout is not torch.strided:
        layout = str(value.layout).rpartition(".")[2]
        parts = (
            [value._indices(), value._values()]
            if layout == "sparse_coo"
            else [value.crow_indices(), value.col_indices(), value.values()]
            if layout in ("sparse_csr", "sparse_bsr")
            else [value.ccol_indices(), value.row_indices(), value.values()]
        )
        coalesced = layout == "sparse_coo" and value.is_coalesced()
        return ("sparse", layout, [encode_tensor(part) for part in parts], tuple(value.shape), coalesced, requires_grad)
    value = value.resolve_conj().resolve_neg()
    extent = (
        1 + sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True))
        if value.numel()
        else 0
    )
    if value.storage_offset() + extent > value.untyped_storage().nbytes() // value.element_size():
        value, extent = (
            value.clone(memory_format=torch.contiguous_format),
            value.numel(),
        )  # PyTorch does not check its own views
    flat = value.as_strided((extent,), (1,)).contiguous()
    data = flat.view(torch.uint8).numpy().tobytes() if extent else b""
    return ("tensor", dtype, tuple(value.shape), tuple(value.stride()), data, requires_grad)


def decode(code: Any, local: Any = None) -> Any:
    """The value of a description; `local` is the same argument of the sample made here."""
    kind, *rest = code
    if kind == "tensor":
        name, shape, strides, data, requires_grad = rest
        dtype = getattr(torch, name)
        flat = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype) if data else torch.empty(0, dtype=dtype)
        return flat.as_strided(shape, strides).requires_grad_(requires_grad)
    if kind == "sparse":
        layout, parts, shape, coalesced, requires_grad = rest
        parts = [decode(part) for part in parts]
        if layout == "sparse_coo":
            result = torch.sparse_coo_tensor(*parts, shape)._coalesced_(coalesced)
        else:
            result = torch.sparse_compressed_tensor(*parts, shape, layout=getattr(torch, layout))
        return result.requires_grad_(requires_grad)
    if kind == "meta":
        return torch.empty_strided(*rest[1:], dtype=getattr(torch, rest[0]), device="meta")
    (value,) = rest
    if kind == "name":
        return getattr(torch, value)
    if kind == "device":
        return torch.device(value)
    if kind in ("list", "tuple"):
        known = local if isinstance(local, (list, tuple)) and len(local) == len(value) else [None] * len(value)
        items = [decode(item, other) for item, other in zip(value, known, strict=True)]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        known = local if isinstance(local, dict) else {}
        return {key: decode(item, known.get(key)) for key, item in value.items()}
    if kind == "slice":
        return slice(*(decode(item) for item in value))
    return local if kind == "left" else value


def tensors_in(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return [tensor for item in value.values() for tensor in tensors_in(item)] if isinstance(value, dict) else []


def widened(value: Any) -> Any:
    """The same arguments in float64 and complex128."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or not (value.dtype.is_floating_point or value.dtype.is_complex):
            return value
        wide = value.detach().to(torch.complex128 if value.dtype.is_complex else torch.float64)
        return wide.requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(map(widened, value))
    return {key: widened(item) for key, item in value.items()} if isinstance(value, dict) else value


def farther(truth: Any, code: Any, wanted: Any) -> bool:
    if truth[0] != "tensor" or truth[2] != code[2] or code[1] not in TOLERANCE:
        return different(code, wanted) is not None
    exact, one, two = (np.atleast_1d(numbers(each)) for each in (truth, code, wanted))
    with np.errstate(all="ignore"):
        ours, theirs = (
            np.where((x == exact) | (np.isnan(x) & np.isnan(exact)), 0, np.abs(x - exact)) for x in (one, two)
        )
        room = TOLERANCE[code[1]] * (np.abs(exact) + np.mean(np.abs(exact)))
        if np.any(~np.isfinite(ours) & np.isfinite(theirs)):
            return True
        finite = np.isfinite(ours) & np.isfinite(theirs)
        return not (
            np.all(ours[finite] <= room[finite]) or np.linalg.norm(ours[finite]) <= np.linalg.norm(theirs[finite])
        )


def tensor_dtypes(code: Any) -> set[str]:
    if isinstance(code, tuple) and code and code[0] == "tensor":
        return {code[1]}
    if isinstance(code, dict):
        return set().union(*map(tensor_dtypes, code.values()))
    return set().union(*map(tensor_dtypes, code)) if isinstance(code, (list, tuple)) else set()


def different_strides(code: Any, wanted: Any) -> str | None:
    if code[0] == "tensor" and wanted[0] == "tensor":
        (_, _, shape, strides, *_), (_, _, _, expected, *_) = code, wanted
        if 0 in shape or all(one == two or size == 1 for size, one, two in zip(shape, strides, expected, strict=True)):
            return None
        return f"strides {strides} instead of {expected} for shape {shape}"
    if code[0] in ("list", "tuple"):
        return next(filter(None, map(different_strides, code[1], wanted[1])), None)
    return None


def different(
    code: Any, wanted: Any, exact: bool = True, tolerance: float = 0.0, gradients: bool = False
) -> str | None:
    """What differs between two descriptions of results, or None; without `exact` only dtypes and shapes count."""
    if gradients and ("plain", None) in (code, wanted) and code != wanted:
        tensor = code if wanted == ("plain", None) else wanted
        if tensor[0] == "tensor" and not np.any(numbers(tensor)):
            return None
    if code[0] != wanted[0] and {code[0], wanted[0]} != {"list", "tuple"}:
        return f"a {describe(code)} instead of a {describe(wanted)}"
    if code[0] in ("list", "tuple"):
        if len(code[1]) != len(wanted[1]):
            return f"{len(code[1])} results instead of {len(wanted[1])}"
        for index, (one, two) in enumerate(zip(code[1], wanted[1], strict=True)):
            problem = different(one, two, exact, tolerance, gradients)
            if problem:
                return f"result {index}: {problem}" if len(code[1]) > 1 else problem
        return None
    if code[0] == "sparse":
        if code[1] != wanted[1] or code[3:5] != wanted[3:5]:
            return f"{code[1]} {code[3:5]} instead of {wanted[1]} {wanted[3:5]}"
        return next(
            filter(None, (different(*pair, exact, tolerance) for pair in zip(code[2], wanted[2], strict=True))), None
        )
    if code[0] == "tensor":
        if code[1] != wanted[1]:
            return f"{code[1]} instead of {wanted[1]}"
        if code[2] != wanted[2]:
            return f"shape {code[2]} instead of {wanted[2]}"
        floor = 1.0 if gradients else 0.0  # sums of gradients that cancel
        return different_numbers(numbers(code), numbers(wanted), tolerance, floor) if exact else None
    if code[0] == "plain" and exact:
        one, two = code[1], wanted[1]
        if isinstance(two, (float, complex)) and isinstance(one, (float, complex)):
            return different_numbers(np.asarray(one), np.asarray(two), tolerance)
        same = type(one) is type(two) and (np.array_equal(one, two) if isinstance(two, np.ndarray) else one == two)
        return None if same else f"{one!r} instead of {two!r}"
    return None if code == wanted or not exact else f"{code} instead of {wanted}"


def describe(code: Any) -> str:
    return repr(code[1]) if code[0] == "plain" else code[0]


def numbers(code: Any) -> np.ndarray:
    tensor = decode((*code[:5], False))
    if tensor.dtype.is_complex:
        return tensor.to(torch.complex128).numpy()
    return tensor.to(torch.float64).numpy() if tensor.dtype.is_floating_point else tensor.numpy()


def different_numbers(one: np.ndarray, two: np.ndarray, tolerance: float, floor: float = 0.0) -> str | None:
    if not np.issubdtype(two.dtype, np.inexact):
        wrong = one != two
        kind = "integers"
    elif np.issubdtype(two.dtype, np.complexfloating):
        parts = [different_numbers(part(one), part(two), tolerance, floor) for part in (np.real, np.imag)]
        if not any(parts) or (
            np.isfinite(two).all()
            and np.allclose(one, two, tolerance, tolerance * (floor + float(np.mean(np.abs(two)))))
        ):
            return None
        return parts[0] or parts[1]
    else:
        finite = np.isfinite(two)
        scale = floor + (float(np.mean(np.abs(two[finite]))) if finite.any() else 0.0)
        with np.errstate(invalid="ignore", over="ignore"):
            near = np.abs(one - two) <= tolerance * (np.abs(two) + scale)
        if tolerance >= TOLERANCE["float16"]:
            finite |= np.isfinite(
                one
            )  # PyTorch may have rounded on the way to the result, and left the range of halves
            near |= np.isfinite(one) & ~np.isfinite(two)
        same = (one == two) | (np.isnan(one) & np.isnan(two)) | (finite & np.isfinite(one) & near)
        wrong = ~same
        kind = "values"
        if np.any(wrong & ~finite) or np.any(wrong & ~np.isfinite(one)):
            kind = "non-finite values"
    if not np.any(wrong):
        return None
    place = tuple(int(index) for index in np.argwhere(wrong)[0]) if wrong.ndim else ()
    return f"{kind}: {int(np.sum(wrong))} of {wrong.size} differ, first {one[place]!r} instead of {two[place]!r} at {place}"
