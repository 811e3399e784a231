"""How many floating point operations a piece of code takes: products of matrices, convolutions and attention.

Example:
    >>> from flambeau.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = fb.ones(2, 3) @ fb.ones(3, 4)
    >>> counter.get_total_flops()
    48
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Self

import flambeau as fb
from flambeau import Tensor
from flambeau._registry import private
from flambeau.nn.grad import convolution_backward
from flambeau.overrides import TorchFunctionMode, reopened

__all__ = ["FlopCounterMode"]
__dir__ = __all__.copy


# ---- formulas: the shapes of the arguments and of the result, one multiplication and one addition counted as two ---------

Formula = Callable[..., int]


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


def _any_conv(
    result: Tensor, input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, *rest: Any
) -> int:
    return (_conv_transpose if transposed else _conv)(result, input, weight)


def _attention(result: Any, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **options: Any) -> int:
    return 2 * math.prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def _recurrent(result: Any, gates: Tensor, weight: Tensor, *rest: Any) -> int:
    """Each step's product of the state with the weight; that of the inputs is a linear map before."""
    return 2 * gates.numel() * weight.shape[-1]


def _einsum(result: Tensor, equation: str, *operands: Any) -> int:
    """Products of two operands, from left to right; what only one of them has and nobody needs later is summed before."""
    tensors = operands[0] if isinstance(operands[0], (list, tuple)) else operands
    terms, _, wanted = equation.replace(" ", "").partition("->")
    sizes: dict[Any, int] = {}
    labels: list[set[Any]] = []
    for term, tensor in zip(terms.split(","), tensors, strict=True):
        before, dots, after = term.partition("...")
        hidden = tensor.dim() - len(before + after) if dots else 0
        own = [*before, *reversed(range(hidden)), *after]  # dimensions behind the dots by their distance from the last
        for label, size in zip(own, tensor.shape, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
        labels.append(set(own))
    letters = terms.replace(",", "")
    kept: set[Any] = set(wanted) if "->" in equation else {letter for letter in letters if letters.count(letter) == 1}
    kept |= {label for label in sizes if isinstance(label, int)}
    total, left = 0, labels[0]
    for i, right in enumerate(labels[1:], 2):
        later = kept.union(*labels[i:])
        total += 2 * math.prod(sizes[label] for label in (left & right) | ((left | right) & later))
        left = (left | right) & later
    return total


def sdpa_flop_count(query_shape: Sequence[int], key_shape: Sequence[int], value_shape: Sequence[int]) -> int:
    """The operations of scaled_dot_product_attention; heads of keys and values may each serve several of the queries.

    Args:
        query_shape, key_shape, value_shape: (batch, heads, length, features).

    Example:
        >>> fb.utils.flop_counter.sdpa_flop_count((1, 8, 16, 4), (1, 2, 32, 4), (1, 2, 32, 4))
        65536
    """
    (batch, heads, queries, features), (_, key_heads, keys, _) = query_shape, key_shape
    expected = (batch, key_heads, keys, features), (batch, key_heads, keys, value_shape[-1])
    if (tuple(key_shape), tuple(value_shape)) != expected or heads % key_heads:
        raise AssertionError(
            f"sdpa_flop_count: key {tuple(key_shape)} and value {tuple(value_shape)} do not fit query {tuple(query_shape)}: batches, "
            "features and lengths must agree, and the heads of the query be a multiple of those of key and value"
        )
    return 2 * batch * heads * queries * keys * (features + value_shape[-1])


def _product_name(a: Tensor, b: Tensor, *rest: Any, **options: Any) -> Callable[..., Any]:
    return fb.mm if b.dim() <= 2 else fb.bmm


def _linear_name(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Callable[..., Any]:
    return fb.mm if bias is None else fb.addmm


def _formulas() -> dict[Callable[..., Any], tuple[Formula, Callable[..., Any]]]:
    """For each function its formula, and the function that it counts as: one, or one that depends on the arguments."""
    f, inner = fb.nn.functional, fb._C.namespaces["_nn"]
    table: dict[Callable[..., Any], tuple[Formula, Callable[..., Any]]] = {
        f.linear: (_linear, _linear_name),
        private.attention: (_attention, f.scaled_dot_product_attention),
        Tensor.__matmul__: (_matmul, _product_name),
        inner["lstm"]: (_recurrent, fb.mm),
        inner["gru"]: (_recurrent, fb.mm),
        inspect.unwrap(fb.einsum): (_einsum, fb.bmm),
        fb.convolution: (_any_conv, fb.convolution),
    }
    for owner in (fb, Tensor):
        table |= {owner.matmul: (_matmul, _product_name), owner.mm: (_matmul, fb.mm), owner.bmm: (_matmul, fb.bmm)}
        table |= {owner.addmm: (_addmm, fb.addmm), owner.baddbmm: (_addmm, fb.baddbmm)}
    for dims in "123":
        for owner in (fb, f):
            table[getattr(owner, f"conv{dims}d")] = (_conv, fb.convolution)
            table[getattr(owner, f"conv_transpose{dims}d")] = (_conv_transpose, fb.convolution)
    return table


# ---- the mode ------------------------------------------------------------------------------------------------------------


class FlopCounterMode(TorchFunctionMode):
    """A block whose floating point operations are counted, in all and by module.

    Counted are matrix products (mm, bmm, matmul, @, addmm, baddbmm), linear maps, convolutions and attention, and their
    gradients when backward runs within the block. Variants of a function count as one: x @ y as mm or bmm, linear maps
    as mm or addmm, all convolutions as convolution and their gradients as convolution_backward.

    Args:
        mods: not needed, and warned about: the modules are found by themselves.
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
        if mods is not None:
            warnings.warn("FlopCounterMode: mods is not needed: modules are found by themselves", stacklevel=2)
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

    # ---- while active
    # ----------------------------------------------------------------------------------------------------

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
            # A function written in Python: the ops it calls are counted.
            with reopened(self):
                return inside(*args, **kwargs)
        result = func(*args, **kwargs)
        if func in self._custom:
            self._count(self._path, func, self._custom[func](*args, out_val=result, **kwargs))
        elif func in self._formulas:
            formula, name = self._formulas[func]
            operations = formula(result, *args, **kwargs)
            if name in (_product_name, _linear_name):
                name = name(*args, **kwargs)
            self._count(self._path, name, operations)
            first = result if isinstance(result, Tensor) else result[0]
            backward = convolution_backward if name is fb.convolution else name
            self._count_backward(backward, first, operations, [*args, *kwargs.values()])
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
