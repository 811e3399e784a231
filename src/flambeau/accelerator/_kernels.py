"""Ops from users' kernels: the text for one item, on every device."""

from __future__ import annotations

import ast
import inspect
import operator
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as fb
from flambeau import _C
from flambeau._registry.signatures import parse_signature
from flambeau.accelerator._calls import bind, call_by_name, common_device, gradients_of, records
from flambeau.autograd.function import Function
from flambeau.errors import ArgumentError, DTypeError, StateError

_RESERVED = {"item", "g", "T", "ix", "grad", "items"}
_NUMBERS: dict[str, Callable[[Any], Any]] = {"int": operator.index, "float": float, "bool": bool}


class Kernel:
    """An op that :func:`kernel` made. Call it as its signature says.

    Attributes:
        name: its name, which errors, profiles and coverage() show.
        arguments: the names of its arguments.
        results: the names of its results.
        body: the text.

    Example:
        >>> double = fb.accelerator.kernel("double(Tensor x) -> Tensor", "STORE_out(item, 2 * LOAD_x(item));")
        >>> double.name, double.arguments, double.results
        ('double', ('x',), ('out',))
    """

    def __init__(
        self,
        signature: str,
        body: str,
        *,
        functions: str = "",
        outputs: Callable[..., Any] | None = None,
        items: Callable[..., int] | None = None,
        gradient: Callable[..., Any] | None = None,
        errors: Sequence[str] = (),
    ) -> None:
        try:
            parsed = parse_signature(signature)
        except (ValueError, RuntimeError) as error:
            raise ArgumentError(f"kernel: {error}; expected a signature like 'shift(Tensor x, int by=1) -> Tensor'") from None
        self.name, self.body, self.functions = parsed.name, textwrap.dedent(body).strip("\n"), textwrap.dedent(functions).strip("\n")
        self.__name__ = self.__qualname__ = self.name
        self.arguments: tuple[str, ...] = tuple(p.name for p in parsed.parameters)
        returns = (("Tensor", "out"),) if isinstance(parsed.returns, str) else parsed.returns
        self.results: tuple[str, ...] = tuple(name for _, name in returns)
        self._types = [p.type for p in parsed.parameters]
        self._outputs, self._items, self._gradient, self._errors = outputs, items, gradient, list(errors)
        for kind, name in [*((p.type, p.name) for p in parsed.parameters), *returns]:
            if kind not in ("Tensor", *_NUMBERS) or (name in self.results and kind != "Tensor"):
                raise ArgumentError(f"{self.name}: '{name}' has type {kind}; kernels take Tensor, int, float and bool and return Tensor")
            if name in _RESERVED or (*self.arguments, *self.results).count(name) > 1:
                raise ArgumentError(f"{self.name}: the name '{name}' has another meaning in the kernel; take another one")
        if "Tensor" not in self._types:
            raise ArgumentError(f"{self.name}: expected a Tensor among the arguments")
        place = inspect.Parameter.POSITIONAL_OR_KEYWORD
        defaults = [inspect.Parameter.empty if p.default is None else ast.literal_eval(p.default) for p in parsed.parameters]
        parameters = [inspect.Parameter(name, place, default=value) for name, value in zip(self.arguments, defaults, strict=True)]
        self.__signature__ = inspect.Signature(parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = list(bind(self.name, self.__signature__, args, kwargs))
        for i, (kind, name) in enumerate(zip(self._types, self.arguments, strict=True)):
            if kind == "Tensor":
                if not isinstance(values[i], _C.Tensor):
                    raise TypeError(f"{self.name}: argument '{name}' must be a tensor, got {type(values[i]).__name__}")
                continue
            try:
                values[i] = _NUMBERS[kind](values[i])
            except (TypeError, ValueError):
                raise TypeError(f"{self.name}: argument '{name}' must be {kind}, got {values[i]!r}") from None
        made = _Kernel.apply(self, *values) if records(values) else self._run(values)
        return made if len(self.results) > 1 else made[0]

    def _run(self, values: Sequence[Any]) -> tuple[Any, ...]:
        known = dict(zip(self.arguments, values, strict=True))
        tensors = {name: value for name, value in known.items() if isinstance(value, _C.Tensor)}
        device = common_device(self.name, tensors, numbers=False)
        for name, value in tensors.items():
            if value.dtype.is_complex or value.layout != fb.strided:
                raise DTypeError(f"{self.name}: argument '{name}' is {value.dtype}, {value.layout}; kernels take real, strided tensors")
        if self._outputs is None:
            made = fb.empty_like(next(iter(tensors.values())), memory_format=fb.contiguous_format)
        else:
            made = call_by_name(f"{self.name}, outputs", self._outputs, known)
        results = tuple(made) if isinstance(made, tuple | list) else (made,)
        if len(results) != len(self.results):
            raise TypeError(f"{self.name}: outputs gave {len(results)} tensors; the signature has {', '.join(self.results)}")
        for name, result in zip(self.results, results, strict=True):
            if not isinstance(result, _C.Tensor) or result.device != device or not result.is_contiguous():
                raise TypeError(f"{self.name}: outputs must give a contiguous tensor on '{device}' for '{name}', got {_shown(result)}")
        if device.type == "meta":
            return results
        items = results[0].numel()
        if self._items is not None:
            all_known = {**known, **dict(zip(self.results, results, strict=True))}
            items = operator.index(call_by_name(f"{self.name}, items", self._items, all_known))
        pointers = [*zip(self.results, results, strict=True), *((name, value.detach().contiguous()) for name, value in tensors.items())]
        numbers = [(name, value) for name, value in known.items() if name not in tensors]
        body, functions = f'#line 1 "{self.name}"\n{self.body}\n', f'#line 1 "{self.name}.functions"\n{self.functions}\n'
        said = _C.accelerator_work(
            self.name, body, functions if self.functions else "", pointers, numbers, results[0].dtype, items, self._errors
        )
        if said:
            raise StateError(self._explained(said, device))
        return results

    def _explained(self, said: str, device: Any) -> str:
        """A compiler's message, with the line of the text it refers to."""
        message = f"{self.name}: the kernel cannot be built for '{device}'"
        place = re.search(rf"{re.escape(self.name)}(\.functions)?\"?[:(](\d+)", said)
        if place:
            lines = (self.functions if place.group(1) else self.body).split("\n")
            number = int(place.group(2))
            if 1 <= number <= len(lines):
                where = "its functions" if place.group(1) else "the kernel"
                message += f", line {number} of {where}:\n    {lines[number - 1].strip()}"
        return f"{message}\n{said.strip()}"

    def __repr__(self) -> str:
        return f"<kernel {self.name}{self.__signature__}>"


def _shown(value: Any) -> str:
    if not isinstance(value, _C.Tensor):
        return type(value).__name__
    return f"one on '{value.device}'" + ("" if value.is_contiguous() else ", not contiguous")


class _Kernel(Function):
    """A kernel in the graph."""

    @staticmethod
    def forward(kernel: Kernel, *values: Any) -> Any:
        return kernel._run(values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.kernel, *values = inputs
        ctx.numbers = [None if isinstance(value, _C.Tensor) else value for value in values]
        ctx.count = len(output)
        ctx.save_for_backward(*output, *(value if isinstance(value, _C.Tensor) else None for value in values))
        ctx.mark_non_differentiable(*(t for t in output if not t.dtype.is_floating_point))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        kernel: Kernel = ctx.kernel
        if kernel._gradient is None:
            raise StateError(f"{kernel.name}: this kernel has no gradient; make it with gradient=, or detach() its arguments")
        results, saved = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        values = [number if value is None else value for number, value in zip(ctx.numbers, saved, strict=True)]
        known = {**dict(zip(kernel.arguments, values, strict=True)), **dict(zip(kernel.results, results, strict=True))}
        known |= {f"grad_{name}": grad for name, grad in zip(kernel.results, grads, strict=True)}
        known["grad"] = grads[0]
        return None, *gradients_of(kernel.name, kernel._gradient, known, values, ctx.needs_input_grad[1:])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], kernel: Kernel, *values: Any) -> Any:
        """One call per example."""
        rows = []
        for i in range(info.batch_size):
            own = [value if dim is None else value.select(dim, i) for value, dim in zip(values, in_dims[1:], strict=True)]
            rows.append(_Kernel.apply(kernel, *own))
        return tuple(fb.stack(row) for row in zip(*rows, strict=True)), (0,) * len(kernel.results)


def kernel(
    signature: str,
    body: str,
    *,
    functions: str = "",
    outputs: Callable[..., Any] | None = None,
    items: Callable[..., int] | None = None,
    gradient: Callable[..., Any] | None = None,
    errors: Sequence[str] = (),
) -> Kernel:
    """Makes an op from the text of a kernel, for every device: C that runs once for each item.

    In the text, ``item`` is the number of the item. A tensor ``x`` is memory without gaps: ``LOAD_x(i)`` is its element i
    as a number, ``STORE_out(i, value)`` writes one, ``g.x_shape[0]`` is a size. Numbers of the call are members of ``g``
    too. ``T`` is the type
    that the first result is computed in, ``ix`` that of indices, and there are i8 … u64, f32 and f64, C's mathematical
    functions without a letter at the end, and ``FAIL(code, index)``. Each result has to be written wholly.

    Accelerators compile the text by their driver, the CPU by the system's C++ compiler; programs are kept on disk.

    Args:
        signature: name, arguments (Tensor, int, float, bool) and results: ``-> Tensor`` for one that is called ``out``,
            ``-> (Tensor values, Tensor indices)`` for several.
        body: what one item does.
        functions: C functions that the body calls; they begin with FN.
        outputs: creates the results' memory from the arguments named by its parameters. By default one tensor like the first.
        items: how many items there are, from arguments and results by name; by default the elements of the first result.
        gradient: takes what it needs of arguments, results and ``grad_<result>`` (or ``grad``, of the first) by name, and
            returns a gradient or None for each tensor argument, alone where there is one. Another kernel will do.
        errors: what FAIL(0, index), FAIL(1, index) … mean, as texts that may contain {index}: IndexErrors.

    Returns:
        The op.

    Example:
        >>> shift = fb.accelerator.kernel(
        ...     "shift(Tensor x, int by=1) -> Tensor",
        ...     "STORE_out(item, item >= g.by ? LOAD_x(item - g.by) : (T)0);",
        ...     gradient=lambda grad, by: fb.cat([grad[by:], grad.new_zeros(by)]),
        ... )
        >>> x = fb.tensor([1.0, 2.0, 3.0], device="sim", requires_grad=True)
        >>> y = shift(x)
        >>> y.detach().cpu()
        tensor([0., 1., 2.])
        >>> y.sum().backward()
        >>> x.grad.cpu()
        tensor([1., 1., 0.])
    """
    return Kernel(signature, body, functions=functions, outputs=outputs, items=items, gradient=gradient, errors=errors)
