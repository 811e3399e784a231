"""A pickle machine that builds data and cannot call anything: names refer to entries of a fixed table."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from flambeau._files import classes
from flambeau._files.problems import MAX_CONTAINERS, FileError, ForbiddenError, Keys

_ONLY_DICTS = "Can only {} for dict, collections.OrderedDict, collections.Counter: the pickle sets items of something else"


@dataclasses.dataclass(frozen=True, eq=False)
class Known:
    """The meaning of a name in a pickle.

    Args:
        name: the full name.
        make: what REDUCE builds from the arguments.
        blank: what NEWOBJ builds from the arguments, to be filled by BUILD.
        kind: the Python type, for names that may serve as an argument (defaultdict's factory).
        fill: what BUILD does to an object that `make` or `blank` built.
        value: the class or function itself, when a file may hold it as data.
        module: the module part of the name, for names with dots (Outer.Inner).
    """

    name: str
    make: Callable[..., Any] | None = None
    blank: Callable[..., Any] | None = None
    kind: Any = None
    fill: Callable[[Budget, Any, Any], None] | None = None
    value: Any = None
    module: str = ""


class Fillable:
    """An object of a table entry whose state is set by BUILD."""

    def build(self, state: Any) -> None:
        """Takes the state."""
        raise FileError(f"{type(self).__name__} takes no state")


class Budget:
    """Limits what a pickle may copy to a few times its own size, however often it refers to the same object."""

    def __init__(self, size: int) -> None:
        self._left = 8 * size + (1 << 20)
        self._used: dict[int, int] = {}

    def spend(self, count: int) -> None:
        """Accounts for copied elements or bytes."""
        self._left -= count
        if self._left < 0:
            raise FileError("the pickle copies the same data again and again")

    def use(self, t: Any) -> None:
        """Accounts for reading every element of a tensor: a pickle can name the same storage many times."""
        used = self._used[t._storage_ptr()] = self._used.get(t._storage_ptr(), 0) + t.numel() * t.itemsize
        if used > 64 * t._storage_nbytes() + (1 << 20):
            raise FileError("the pickle uses the same storage again and again")


class Machine:
    """Runs the opcodes of one pickle.

    Args:
        find: gives the Known (or plain value) for a module and a name, or raises.
        persistent: gives the object for a persistent id: a storage.
        budget: limits copies.
        encoding: of the byte strings that Python 2 wrote; "bytes" keeps them.
    """

    def __init__(
        self, find: Callable[[str, str], Any], persistent: Callable[[Any], Any], budget: Budget, encoding: str = "utf-8"
    ) -> None:
        self._find, self._persistent, self._budget, self._encoding = find, persistent, budget, encoding
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._keys = Keys()
        self._containers = 0
        self._named: dict[int, Known] = {}  # by the address of what a file may hold as data
        self._fillable: dict[int, tuple[Any, Known]] = {}  # includes the object, so that its address is not reused

    def run(self, words: Iterable[tuple[str, Any, int]]) -> Any:
        """The object."""
        # Functions, not bound methods: a cycle would keep what was loaded alive until the next garbage collection.
        table = {name[3:]: step for name, step in vars(Machine).items() if name.startswith("op_")}
        for name, argument, position in words:
            if name == "STOP":
                return self._pop()
            step = table.get(name)
            if step is None:
                what = b".".join(argument).decode("utf-8", "replace") if name == "INST" else "an object"
                raise ForbiddenError(
                    f"the opcode {name} at position {position} would make {what} by running code, which loading never does"
                )
            step(self, argument)
        raise FileError("the pickle does not end")

    # ---- the stack

    def _pop(self) -> Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            raise FileError("the pickle takes more from its stack than there is")
        return self._stack.pop()

    def _top(self, kind: Any, only: str = "") -> Any:
        if not self._stack or not isinstance(self._stack[-1], kind):
            raise ForbiddenError(only) if only else FileError("the pickle adds to something that is not a container")
        return self._stack[-1]

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _container(self, value: Any) -> None:
        self._containers += 1
        if self._containers > MAX_CONTAINERS:
            raise FileError(f"more than {MAX_CONTAINERS} containers")
        self._stack.append(value)

    def _marked(self) -> list[Any]:
        if not self._marks:
            raise FileError("the pickle closes a group it never opened")
        begin = self._marks.pop()
        items = self._stack[begin:]
        del self._stack[begin:]
        return items

    def op_PROTO(self, version):
        if version > 5:
            raise FileError(f"pickle protocol {version}; 0 to 5 are read")

    def op_FRAME(self, size):
        """Ignored: frames only help stream readers."""

    def op_MARK(self, _):
        if len(self._marks) >= 10_000:
            raise FileError("more than 10000 open groups in the pickle")
        self._marks.append(len(self._stack))

    def op_POP(self, _):
        if self._marks and len(self._stack) == self._marks[-1]:
            self._marks.pop()
        else:
            self._pop()

    def op_POP_MARK(self, _):
        self._marked()

    def op_DUP(self, _):
        self._push(self._top(object))

    # ---- plain values

    def op_NONE(self, _):
        self._push(None)

    def op_NEWTRUE(self, _):
        self._push(True)

    def op_NEWFALSE(self, _):
        self._push(False)

    def op_INT(self, text):
        self._push({b"00": False, b"01": True}[text] if text in (b"00", b"01") else int(text))

    def op_LONG(self, text):
        self._push(int(text.rstrip(b"L")))

    def op_FLOAT(self, text):
        self._push(float(text))

    op_BININT = op_BININT1 = op_BININT2 = op_LONG1 = op_LONG4 = op_BINFLOAT = lambda self, value: self._push(value)
    op_BINUNICODE = op_SHORT_BINUNICODE = op_BINUNICODE8 = lambda self, value: self._push(value)
    op_BINBYTES = op_SHORT_BINBYTES = op_BINBYTES8 = lambda self, value: self._push(value)

    def op_BYTEARRAY8(self, value):
        self._push(bytearray(value))

    def op_UNICODE(self, text):
        self._push(text.decode("raw-unicode-escape"))

    def op_STRING(self, text):
        if len(text) < 2 or text[:1] not in b"'\"" or text[:1] != text[-1:]:
            raise FileError("a text without quotes")
        self.op_BINSTRING(text[1:-1].decode("unicode-escape").encode("latin-1"))

    def op_BINSTRING(self, value):
        self._push(value if self._encoding == "bytes" else value.decode(self._encoding))

    op_SHORT_BINSTRING = op_BINSTRING

    # ---- containers

    def op_EMPTY_TUPLE(self, _):
        self._push(())

    def op_TUPLE(self, _):
        self._container(tuple(self._marked()))

    def op_TUPLE1(self, _):
        self._container((self._pop(),))

    def op_TUPLE2(self, _):
        second = self._pop()
        self._container((self._pop(), second))

    def op_TUPLE3(self, _):
        third, second = self._pop(), self._pop()
        self._container((self._pop(), second, third))

    def op_EMPTY_LIST(self, _):
        self._container([])

    def op_LIST(self, _):
        self._container(self._marked())

    def op_APPEND(self, _):
        value = self._pop()
        self._append(self._top((list, collections.deque)), [value])

    def op_APPENDS(self, _):
        values = self._marked()
        self._append(self._top((list, collections.deque)), values)

    @staticmethod
    def _append(target: Any, values: list[Any]) -> None:
        # The methods of list and dict themselves: those of a derived class must not run.
        (list if isinstance(target, list) else collections.deque).extend(target, values)

    def op_EMPTY_DICT(self, _):
        self._container({})

    def _set_pairs(self, target: dict, items: list[Any]) -> None:
        if len(items) % 2:
            raise FileError("a dict with a key but no value")
        put: Any = collections.OrderedDict.__setitem__ if isinstance(target, collections.OrderedDict) else dict.__setitem__
        for i in range(0, len(items), 2):
            put(target, self._keys.check(items[i]), items[i + 1])

    def op_DICT(self, _):
        made: dict[Any, Any] = {}
        self._set_pairs(made, self._marked())
        self._container(made)

    def op_SETITEM(self, _):
        value, key = self._pop(), self._pop()
        self._set_pairs(self._top(dict, _ONLY_DICTS.format("SETITEM")), [key, value])

    def op_SETITEMS(self, _):
        items = self._marked()
        self._set_pairs(self._top(dict, _ONLY_DICTS.format("SETITEMS")), items)

    def op_EMPTY_SET(self, _):
        self._container(set())

    def op_ADDITEMS(self, _):
        items = self._marked()
        set.update(self._top(set), map(self._keys.check, items))

    def op_FROZENSET(self, _):
        self._container(frozenset(map(self._keys.check, self._marked())))

    # ---- memo

    def op_PUT(self, text):
        self.op_BINPUT(int(text))

    def op_BINPUT(self, index):
        self._memo[index] = self._top(object)

    op_LONG_BINPUT = op_BINPUT

    def op_MEMOIZE(self, _):
        self.op_BINPUT(len(self._memo))

    def op_GET(self, text):
        self.op_BINGET(int(text))

    def op_BINGET(self, index):
        if index not in self._memo:
            raise FileError(f"the pickle refers to its memo {index}, which it never set")
        self._push(self._memo[index])

    op_LONG_BINGET = op_BINGET

    # ---- names and objects

    def _push_name(self, module: str, name: str) -> None:
        found = self._find(module, name)
        if isinstance(found, Known) and found.value is not None:
            self._named[id(found.value)] = found
            found = found.value
        self._push(found)

    def op_GLOBAL(self, lines):
        self._push_name(lines[0].decode(), lines[1].decode())

    def op_STACK_GLOBAL(self, _):
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise FileError("a name that is not text")
        self._push_name(module, name)

    def _built(self, known: Known, made: Any) -> None:
        if known.fill is not None:
            self._fillable[id(made)] = made, known
        self._container(made)

    def op_REDUCE(self, _):
        arguments, function = self._pop(), self._pop()
        function = self._named.get(id(function), function)
        if not isinstance(function, Known) or function.make is None or type(arguments) is not tuple:
            name = function.name if isinstance(function, Known) else type(function).__name__
            raise ForbiddenError(
                f"the pickle calls {name}, which is not a function that loading knows; a function or class that you trust with any "
                "arguments is allowed by torch.serialization.add_safe_globals([...])"
            )
        if function.kind is getattr:
            owner, name = arguments
            owner = self._named.get(id(owner), owner)
            if not isinstance(owner, Known) or not owner.module or type(name) is not str:
                raise ForbiddenError("the pickle takes an attribute of an object, which loading never does")
            self._push_name(owner.module, f"{owner.name[len(owner.module) + 1 :]}.{name}")
            return
        self._built(function, function.make(self._budget, self._keys, *arguments))

    def op_NEWOBJ(self, _):
        arguments, cls = self._pop(), self._pop()
        cls = self._named.get(id(cls), cls)
        if not isinstance(cls, Known) or cls.blank is None or type(arguments) is not tuple:
            name = cls.name if isinstance(cls, Known) else type(cls).__name__
            raise ForbiddenError(f"the pickle makes an object of {name}, which is not a class that loading knows")
        self._built(cls, cls.blank(*arguments))

    def op_BUILD(self, _):
        from flambeau._files import known  # which needs this module

        state = self._pop()
        target = self._top(object)
        if isinstance(target, Fillable):
            target.build(state)
        elif id(target) in self._fillable:
            self._fillable[id(target)][1].fill(self._budget, target, state)
        elif type(target).__module__ == "numpy" and hasattr(target, "setflags"):
            known.fill_array(target, state, self._budget)
        elif isinstance(target, (collections.OrderedDict, collections.Counter)) or classes.can_fill(target):
            known.fill(self._budget, target, state)
        else:
            raise ForbiddenError(f"the pickle sets the state of {type(target).__name__}, which loading never does")

    def op_BINPERSID(self, _):
        self._push(self._persistent(self._pop()))

    def op_PERSID(self, text):
        self._push(self._persistent(text.decode()))
