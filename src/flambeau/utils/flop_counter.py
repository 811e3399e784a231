"""How many floating point operations a piece of code takes: products of matrices, convolutions and attention.

Example:
    >>> from flambeau.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = fb.ones(2, 3) @ fb.ones(3, 4)
    >>> counter.get_total_flops()
    48
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self

import flambeau as fb
from flambeau import Tensor
from flambeau._registry import private
from flambeau.overrides import TorchFunctionMode, reopened

__all__ = ["FlopCounterMode"]
__dir__ = __all__.copy


# ---- formulas: the shapes of the arguments and of the result, one multiplication and one addition counted as two ---------


def _matmul(result: Tensor, a: Tensor, b: Tensor, *rest: Any, **options: Any) -> int:
    if a.dim() < 2 or b.dim() < 2:
        return 2 * result.numel() * a.shape[-1] if max(a.dim(), b.dim()) > 1 else 2 * a.shape[-1]
    return 2 * result.numel() * a.shape[-1]


def _addmm(result: Tensor, input: Tensor, a: Tensor, b: Tensor, **options: Any) -> int:
    return 2 * result.numel() * a.shape[-1]


def _linear(result: Tensor, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> int:
    return 2 * result.numel() * input.shape[-1]


def _conv(result: Tensor, input: Tensor, weight: Tensor, *rest: Any, **options: Any) -> int:
    return 2 * result.numel() * math.prod(weight.shape[1:])


def _conv_transpose(result: Tensor, input: Tensor, weight: Tensor, *rest: Any, **options: Any) -> int:
    return 2 * input.numel() * math.prod(weight.shape[1:])


def _attention(result: Any, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **options: Any) -> int:
    return 2 * math.prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def _formulas() -> dict[Callable[..., Any], Callable[..., int]]:
    f = fb.nn.functional
    table: dict[Callable[..., Any], Callable[..., int]] = {
        f.linear: _linear, private.attention: _attention, Tensor.__matmul__: _matmul,
    }  # fmt: skip
    for owner in (fb, Tensor):
        table |= dict.fromkeys((owner.mm, owner.bmm, owner.matmul), _matmul)
        table |= dict.fromkeys((owner.addmm, owner.baddbmm), _addmm)
    for dims in "123":
        for owner in (fb, f):
            table[getattr(owner, f"conv{dims}d")] = _conv
            table[getattr(owner, f"conv_transpose{dims}d")] = _conv_transpose
    return table


# ---- the mode ------------------------------------------------------------------------------------------------------------


class FlopCounterMode(TorchFunctionMode):
    """A block whose floating point operations are counted, in all and by module.

    Counted are matrix products (mm, bmm, matmul, @, addmm, baddbmm), linear maps, convolutions and attention, and their
    gradients when backward runs within the block. Recurrent layers and einsum are not counted.

    Args:
        mods: not needed: the modules are found by themselves.
        depth: how deep the printed table goes into modules.
        display: whether the table is printed at the end of the block.
        custom_mapping: further formulas: {function: formula(*args, out_val=result, **kwargs)}.

    Example:
        >>> from flambeau.utils.flop_counter import FlopCounterMode
        >>> model = fb.nn.Sequential(fb.nn.Linear(3, 4), fb.nn.Linear(4, 2))
        >>> with FlopCounterMode(display=False) as counter:
        ...     model(fb.ones(5, 3)).sum().backward()
        >>> counter.get_total_flops()
        480
    """

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None) -> None:
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self._custom = custom_mapping or {}
        self._path: list[str] = ["Global"]
        self._names: dict[int, str] = {}
        self._handles: list[Any] = []
        self._counting = False

    def get_total_flops(self) -> int:
        """The operations of the whole block."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """{module: {function: operations}}; "Global" is the whole block."""
        return {module: dict(counts) for module, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text, a line per module."""
        deepest = self.depth if depth is None else depth
        lines = [f"{'module':40} {'operations':>16}"]
        for module, counts in self.flop_counts.items():
            if module.count(".") <= deepest:
                lines.append(f"{module:40} {sum(counts.values()):>16,}")
        return "\n".join(lines)

    # ---- while it is open ------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        from flambeau.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

        self.flop_counts.clear()
        self._formulas = _formulas()
        self._handles = [
            register_module_forward_pre_hook(self._into),
            register_module_forward_hook(self._out_of, always_call=True),
        ]
        self._counting = True
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._counting = False
        for handle in self._handles:
            handle.remove()
        if self.display:
            print(self.get_table())

    def _into(self, module: Any, inputs: Any) -> None:
        if len(self._path) == 1:
            self._names = {id(inner): name for name, inner in module.named_modules(prefix=type(module).__name__)}
        self._path.append(self._names.get(id(module), type(module).__name__))

    def _out_of(self, module: Any, inputs: Any, output: Any) -> None:
        self._path.pop()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Computes, and counts."""
        kwargs = kwargs or {}
        inside = getattr(func, "__wrapped__", None)
        if inside is not None and func not in self._custom and func not in self._formulas:
            # A function written in Python: what counts are the ops it calls.
            with reopened(self):
                return inside(*args, **kwargs)
        result = func(*args, **kwargs)
        if func in self._custom:
            self._count(self._path, func, self._custom[func](*args, out_val=result, **kwargs))
        elif func in self._formulas:
            operations = self._formulas[func](result, *args, **kwargs)
            self._count(self._path, func, operations)
            first = result if isinstance(result, Tensor) else result[0]
            self._count_backward(func, first, operations, [*args, *kwargs.values()])
        return result

    def _count(self, path: list[str], func: Callable[..., Any], operations: int) -> None:
        for module in dict.fromkeys(path):
            self.flop_counts[module][func] += operations

    def _count_backward(self, func: Callable[..., Any], result: Tensor, operations: int, inputs: list[Any]) -> None:
        """Each factor's gradient is a product as large as the forward one; those of biases are sums."""
        factors = sum(isinstance(x, Tensor) and x.requires_grad and x.dim() > 1 for x in inputs)
        if result.requires_grad and result.grad_fn is not None and factors:
            path = list(self._path)

            def on_gradient(grad: Tensor) -> None:
                if self._counting:
                    self._count(path, func, factors * operations)

            result.register_hook(on_gradient)
