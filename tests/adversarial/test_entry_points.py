"""Adversarial objects in the place of every argument of every entry point: an error or a result, and sound tensors."""

from __future__ import annotations

import inspect
import os
import types
from functools import partial
from typing import Any

import pytest
from tests.ops.fuzz_calls import samples_of
from tests.ops.fuzz_functional import FUNCTIONS
from tests.ops.fuzz_values import as_is
from tests.ops.registry import FUNCTION, INPLACE, METHOD, OUT, overloads
from tests.ops.spec import find, is_tensor
from tests.ops.test_fuzz import LEAKS, consistent

import flambeau as fb

from .objects import ADVERSARIES

OPS = overloads()
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]


def attempt(what: str, call: Any, *tensors: Any) -> None:
    """The call ends with a result or with an error that a caller can understand, and leaves the tensors sound."""
    try:
        call()
    except (SystemError, RecursionError) as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    except Exception as error:
        leak = [word for word in LEAKS if word in str(error)]
        assert not leak, f"{what}: internal error text {error}"
    try:
        consistent([t for t in tensors if not emptied(t)])
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from None


def emptied(t: Any) -> bool:
    """Whether the memory was taken away on purpose; reading such a tensor is an error of its own."""
    return t.device.type == "meta" or t.untyped_storage().nbytes() == 0


def places(sample: Any) -> list[Any]:
    return [*range(len(sample.args)), *sample.kwargs]


def some(turn: int) -> list[tuple[str, Any]]:
    """A quarter of the adversaries, another one each turn; all of them where the fuzzer digs deep (make guard)."""
    every = list(ADVERSARIES.items())
    return every if "FLAMBEAU_FUZZ" in os.environ else every[turn % 4 :: 4]


def attack(name: str, function: Any, sample: Any) -> None:
    for turn, place in enumerate(places(sample), len(name)):
        for kind, make in some(turn):
            args = [as_is(a)() for a in sample.args]
            kwargs = {k: as_is(v)() for k, v in sample.kwargs.items()}
            tensors = [a for a in (*args, *kwargs.values()) if is_tensor(a)]
            target: Any = args if isinstance(place, int) else kwargs
            target[place] = make(next((t for t in tensors if t is not target[place]), fb.ones(3)))
            attempt(f"{name} with {kind} as argument {place}", partial(function, *args, **kwargs), *tensors)


@pytest.mark.parametrize("name", OPS)
def test_ops(name):
    rows, samples = OPS[name], samples_of(name)
    if not samples:
        pytest.skip("the op has no row of samples")
    function = find(name) if not all(o.flags & (METHOD | INPLACE) and not o.flags & FUNCTION for o in rows) else None
    short = name.rpartition(".")[2]
    longest = max(samples, key=lambda s: len(places(s)))
    if function is not None:
        attack(name, function, longest)
        if rows[0].flags & OUT:
            x = [as_is(a)() for a in longest.args]
            for kind, make in some(len(name)):
                out = make(next((t for t in x if is_tensor(t)), fb.ones(3)))
                attempt(f"{name} with out={kind}", lambda out=out: function(*[as_is(a)() for a in longest.args], out=out))
    elif longest.args:
        attack(name, lambda x, *rest, **kw: getattr(x, short)(*rest, **kw), longest)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    attack(name, find(name), max(FUNCTIONS[name][1], key=lambda s: len(places(s))))


MEMBERS = sorted(n for n in dir(fb.Tensor) if n not in OPS and not (n.endswith("_") and n[:-1] in OPS) and n != "__class__")


EVERY = pytest.mark.parametrize("kind", ADVERSARIES)


@pytest.mark.parametrize("name", MEMBERS)
def test_members_of_tensor(name):
    """Methods, operators and properties that are not ops: called with one to three adversaries, or set to one."""
    is_property = isinstance(inspect.getattr_static(fb.Tensor, name), (property, types.GetSetDescriptorType))

    def called(x: Any, make: Any, count: int) -> None:
        member = getattr(x, name)
        if callable(member):
            member(*[make(x) for _ in range(count)])

    for kind, make in ADVERSARIES.items():
        for count in (1, 2, 3):
            x = fb.arange(6.0).reshape(2, 3)
            if is_property:
                attempt(f"x.{name} = {kind}", partial(put, x, name, make), x)
            else:
                attempt(f"x.{name} with {count} of {kind}", partial(called, x, make, count), x)


def put(x: Any, name: str, make: Any) -> None:
    setattr(x, name, make(x))


@EVERY
def test_indices(kind):
    make = ADVERSARIES[kind]

    def write(x: Any, index: Any, value: Any) -> None:
        x[index] = value

    indices = (make, lambda x: (0, make(x)), lambda x: (slice(make(x), None), ...), lambda x: [make(x), slice(None)])
    for i, index in enumerate(indices):
        for how, call in (("read", lambda x, index=index: x[index(x)]), ("written", lambda x, index=index: write(x, index(x), 1))):
            x = fb.arange(6.0).reshape(2, 3)
            attempt(f"index {i} with {kind} is {how}", partial(call, x), x)
    x = fb.arange(6.0).reshape(2, 3)
    attempt(f"x[0] = {kind}", lambda: write(x, 0, make(x)), x)


CONSTRUCTORS = (
    "tensor", "as_tensor", "asarray", "from_numpy", "from_dlpack", "Tensor", "LongTensor", "Size", "device", "Generator", "zeros",
    "empty", "broadcast_shapes", "numel", "is_tensor", "is_storage", "result_type", "typename", "stack", "cat", "sparse_coo_tensor",
    "UntypedStorage", "manual_seed", "vmap", "dtype", "einsum", "meshgrid", "block_diag", "cartesian_prod", "can_cast", "promote_types",
)  # fmt: skip
AROUND = (lambda a: (a,), lambda a: ([a, a],), lambda a: ([[1, a], [2, 3]],), lambda a: (fb.ones(2), a), lambda a: (2, a))


@EVERY
def test_constructors(kind):
    make = ADVERSARIES[kind]
    for name in CONSTRUCTORS:
        function = getattr(fb, name)
        for around in AROUND:
            victim = fb.arange(6.0)
            attempt(f"{name} of {kind}", lambda f=function, v=victim, around=around: f(*around(make(v))), victim)
        for key in ("dtype", "device", "requires_grad", "size", "index"):
            attempt(f"{name} with {key}={kind}", lambda f=function, key=key: f(2, **{key: make(fb.ones(2))}))


@EVERY
def test_frombuffer(kind):
    make = ADVERSARIES[kind]
    attempt(f"frombuffer of {kind}", lambda: fb.frombuffer(make(fb.ones(2)), dtype=fb.float32))
    for key in ("dtype", "count", "offset"):
        given = {"dtype": fb.uint8, key: make(fb.ones(2))}
        attempt(f"frombuffer with {key}={kind}", partial(fb.frombuffer, bytearray(8), **given))


# Functions of the core below the public API: those that take addresses trust their callers, those that change the process
# for good are not for tests.
TRUSTING = (
    "from_address", "shared_", "deliberate_", "define", "set_", "show_package", "push_", "pop_", "reset_",
    "profile_", "_set_", "read_summed", "write_summed", "clear_", "mark_", "take_capsule",
)  # fmt: skip
CORE = sorted(
    n for n in dir(fb._C) if not n.startswith(("__", *TRUSTING)) and isinstance(getattr(fb._C, n), types.BuiltinFunctionType)
)
CALLS = (
    *AROUND, lambda a: (), lambda a: (a, a), lambda a: (a, 1, a), lambda a: ((a,), (a,), True, False, None),
    lambda a: (fb.ones(2), fb.float32, a, a, 0), lambda a: ((a, a), fb.float32),
)  # fmt: skip


@pytest.mark.parametrize("name", CORE)
def test_functions_of_the_core(name):
    function = getattr(fb._C, name)
    for kind, make in ADVERSARIES.items():
        for around in CALLS:
            victim = fb.arange(6.0)
            attempt(f"_C.{name} of {kind}", lambda v=victim, around=around, make=make: function(*around(make(v))), victim)


GRADIENTS = {
    **ADVERSARIES,
    "other shape": lambda _: fb.ones(7, 7),
    "other dtype": lambda _: fb.ones(2, 3, dtype=fb.int8),
    "empty": lambda _: fb.empty(0),
    "0-d": lambda _: fb.ones(()),
    "complex": lambda _: fb.ones(2, 3, dtype=fb.complex64),
}


@pytest.mark.parametrize("where", ["tensor", "node before", "node after", "leaf", "function", "saved"])
def test_gradients_from_python(where):
    """Hooks and functions that return something other than the gradient they should."""

    def answered(x: Any, make: Any, around: Any) -> None:
        gradient_with(where, x, lambda *_: around(make(x.detach())))

    for kind, make in GRADIENTS.items():
        for around in (lambda a: a, lambda a: (a,), lambda a: (a, a), lambda a: [a]):
            x = fb.arange(6.0).reshape(2, 3).requires_grad_()
            attempt(f"{kind} from a hook on {where}", partial(answered, x, make, around), x)


def gradient_with(where: str, x: Any, answer: Any) -> None:
    class Doubled(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return answer(g)

    if where == "saved":
        with fb.autograd.graph.saved_tensors_hooks(lambda t: t, answer):
            y = fb.nn.functional.layer_norm(x * x, (3,)).softmax(1)
    elif where == "function":
        y = Doubled.apply(x)
    else:
        y = fb.nn.functional.layer_norm(x * x, (3,)).cumsum(0)
        if where == "tensor":
            y.register_hook(answer)
        elif where == "node before":
            y.grad_fn.register_prehook(answer)
        elif where == "node after":
            y.grad_fn.register_hook(answer)
        else:
            x.register_post_accumulate_grad_hook(answer)
    y.sum().backward()


def test_switches_pass_on_what_bool_raises():
    class Undecided:
        def __bool__(self) -> bool:
            raise KeyError("neither")

    for name in ("set_grad", "set_draws_in_vmap", "set_accelerator_strict", "set_accelerator_kernels"):
        with pytest.raises(KeyError, match="neither"):
            getattr(fb._C, name)(Undecided())
