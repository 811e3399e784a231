"""The parts of the type stubs that do not come from the op table: classes, operators and settings."""

NOTE = "# Written by `python tools/stubgen.py` from the op table; changes made here are lost."

# Modules and the names that stubs may need of them.
IMPORTS = {
    "builtins": None,
    "collections.abc": ("Callable", "Iterable", "Iterator", "Sequence"),
    "contextlib": ("AbstractContextManager",),
    "types": ("EllipsisType",),
    "typing": ("Any", "ClassVar", "NamedTuple", "Self", "SupportsIndex", "TypeAlias", "TypeVar", "overload"),
}

# Needed because the package has members called float, int, bool, dtype and device.
ALIASES = """\
_int: TypeAlias = builtins.int
_float: TypeAlias = builtins.float
_bool: TypeAlias = builtins.bool
_str: TypeAlias = builtins.str
_Number: TypeAlias = builtins.bool | builtins.int | builtins.float | builtins.complex | np.generic
_Operand: TypeAlias = Tensor | _Number
_dtype: TypeAlias = dtype
_device: TypeAlias = device
_T = TypeVar("_T", bound=Tensor)
_layout: TypeAlias = layout
_memory_format: TypeAlias = memory_format
_DeviceLike: TypeAlias = device | builtins.str | builtins.int
_Index: TypeAlias = (
    SupportsIndex | slice | EllipsisType | Tensor | np.ndarray[Any, Any] | Sequence[Any] | tuple[Any, ...] | None
)
"""

CLASSES = """\
class dtype:
    @property
    def is_floating_point(self) -> builtins.bool: ...
    @property
    def is_complex(self) -> builtins.bool: ...
    @property
    def is_signed(self) -> builtins.bool: ...
    @property
    def itemsize(self) -> builtins.int: ...
    @property
    def name(self) -> builtins.str: ...
    def to_real(self) -> dtype: ...
    def to_complex(self) -> dtype: ...

class device:
    def __init__(self, type: builtins.str | builtins.int | device, index: builtins.int | None = None) -> None: ...
    @property
    def type(self) -> builtins.str: ...
    @property
    def index(self) -> builtins.int | None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...

class layout:
    name: builtins.str

class memory_format:
    name: builtins.str

class Size(tuple[builtins.int, ...]):
    def __new__(cls, values: Iterable[SupportsIndex] = ()) -> Self: ...
    def numel(self) -> builtins.int: ...

class Generator:
    def __init__(self, device: _DeviceLike | None = None) -> None: ...
    @property
    def device(self) -> _device: ...
    def manual_seed(self, seed: SupportsIndex, /) -> Self: ...
    def initial_seed(self) -> builtins.int: ...
    def seed(self) -> builtins.int: ...
    def get_state(self) -> Tensor: ...
    def set_state(self, state: Tensor, /) -> Self: ...
    def clone_state(self) -> Generator: ...
    def graphsafe_get_state(self) -> Generator: ...

class finfo:
    def __init__(self, dtype: _dtype | None = None) -> None: ...
    bits: builtins.int
    dtype: builtins.str
    eps: builtins.float
    max: builtins.float
    min: builtins.float
    resolution: builtins.float
    smallest_normal: builtins.float
    smallest_subnormal: builtins.float
    tiny: builtins.float

class iinfo:
    def __init__(self, dtype: _dtype) -> None: ...
    bits: builtins.int
    dtype: builtins.str
    max: builtins.int
    min: builtins.int
"""

# Operators with the same name pattern and the same types.
_BINARY = "add sub mul truediv floordiv mod pow and or xor lshift rshift"
_UNARY = "neg pos abs invert"


def operators():
    """The special methods of Tensor, one line each."""
    lines = []
    for name in _BINARY.split():
        lines += [f"    def __{prefix}{name}__(self, other: _Operand) -> Tensor: ..." for prefix in ("", "r")]
        lines.append(f"    def __i{name}__(self, other: _Operand) -> Self: ...")
    lines += [f"    def __{name}__(self) -> Tensor: ..." for name in _UNARY.split()]
    lines += [f"    def __{name}__(self, other: _Operand) -> Tensor: ..." for name in ("lt", "le", "gt", "ge")]
    # object's own return bool; a tensor compares elementwise, which no other spelling can express.
    for name in ("eq", "ne"):
        lines.append(f"    def __{name}__(self, other: object) -> Tensor: ...  # type: ignore[override]")
    return "\n".join(lines)


TENSOR = """\
class Tensor:
    __array_priority__: ClassVar[builtins.float]
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getitem__(self, index: _Index) -> Tensor: ...
    def __setitem__(self, index: _Index, value: _Operand | np.ndarray[Any, Any] | Sequence[Any]) -> None: ...
    def __matmul__(self, other: Tensor) -> Tensor: ...
    def __rmatmul__(self, other: Tensor) -> Tensor: ...
    def __imatmul__(self, other: Tensor) -> Self: ...
    def __bool__(self) -> builtins.bool: ...
    def __int__(self) -> builtins.int: ...
    def __index__(self) -> builtins.int: ...
    def __float__(self) -> builtins.float: ...
    def __complex__(self) -> builtins.complex: ...
    def __len__(self) -> builtins.int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __contains__(self, element: object) -> builtins.bool: ...
    def __hash__(self) -> builtins.int: ...
    def __format__(self, spec: builtins.str) -> builtins.str: ...
    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> np.ndarray[Any, Any]: ...
    def __array_namespace__(self, *, api_version: builtins.str | None = None) -> Any: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[builtins.int, builtins.int] | None = None,
        dl_device: tuple[Any, builtins.int] | None = None,
        copy: builtins.bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[builtins.int, builtins.int]: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: dict[builtins.int, Any]) -> Self: ...
    @property
    def __array_interface__(self) -> dict[builtins.str, Any]: ...
    def __reversed__(self) -> Tensor: ...
    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: builtins.int) -> builtins.int: ...
    @overload
    def stride(self, dim: None = None) -> tuple[builtins.int, ...]: ...
    @overload
    def stride(self, dim: builtins.int) -> builtins.int: ...
    def dim(self) -> builtins.int: ...
    def ndimension(self) -> builtins.int: ...
    def numel(self) -> builtins.int: ...
    def nelement(self) -> builtins.int: ...
    def element_size(self) -> builtins.int: ...
    def data_ptr(self) -> builtins.int: ...
    def storage_offset(self) -> builtins.int: ...
    def is_floating_point(self) -> builtins.bool: ...
    def is_complex(self) -> builtins.bool: ...
    def is_signed(self) -> builtins.bool: ...
    def is_contiguous(self, memory_format: _memory_format = ...) -> builtins.bool: ...
    def item(self) -> builtins.bool | builtins.int | builtins.float: ...
    def tolist(self) -> Any: ...
    def as_subclass(self, cls: builtins.type[_T], /) -> _T: ...
    def to(
        self,
        *args: Tensor | _dtype | _DeviceLike | builtins.bool | None,
        dtype: _dtype | None = None,
        device: _DeviceLike | None = None,
        non_blocking: builtins.bool = False,
        copy: builtins.bool = False,
        memory_format: _memory_format = ...,
    ) -> Tensor: ...
    @overload
    def type(self, dtype: None = None, non_blocking: builtins.bool = False) -> builtins.str: ...
    @overload
    def type(self, dtype: _dtype | builtins.str, non_blocking: builtins.bool = False) -> Tensor: ...
    data: Tensor
    requires_grad: builtins.bool
    grad: Tensor | None
    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: builtins.bool | None = None,
        create_graph: builtins.bool = False,
        inputs: Tensor | Sequence[Tensor] | None = None,
    ) -> None: ...
    def requires_grad_(self, requires_grad: builtins.bool = True) -> Self: ...
    def detach(self) -> Tensor: ...
    def detach_(self) -> Self: ...
    def retain_grad(self) -> None: ...
    def is_inference(self) -> builtins.bool: ...
    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Any: ...
    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Any: ...
    real: Tensor
    imag: Tensor
    def __buffer__(self, flags: builtins.int, /) -> memoryview: ...
    # Members with an underscore that other libraries, or this one, use.
    @property
    def _base(self) -> Tensor | None: ...
    @property
    def _version(self) -> builtins.int: ...
    @property
    def _read_only(self) -> builtins.bool: ...
    @property
    def _gradient_edge(self) -> Any: ...
    def _storage_ptr(self) -> builtins.int: ...
    def _storage_nbytes(self) -> builtins.int: ...
"""

FUNCTIONS = """\
def get_default_dtype() -> _dtype: ...
def set_default_dtype(d: _dtype, /) -> None: ...
def get_default_device() -> _device: ...
def set_default_device(device: _DeviceLike | None, /) -> None: ...
def get_num_threads() -> _int: ...
def set_num_threads(n: _int, /) -> None: ...
def can_cast(from_: _dtype, to: _dtype, /) -> _bool: ...
def promote_types(type1: _dtype, type2: _dtype, /) -> _dtype: ...
def result_type(tensor1: _Operand, tensor2: _Operand) -> _dtype: ...
@overload
def einsum(equation: _str, *operands: Tensor | Sequence[Tensor]) -> Tensor: ...
@overload
def einsum(operand: Tensor, labels: Sequence[_int | EllipsisType], *args: Any) -> Tensor: ...

newaxis: None
__version__: _str
default_generator: Generator
# Ops that only the library itself calls.
_attention: Any
_cross_entropy: Any
_ctc_loss: Any
_fused_adadelta: Any
_fused_adagrad: Any
_fused_adam: Any
_fused_adamax: Any
_fused_nadam: Any
_fused_radam: Any
_fused_rmsprop: Any
_fused_sgd: Any
_gru_cell: Any
_lstm_cell: Any
_sample_dirichlet: Any
_standard_gamma: Any

"""

# Types of parameters and results of functions written in Python, by name, where they carry no annotation.
PARAMETERS = {
    "abbreviated": "_bool",
    "api_version": "_str | None",
    "array": "np.ndarray[Any, Any]",
    "atol": "_float | None",
    "bytes": "_int | None",
    "callable": "Callable[..., Any]",
    "copy": "_bool | None",
    "count": "_int",
    "device": "_DeviceLike | None",
    "dim": "_int | Sequence[_int] | None",
    "dtype": "_dtype | None",
    "edgeitems": "_int | None",
    "generator": "Generator | None",
    "input": "Tensor",
    "linewidth": "_int | None",
    "memory_format": "_memory_format",
    "mode": "_bool",
    "new_state": "Tensor",
    "n": "_int | None",
    "non_blocking": "_bool",
    "norm": "_str | None",
    "offset": "_int",
    "other": "Tensor",
    "out": "Tensor | None",
    "precision": "_int | None",
    "profile": "_str | None",
    "requires_grad": "_bool",
    "s": "Sequence[_int] | None",
    "sci_mode": "_bool | None",
    "seed": "SupportsIndex",
    "rtol": "_float | None",
    "tensor": "Tensor",
    "tensor2": "Tensor",
    "threshold": "_float | None",
}
_TENSOR_RESULTS = """
    as_tensor asarray detach_ from_dlpack from_file from_numpy frombuffer tensor get_rng_state type_as cpu cuda detach
    resolve_conj resolve_neg float double half bfloat16 int long short char byte bool chalf cfloat cdouble
    T mT H mH
"""
RETURNS = {
    **dict.fromkeys(_TENSOR_RESULTS.split(), "Tensor"),
    "broadcast_shapes": "Size",
    "get_printoptions": "dict[_str, Any]",
    "manual_seed": "Generator",
    "assert_close": "None",
    "fork_rng": "AbstractContextManager[None]",
    "make_tensor": "Tensor",
    "numpy": "np.ndarray[Any, Any]",
    "printoptions": "AbstractContextManager[None]",
    "set_printoptions": "None",
    "set_rng_state": "None",
    "shape": "Size",
    "dtype": "_dtype",
    "device": "_device",
    "layout": "_layout",
    "grad_fn": "Any",
    "output_nr": "_int",
    "names": "tuple[None, ...]",
    **dict.fromkeys("ndim itemsize nbytes".split(), "_int"),
}
# Modules that get a stub of their own; the source of all others carries the types.
STUBBED_MODULES = ("linalg", "random", "return_types", "special", "testing")
