"""Random calls for the fuzzer: spoilt samples, plausible calls with one hostile argument, and some with nothing else.

Tensors come in all memory layouts, some require gradients, and then the gradient is computed too, sometimes twice.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import flambeau as fb

from . import spec as lib
from .catalogue import SPECS
from .fuzz_values import POOLS, Make, as_is, hostile_for
from .registry import FUNCTION, INPLACE, METHOD, OUT, Overload
from .spec import S, find

LOOP_COUNTS = ("niter",)  # asking for 2**62 rounds is slow, not wrong
OUTS = ("", "", "", "empty", "alias", "part", "overlapping", "shifted", "pair", "ints", "text", "none", "strided")
GRADIENTS = ("none", "none", "once", "once", "twice")


def _strided(t: Any) -> Any:
    room = t.new_empty((*t.shape[:-1], 2 * t.shape[-1] + 1))
    room[..., 1::2] = t
    return room[..., 1::2]


def _negative(t: Any) -> Any:
    turned = (slice(None, None, -1),) * t.ndim
    return t[turned].clone(memory_format=fb.contiguous_format)[turned]


def _offset(t: Any) -> Any:
    room = t.new_empty(t.numel() + 3)
    room[3:] = t.reshape(-1)
    return room[3:].view(t.shape)


def _transposed(t: Any) -> Any:
    order = tuple(reversed(range(t.ndim)))
    return t.permute(order).clone(memory_format=fb.contiguous_format).permute(order)


def _window(t: Any) -> Any:
    """Rows that overlap in memory."""
    return t.reshape(-1)[: t.shape[-1]].expand(t.shape)


DISGUISES: tuple[Callable[[Any], Any], ...] = (_strided, _negative, _offset, _transposed, _window, lambda t: t[:1].expand(t.shape))


class Call:
    """One call: its form, its arguments, their memory layout and whether gradients are wanted."""

    def __init__(self, op: Overload, form: str, args: list[Make], kwargs: dict[str, Make], dice: random.Random):
        self.op, self.form, self.args, self.kwargs = op, form, args, kwargs
        self.out = dice.choice(OUTS) if op.flags & OUT and form == "function" else ""
        self.gradient = dice.choice(GRADIENTS)
        self.disguises = [dice.randrange(3 * len(DISGUISES)) for _ in range(len(args) + len(kwargs))]

    def __repr__(self) -> str:
        parts = [m.__name__ for m in self.args] + [f"{k}={m.__name__}" for k, m in self.kwargs.items()]
        target = f", out={self.out}" if self.out else ""
        return f"{self.form} {self.op.name}({'; '.join(parts)}{target}) gradient={self.gradient} layouts={self.disguises}"

    def run(self) -> list[Any]:
        """Makes the call; gives every tensor that came out of it or went into it."""
        leaves: list[Any] = []

        def prepared(value: Any, disguise: int) -> Any:
            if not lib.is_tensor(value):
                return value
            if self.gradient != "none" and (value.is_floating_point() or value.is_complex()):
                value = value.detach().requires_grad_()
                leaves.append(value)
                if self.form == "in-place":
                    value = value.clone()
            if disguise < len(DISGUISES) and value.ndim and value.numel():
                value = DISGUISES[disguise](value)
            return value

        made = [make() for make in (*self.args, *self.kwargs.values())]
        made = [prepared(value, disguise) for value, disguise in zip(made, self.disguises, strict=True)]
        args, kwargs = made[: len(self.args)], dict(zip(self.kwargs, made[len(self.args) :], strict=True))
        tensors = [a for a in made if lib.is_tensor(a)]
        if self.out:
            kwargs["out"] = chosen_out(self.out, tensors)
        name = self.op.name.rpartition(".")[2]
        if self.form == "function":
            result = find(self.op.name)(*args, **kwargs)
        elif not args or not lib.is_tensor(args[0]):
            raise TypeError(f"{name}: no tensor to call the method on")
        else:
            result = getattr(args[0], name + "_" * (self.form == "in-place"))(*args[1:], **kwargs)
        results = [t for t in lib.flat_results(result) if lib.is_tensor(t)]
        return results + tensors + self._differentiate(results, leaves)

    def _differentiate(self, results: list[Any], leaves: list[Any]) -> list[Any]:
        found: list[Any] = []
        for create in (self.gradient == "twice", False) if self.gradient == "twice" else (False,):
            # A view may repeat one element 2**40 times: adding up its gradient would take hours.
            results = [r for r in results if r.requires_grad and r.numel() <= 1 << 20]
            if not results or not leaves:
                break
            # An expanded gradient is what sum() sends back.
            weights = [fb.ones((), dtype=r.dtype).expand(r.shape) for r in results]
            results = [g for g in fb.autograd.grad(results, leaves, weights, create_graph=create, allow_unused=True) if g is not None]
            found += results
        return found


def chosen_out(kind: str, tensors: list[Any]) -> Any:
    """Results wanted in good, wrong and overlapping places."""
    first = tensors[0].detach() if tensors else None
    if kind == "alias" and tensors:
        return first
    if kind == "part" and tensors and first.ndim:
        return first[:1]
    if kind == "overlapping" and tensors and tensors[-1].ndim and tensors[-1].numel():
        return tensors[-1].detach()[:1].expand(tensors[-1].shape)
    if kind == "shifted" and tensors and first.numel() > 1:
        return first.reshape(-1)[1:]
    if kind == "strided" and tensors and first.ndim and first.numel():
        return _strided(first)
    return {"pair": (fb.empty(0), fb.empty(0, dtype=fb.int64)), "text": "x", "none": None, "ints": fb.zeros(2, 3, dtype=fb.int64)}.get(
        kind, fb.empty(0)
    )


@functools.cache
def samples_of(name: str) -> list[S]:
    """The spec row's own samples: valid calls to start from."""
    row = SPECS.get(name) or SPECS.get(name + "_")
    wanted = [d for d in ("float32", "int64", "complex64", "bool", "float64", "bfloat16") if row and d in row.dtypes]
    return [s for d in wanted or (row.dtypes[:1] if row else ()) for s in row.samples(d)]


def _forms(op: Overload) -> list[str]:
    forms = ["function"] * bool(op.flags & FUNCTION) + ["method"] * bool(op.flags & METHOD)
    return forms + ["in-place"] * bool(op.flags & INPLACE) or ["method"]


def _spoilt(dice: random.Random, op: Overload, sample: S) -> Call:
    """A valid call with up to two arguments replaced."""
    args, kwargs = [as_is(a) for a in sample.args], {k: as_is(v) for k, v in sample.kwargs.items()}
    places: list[int | str] = [*range(len(args)), *kwargs]
    for _ in range(dice.choice((0, 1, 1, 1, 2)) if places else 0):
        place = dice.choice(places)
        if isinstance(place, str):
            kwargs[place] = dice.choice(hostile_for(sample.kwargs[place]))
        else:
            args[place] = dice.choice(hostile_for(sample.args[place]))
    return Call(op, dice.choice(_forms(op)), args, kwargs, dice)


def random_call(dice: random.Random, rows: list[Overload], samples: list[S]) -> Call:
    """One call of an op with these signatures."""
    op = dice.choice(rows)
    if samples and (dice.random() < 0.5 or not op.params):
        return _spoilt(dice, op, dice.choice(samples))
    mood = dice.choice(("one", "plausible", "one", "kin", "chaos", "one", "kin"))
    victim = dice.randrange(max(len(op.params), 1)) if mood == "one" else -1
    shared = dice.choice(POOLS["Tensor"][0])
    args: list[Make] = []
    kwargs: dict[str, Make] = {}
    skipped = False
    for i, param in enumerate(op.params):
        hostile = (mood == "chaos" or i == victim) and param.name not in LOOP_COUNTS
        if param.default is not None and not hostile and dice.random() < 0.5:
            skipped = True
            continue
        pool = POOLS[param.kind][1 if hostile else 0]
        if param.kind in ("Tensor", "Operand") and mood == "kin" and dice.random() < 0.67:
            made = shared
        else:
            made = dice.choice(pool)
        if param.keyword_only or skipped:
            kwargs[param.name] = made
        else:
            args.append(made)
    return Call(op, dice.choice(_forms(op)), args, kwargs, dice)
