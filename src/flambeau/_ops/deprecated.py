"""Deprecated argument orders: factors that are keywords today were once positional, next to the tensor they scale.

Each form is one more signature of an op, tried after the current ones, so calls in today's order cost nothing.
"""

import warnings

import flambeau as fb
from flambeau._registry.composite import composite

# The op; its tensors, the first of which is the method's own; the factor of the first one (beta) or None; the factor of
# the rest.
_OPS = (
    ("add", ("input", "other"), None, "alpha"),
    ("sub", ("input", "other"), None, "alpha"),
    ("addcdiv", ("input", "tensor1", "tensor2"), None, "value"),
    ("addcmul", ("input", "tensor1", "tensor2"), None, "value"),
    ("addbmm", ("input", "batch1", "batch2"), "beta", "alpha"),
    ("addmm", ("input", "mat1", "mat2"), "beta", "alpha"),
    ("addmv", ("input", "mat", "vec"), "beta", "alpha"),
    ("addr", ("input", "vec1", "vec2"), "beta", "alpha"),
    ("baddbmm", ("input", "batch1", "batch2"), "beta", "alpha"),
)


def _declare(name: str, order: tuple[str, ...], tensors: tuple[str, ...], **forms: bool) -> None:
    """Declares one older form: arguments in `order`; those that are not tensors are numbers."""
    typed = ", ".join(f"{'Tensor' if arg in tensors else 'Scalar'} {arg}" for arg in order)
    today = ", ".join([*tensors, "*", *(f"{arg}=…" for arg in order if arg not in tensors)])

    def call(*args):
        warnings.warn(
            f"This overload of {name} is deprecated: {name}({', '.join(order)}). Consider {name}({today}) instead.", stacklevel=2
        )
        return getattr(fb, name)(**dict(zip(order, args, strict=True)))

    composite(f"{name}({typed}) -> Tensor", **forms)(call)


for _name, _tensors, _first, _rest in _OPS:
    _own, *_others = _tensors
    if _first is None:  # add(input, alpha, other)
        _declare(_name, (_own, _rest, *_others), _tensors, method=True, inplace=True, out=True)
        continue
    for _factors in ((_first, _rest), (_first,)):  # addmm(beta, input, alpha, mat1, mat2), as a method input.addmm(beta, alpha, …)
        _declare(_name, (_first, _own, *_factors[1:], *_others), _tensors, out=True)
        _declare(_name, (_own, *_factors, *_others), _tensors, function=False, method=True, inplace=True)
