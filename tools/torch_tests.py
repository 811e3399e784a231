"""A pytest plugin that runs PyTorch's own test files with flambeau as `torch`.

    TORCH_SOURCE=<checkout> PYTHONPATH=tools python -m pytest -p torch_tests --timeout 120 <checkout>/test/test_indexing.py

The checkout needs the folders `test` and `torch/testing` only; `pip install expecttest` provides what they import.
PyTorch's test machinery (`torch.testing._internal`) is loaded from the checkout. Private modules and names that flambeau does
not have are replaced by stand-ins, but only for the machinery and while test files are imported: a test that uses such a
name itself still fails with the AttributeError that a user would see.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import shutil
import sys
import tempfile
import types
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch_report

from flambeau import compat
from flambeau.compat.absent import Placeholder

SOURCE = Path(os.environ.get("TORCH_SOURCE", ""))
if not (SOURCE / "torch" / "testing" / "_internal").is_dir():
    raise SystemExit(
        f"torch_tests: no torch/testing/_internal below TORCH_SOURCE={str(SOURCE)!r}; set it to a PyTorch checkout"
    )
os.environ.setdefault("PYTORCH_TESTING_DEVICE_ONLY_FOR", "cpu")
sys.path.insert(0, str(SOURCE / "test"))
compat.install()

import torch  # noqa: E402, the import hook is installed above


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--share", type=int, default=1, help="run one test in so many, chosen by a checksum of its name")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    share = config.getoption("--share")
    items[:] = [item for item in items if zlib.crc32(item.nodeid.encode()) % share == 0]
    for item in items:
        if torch_report.not_applicable(torch_report.name_of(item.path, SOURCE) + "::" + item.nodeid.partition("::")[2]):
            item.add_marker(pytest.mark.skip(reason="not applicable"))


# Loaded from the checkout; the rest of torch.testing is flambeau's.
FROM_CHECKOUT = ("torch.testing._internal", "torch.testing._comparison", "torch.testing._utils")


class StandIn:
    """An object of PyTorch's internals that flambeau lacks: usable as a decorator, base class, context or empty list."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, key: str) -> StandIn:
        # The test machinery asks decorators for these two.
        if key in ("parametrize_fn", "pytestmark") or key.startswith("__"):
            raise AttributeError(key)
        return StandIn(f"{self._name}.{key}")

    def __call__(self, *args: Any, **options: Any) -> Any:
        decorates = len(args) == 1 and not options and callable(args[0]) and not isinstance(args[0], Placeholder)
        return args[0] if decorates else StandIn(f"{self._name}()")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (StandInBase,)

    def __getitem__(self, key: Any) -> StandIn:
        return StandIn(f"{self._name}[]")

    def __or__(self, other: Any) -> Any:
        return other

    __ror__ = __or__

    def __iter__(self) -> Any:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __lt__(self, other: Any) -> bool:
        return False

    __ge__ = __contains__ = __lt__

    # The machinery compares counters of leaked state before and after a test.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, StandIn) and other._name == self._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __repr__(self) -> str:
        return f"<stand-in for {self._name}>"


class StandInBase:
    """What a class derives from when its base is a stand-in: test files make objects of such classes while they are imported."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.arguments = args, options

    def __getattr__(self, key: str) -> StandIn:
        if key.startswith("__"):
            raise AttributeError(key)
        return StandIn(f"{type(self).__name__}.{key}")


class StandInModule(types.ModuleType):
    """A module of PyTorch's internals that flambeau lacks."""

    __path__: list[str] = []
    __all__ = ["absent"]  # test_ops makes a test for each name and refuses none

    def __getattr__(self, key: str) -> StandIn:
        if key.startswith("__"):
            raise AttributeError(key)
        return StandIn(f"{self.__name__}.{key}")


class StandInLoader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return StandInModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run: names are made when they are asked for."""


class Overlay(importlib.abc.MetaPathFinder):
    """Finds the test machinery in the checkout, everything else in flambeau, and stand-ins for what neither has."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] == "torchgen" or name.startswith(
            ("torch._dynamo.", "torch._inductor.", "functorch.compile")
        ):
            return importlib.machinery.ModuleSpec(name, StandInLoader(), is_package=True)
        if not name.startswith(("torch.", "functorch.")):
            return None
        if name.startswith(FROM_CHECKOUT):
            base = SOURCE / name.replace(".", "/")
            if base.is_dir():
                return importlib.util.spec_from_file_location(
                    name, base / "__init__.py", submodule_search_locations=[str(base)]
                )
            file = base.with_suffix(".py")
            if file.exists() or not name.startswith("torch.testing._internal.generated"):
                return importlib.util.spec_from_file_location(name, file) if file.exists() else None
            return importlib.machinery.ModuleSpec(name, StandInLoader(), is_package=True)  # PyTorch's build makes them
        for finder in () if name.startswith("torch._higher_order_ops") else sys.meta_path:
            if finder is not self:
                try:
                    spec = finder.find_spec(name, path, target)
                except (ImportError, AttributeError):
                    continue
                if spec is not None:
                    return spec
        # mock.patch("torch.x.Class.method") tries to import the class: it is there, and no module.
        parent, _, last = name.rpartition(".")
        if last in vars(sys.modules.get(parent, types)) and not isinstance(sys.modules.get(parent), StandInModule):
            return None
        return importlib.machinery.ModuleSpec(name, StandInLoader(), is_package=True)


def asked_by_machinery() -> bool:
    """Whether a name is asked for by the test machinery, or by a test file while it is imported."""
    frame = sys._getframe(2)
    while frame.f_back is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    file = frame.f_code.co_filename
    if not file.startswith(str(SOURCE)):
        return False
    # Classes are built in frames that know their __qualname__.
    return "torch/testing" in file or frame.f_code.co_name == "<module>" or "__qualname__" in frame.f_locals


def lenient(owner: type, method: str) -> None:
    """Lets a class's attribute look-up hand out stand-ins to the machinery."""
    original = getattr(owner, method)

    def look_up(self: Any, key: str) -> Any:
        try:
            return original(self, key)
        except AttributeError:
            # Which forms of the foreach ops there are is asked for.
            known = key in ("copy", "zero") or key.startswith(("__", "_foreach_"))
            if known or not asked_by_machinery():
                raise
            return type(key, (StandInBase,), {}) if key[0].isupper() else StandIn(key)

    setattr(owner, method, look_up)


CHILD = """\
import importlib.abc, sys


class OnImport(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ("torch", "functorch"):
            return None
        sys.meta_path.remove(self)
        import torch_tests

        return next(filter(None, (finder.find_spec(name, path, target) for finder in sys.meta_path)))


sys.meta_path.insert(0, OnImport())
"""


def tell_children() -> None:
    """Processes that tests start find torch in the same way as soon as they import it."""
    if "TORCH_TESTS_CHILD" in os.environ:
        return
    folder, process = tempfile.mkdtemp(prefix="torch_tests"), os.getpid()
    Path(folder, "sitecustomize.py").write_text(CHILD)
    tools = os.path.dirname(os.path.abspath(__file__))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, tools, os.environ.get("PYTHONPATH")]))
    os.environ["TORCH_TESTS_CHILD"] = "1"
    atexit.register(lambda: os.getpid() == process and shutil.rmtree(folder, ignore_errors=True))


tell_children()
sys.meta_path.insert(0, Overlay())
lenient(sys.modules["flambeau.compat._finder"]._Attributes, "__call__")
lenient(type(torch.ops.aten), "__getattr__")
# Which ops reduce, asked while test_ops is imported: tests are made for these, and an empty list of ops is an error there.
REDUCTIONS = """all amax amin aminmax any argmax argmin count_nonzero linalg_vector_norm logsumexp max mean min nansum prod std
    std_mean sum var var_mean""".split()
type(torch.ops.aten.sum).tags = property(lambda op: (torch.Tag.reduction,) if op._name in REDUCTIONS else ())
internal = sys.modules["torch._utils_internal"] = StandInModule("torch._utils_internal")


def data_file(*parts: str) -> str:
    """A file of the checkout, wherever the package is."""
    path = os.path.join(*parts)
    _, inside, rest = path.partition("/torch/testing/")
    return str(SOURCE / "torch" / "testing" / rest) if inside and not os.path.exists(path) else path


internal.get_file_path = internal.get_file_path_2 = data_file  # type: ignore[attr-defined]
internal.get_writable_path = lambda path: path  # type: ignore[attr-defined]
prims = sys.modules["torch._prims_common"] = StandInModule("torch._prims_common")
prims.dtype_to_type = lambda dtype: type(torch.zeros((), dtype=dtype).item())  # type: ignore[attr-defined]
private = importlib.import_module("torch._utils")
private.__dict__.setdefault("_is_privateuse1_backend_available", bool)


def private_name(key: str) -> StandIn:
    if key.startswith("__") or not asked_by_machinery():
        raise AttributeError(f"module 'torch._utils' has no attribute {key!r}")
    return StandIn(key)


private.__dict__.setdefault("__getattr__", private_name)
if not hasattr(torch.Tensor, "__rdiv__"):  # Python 2's name, which the op database lists
    torch.Tensor.__rdiv__ = torch.Tensor.__rtruediv__
for absent in ("torch._dynamo", "torch._inductor"):
    sys.modules[absent] = StandInModule(absent)
    setattr(torch, absent.rpartition(".")[2], sys.modules[absent])
inductor_utils = StandInModule("torch.testing._internal.inductor_utils")
inductor_utils.maybe_skip_size_asserts = contextlib.nullcontext  # type: ignore[attr-defined]
sys.modules[inductor_utils.__name__] = inductor_utils
# What the op database and test_ops take from PyTorch's reference implementations: the Python type of a dtype, and the function
# below a decorator of theirs that no function here has.
prims, wrappers = StandInModule("torch._prims_common"), StandInModule("torch._prims_common.wrappers")
prims.dtype_to_type = lambda dtype: (  # type: ignore[attr-defined]
    bool if dtype is torch.bool else float if dtype.is_floating_point else complex if dtype.is_complex else int
)
prims.corresponding_complex_dtype = lambda dtype: dtype.to_complex()  # type: ignore[attr-defined]
wrappers._maybe_remove_out_wrapper = lambda function: function  # type: ignore[attr-defined]
prims.wrappers = wrappers  # type: ignore[attr-defined]
refs = StandInModule("torch._refs")
refs.sum = lambda a, dim=None, keepdim=False, *, dtype=None, out=None: None  # type: ignore[attr-defined]  # one with dtype=
sys.modules.update({prims.__name__: prims, wrappers.__name__: wrappers, refs.__name__: refs})
torch._refs = refs
transforms = StandInModule("torch._functorch.eager_transforms")
transforms.jvp = torch.func.jvp  # type: ignore[attr-defined]
transforms._as_tuple = lambda value, name=None: value if isinstance(value, tuple) else (value,)  # type: ignore[attr-defined]
sys.modules[transforms.__name__] = transforms
torch.jagged = StandIn("torch.jagged")
torch.Tag = StandIn("torch.Tag")
# Decides which tests are skipped: NumPy and SciPy are there.
imports = sys.modules["torch.utils._import_utils"] = StandInModule("torch.utils._import_utils")
imports._check_module_exists = lambda name: importlib.util.find_spec(name.partition(".")[0]) is not None  # type: ignore[attr-defined]
# Tests of log messages derive from the compiler's test case.
importlib.import_module("torch.testing._utils")  # the machinery reaches it as an attribute of torch.testing
common = importlib.import_module("torch.testing._internal.common_utils")
test_case = sys.modules["torch._dynamo.test_case"] = StandInModule("torch._dynamo.test_case")
test_case.TestCase, test_case.run_tests = common.TestCase, common.run_tests  # type: ignore[attr-defined]
# Tests run for the dtypes that flambeau has: those of quantized and other absent dtypes, which are placeholders, are not
# applicable. bcomplex32 is newer than the version that flambeau follows.
torch.bcomplex32 = torch.complex32
device_type = importlib.import_module("torch.testing._internal.common_device_type")
with_dtypes = device_type.dtypes.__init__


def available(dtype: Any) -> bool:
    return all(map(available, dtype)) if isinstance(dtype, (list, tuple)) else isinstance(dtype, torch.dtype)


device_type.dtypes.__init__ = lambda self, *args, **options: with_dtypes(
    self, *dict.fromkeys(filter(available, args)), **options
)

# What test_modules and test_ops compare tensors with theirs on the meta device by.
meta_utils = sys.modules["torch._subclasses.meta_utils"] = StandInModule("torch._subclasses.meta_utils")


def assert_same_metadata(assert_equal: Any, one: Any, other: Any, **options: Any) -> None:
    for about in ("dtype", "shape", "layout", "requires_grad", "is_leaf"):
        assert_equal(getattr(one, about), getattr(other, about))
    for about in ("stride", "storage_offset", "is_inference", "is_conj", "is_neg", "_is_view"):
        assert_equal(getattr(one, about)(), getattr(other, about)())
    if one._is_view():
        assert_same_metadata(assert_equal, one._base, other._base)
    assert_equal(one.grad is None, other.grad is None)
    if one.grad is not None:
        assert_same_metadata(assert_equal, one.grad, other.grad)


meta_utils.assert_metadata_eq = assert_same_metadata  # type: ignore[attr-defined]

# The module database lists every class of these namespaces: none of the quantized ones is applicable.
for kind in ("qat", "quantizable", "quantized"):
    getattr(torch.ao.nn, kind).modules.__all__ = []
