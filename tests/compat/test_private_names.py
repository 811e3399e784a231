"""Names outside PyTorch's documented interface, and parts flambeau does not have: they work, or fail where they are used."""

import pytest

import flambeau as fb


@pytest.fixture
def torch():
    with fb.compat.torch() as module:
        yield module


def test_absent_parts_import_and_fail_where_used(torch):
    import torch.ao.quantization
    from torch.distributed.rpc import RRef
    from torch.fx import GraphModule, Tracer

    class Mine(Tracer):
        def helper(self, graph: "GraphModule | None") -> GraphModule:
            return graph

    assert not isinstance(fb.nn.Linear(1, 1), RRef)
    for use, name in (
        (Mine, "torch.fx.Tracer"), (lambda: torch.fx.symbolic_trace(None), "torch.fx.symbolic_trace"),
        (lambda: torch.onnx.export(None), "torch.onnx.export"),
        (lambda: torch.ao.quantization.get_default_qconfig("x"), "torch.ao.quantization.get_default_qconfig"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=f"{name}: not in flambeau"):
            use()
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        _ = Mine.other


def test_probing_finds_nothing(torch):
    assert not hasattr(torch, "npu") and not hasattr(torch, "_no_such_name")
    with pytest.raises(ImportError):
        import torch_no_such_package  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match="torch.no_such_part"):
        import torch.no_such_part  # noqa: F401


def test_marks_for_tracers_change_nothing(torch):
    import torch.fx
    from torch.onnx.symbolic_helper import parse_args

    @torch.fx.wrap
    @parse_args("v", "f")
    @torch.jit._overload_method
    def twice(x):
        return 2 * x

    torch.fx.wrap("twice")
    assert twice(3) == 6 and not torch.onnx.is_in_onnx_export() and torch._C._get_tracing_state() is None


def test_checks(torch):
    torch._assert(True, "fine")
    with pytest.raises(AssertionError, match="bad"):
        torch._assert(fb.tensor(False), "bad")
    with pytest.raises(RuntimeError, match="why"):
        torch._check(False, lambda: "why")
    with pytest.raises(ValueError, match="Expected cond to be True"):
        torch._check_value(False)
    with pytest.raises(NotImplementedError):
        torch._check_not_implemented(False)
    with pytest.raises(TypeError, match="cond must be a bool"):
        torch._check(torch.tensor(True))
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with no values is ambiguous"):
        torch._assert_async(torch.zeros(0))
    assert torch.FloatStorage in torch._storage_classes and torch.__config__._cxx_flags().startswith("flambeau")
    assert torch.FloatTensor in torch._tensor_classes and not any(t.is_cuda or t.is_sparse for t in torch._tensor_classes)
    assert torch._shape_as_tensor(fb.zeros(2, 3)).tolist() == [2, 3]


def test_type_names(torch):
    from torch._C import DisableTorchFunctionSubclass
    from torch.jit.annotations import BroadcastingList2, List
    from torch.types import Device, Number, _device, _dtype, _size

    def f(a: BroadcastingList2[int], b: List[int], c: Number, d: Device, e: _size) -> _dtype: ...

    assert _device is torch.device and isinstance(3, Number) and isinstance(fb.Size([1]), _size)
    with DisableTorchFunctionSubclass():
        assert f.__annotations__["b"] == list[int]


def test_the_type_of_tensors(torch):
    from torch import TensorType

    assert TensorType.get() is TensorType.get() and str(TensorType.get()) == "Tensor"


def test_ops_defined_outside(torch):
    @torch.library.custom_op("tests::scale", mutates_args=())
    def scale(x: fb.Tensor, factor: float = 3.0) -> fb.Tensor:
        return x.detach() * factor

    @scale.register_fake
    def _(x, factor=3.0):
        return fb.empty_like(x)

    def setup(ctx, inputs, output):
        ctx.factor = inputs[1]

    scale.register_autograd(lambda ctx, grad: (grad * ctx.factor, None), setup_context=setup)
    x = fb.ones(2, requires_grad=True)
    (torch.ops.tests.scale(x, factor=5.0) + torch.ops.tests.scale.default(x, 2.0)).sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]

    lib = torch.library.Library("tests", "FRAGMENT")
    lib.define("shift(Tensor x, int by) -> Tensor")
    with pytest.raises(RuntimeError, match="tests::shift: no kernel"):
        torch.ops.tests.shift(x, 1)
    lib.impl("shift", lambda x, by: x + by, "CPU")
    assert torch.ops.tests.shift(fb.zeros(1), 2).tolist() == [2.0]
    assert torch.ops.aten.relu.default(fb.tensor([-1.0, 1.0])).tolist() == [0.0, 1.0]
    with pytest.raises(AttributeError, match="no_such_op"):
        _ = torch.ops.tests.no_such_op
    with pytest.raises(OSError, match="compiled for PyTorch"):
        torch.ops.load_library("lib.so")


def test_ops_that_take_and_give_lists(torch):
    @torch.library.custom_op("tests::join", mutates_args=())
    def join(parts: list[fb.Tensor], dim: int) -> fb.Tensor:
        return fb.cat([part.detach() for part in parts], dim)

    @torch.library.custom_op("tests::cut", mutates_args=())
    def cut(x: fb.Tensor, sizes: list[int]) -> list[fb.Tensor]:
        return [part.clone() for part in x.detach().split(sizes)]

    seen = []

    def setup(ctx, inputs, output):
        ctx.sizes = [part.shape[0] for part in inputs[0]]

    def backward(ctx, grad):
        seen.append(ctx.needs_input_grad)
        return list(grad.split(ctx.sizes)), None

    join.register_autograd(backward, setup_context=setup)
    cut.register_autograd(lambda ctx, grads: (fb.cat(grads), None))
    a, b = fb.ones(2, requires_grad=True), fb.ones(3)
    x = join([a, b], 0)
    assert x.requires_grad and x.shape == (5,)
    (x * fb.arange(5.0)).sum().backward()
    assert a.grad.tolist() == [0.0, 1.0] and seen == [([True, False], False)]
    c = fb.arange(4.0, requires_grad=True)
    parts = cut(c, [1, 3])
    assert isinstance(parts, list) and [part.requires_grad for part in parts] == [True, True]
    (parts[0].sum() + 2 * parts[1].sum()).backward()
    assert c.grad.tolist() == [1.0, 2.0, 2.0, 2.0]
    assert all(part.grad_fn is None for part in cut(c.detach(), [1, 3]))


def test_autocast_keys(torch):
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU) | torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    with fb.autocast("cpu", dtype=fb.bfloat16):
        with torch._C._ExcludeDispatchKeyGuard(keys):
            assert not fb.is_autocast_enabled("cpu")
        assert fb.is_autocast_enabled("cpu")


def test_dtypes_that_no_tensor_has():
    with fb.compat.torch() as torch:
        tables = {torch.qint8: "Q8", torch.float16: "F16", torch.int4: "I4"}
        assert tables[torch.qint8] == "Q8" and torch.quint8 not in tables and torch.zeros(1).dtype != torch.qint8
        with pytest.raises(TypeError):
            torch.zeros(2, dtype=torch.qint8)


def test_profiler_and_graphs_can_be_named():
    with fb.compat.torch() as torch:
        from torch.nn.attention.flex_attention import BlockMask
        from torch.profiler import ProfilerActivity

        assert not isinstance(3, BlockMask) and ProfilerActivity.CPU is not None
        with pytest.raises(fb.errors.StateError, match="torch.cuda.CUDAGraph: not in flambeau"):
            torch.cuda.CUDAGraph()


@pytest.mark.parametrize("count", [0, 1, 2, 5, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(count, reverse):
    with fb.compat.torch():
        from torch._higher_order_ops.associative_scan import associative_scan
    gates, inputs = fb.rand(2, count, 3, dtype=fb.float64), fb.rand(2, count, 3, dtype=fb.float64).requires_grad_()
    result = associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (gates, inputs), 1, reverse)[1]
    state, states = fb.zeros(2, 3, dtype=fb.float64), []
    order = range(count)[::-1] if reverse else range(count)
    for i in order:
        state = state * gates[:, i] + inputs[:, i]
        states.append(state)
    expected = fb.stack(states[::-1] if reverse else states, 1) if states else inputs
    assert fb.allclose(result, expected)
    if count:
        assert fb.allclose(fb.autograd.grad(result.sum(), inputs)[0], fb.autograd.grad(expected.sum(), inputs)[0])


def test_tree_functions():
    with fb.compat.torch():
        from torch.utils import _pytree

    class Pair(dict):
        pass

    _pytree.register_pytree_node(
        Pair, lambda p: (list(p.values()), list(p)), lambda values, keys: Pair(zip(keys, values, strict=True)),
        serialized_type_name="Pair", flatten_with_keys_fn=_pytree._dict_flatten_with_keys,
    )  # fmt: skip
    tree = {"a": [1, "x"], "b": Pair(c=2.5)}
    assert _pytree.tree_map_only(int, lambda n: n + 1, tree) == {"a": [2, "x"], "b": {"c": 2.5}}
    assert _pytree.tree_map(str, tree, is_leaf=lambda n: isinstance(n, list))["a"] == "[1, 'x']"
    assert _pytree.tree_any(lambda n: n == 2.5, tree) and not _pytree.tree_all(lambda n: n == 2.5, tree)
    assert list(_pytree.tree_iter(tree)) == [1, "x", 2.5]
    assert _pytree._dict_flatten_with_keys({"a": 1}) == ([(_pytree.MappingKey("a"), 1)], ["a"])


def test_several_tensors_as_one():
    with fb.compat.torch():
        from torch._utils import _flatten_dense_tensors, _take_tensors, _unflatten_dense_tensors
    parts = [fb.arange(6.0).view(2, 3), fb.tensor(7.0), fb.zeros(0)]
    flat = _flatten_dense_tensors(parts)
    assert flat.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0]
    back = _unflatten_dense_tensors(flat, parts)
    assert [tuple(t.shape) for t in back] == [(2, 3), (), (0,)] and all(fb.equal(a, b) for a, b in zip(back, parts, strict=True))
    mixed = [fb.zeros(4), fb.zeros(4, dtype=fb.float64), fb.zeros(4), fb.zeros(4)]
    assert [[t.dtype for t in group] for group in _take_tensors(mixed, 32)] == [[fb.float32] * 2, [fb.float32], [fb.float64]]


def test_gradients_of_softmax_from_its_result(torch):
    x = fb.randn(3, 4, dtype=fb.float64, requires_grad=True)
    grad = fb.randn(3, 4, dtype=fb.float64)
    for forward, backward in (("softmax", "_softmax_backward_data"), ("log_softmax", "_log_softmax_backward_data")):
        for dim in (0, -1):
            y = getattr(x, forward)(dim)
            (expected,) = fb.autograd.grad(y, x, grad)
            got = getattr(torch, backward)(grad, y.detach(), dim, fb.float64)
            assert fb.allclose(got, expected)
            narrow = getattr(torch, backward)(grad_output=grad, output=y, dim=dim, input_dtype=fb.float32)
            assert narrow.dtype == fb.float32


def test_functions_between_accelerators_import_and_refuse(torch):
    from torch.nn.parallel._functions import Broadcast, Gather, ReduceAddCoalesced, Scatter

    for function in (Broadcast, Gather, ReduceAddCoalesced, Scatter):
        with pytest.raises(RuntimeError, match=f"torch.nn.parallel._functions.{function.__name__}.apply: not in flambeau"):
            function.apply([0, 1], fb.ones(2))


def test_sharing_out_among_accelerators_imports_and_refuses(torch):
    from torch.nn.parallel import gather, scatter
    from torch.nn.parallel.parallel_apply import parallel_apply
    from torch.nn.parallel.replicate import replicate
    from torch.nn.parallel.scatter_gather import scatter_kwargs

    for function in (gather, scatter, parallel_apply, replicate, scatter_kwargs):
        with pytest.raises(RuntimeError, match="torch.nn.parallel.*: not in flambeau"):
            function([fb.ones(2)], [0])


def test_older_names_of_amp(torch):
    from torch.cpu.amp import GradScaler, autocast
    from torch.cuda.amp.autocast_mode import autocast as for_cuda
    from torch.cuda.amp.grad_scaler import GradScaler as scaler

    with pytest.warns(FutureWarning, match=r"`torch.cpu.amp.autocast\(args...\)` is deprecated"), autocast():
        assert (fb.ones(2, 2) @ fb.ones(2, 2)).dtype == fb.bfloat16
    with pytest.warns(FutureWarning), torch.cpu.amp.autocast(dtype=fb.float16):
        assert (fb.ones(2, 2) @ fb.ones(2, 2)).dtype == fb.float16
    with pytest.warns(FutureWarning, match=r"`torch.cpu.amp.GradScaler\(args...\)` is deprecated"):
        assert GradScaler(8.0).get_scale() == 8.0
    assert for_cuda is fb.cuda.amp.autocast and scaler is fb.cuda.amp.GradScaler


def test_errors_of_linear_algebra_have_their_inner_name(torch):
    with pytest.raises(torch._C._LinAlgError):
        torch.linalg.cholesky(-torch.eye(2))


def test_helpers_of_modules(torch):
    from torch.nn.init import _no_grad_trunc_normal_
    from torch.nn.modules.module import _addindent
    from torch.nn.modules.normalization import _shape_t
    from torch.nn.modules.transformer import _get_clones

    assert _addindent("a\nb\nc", 2) == "a\n  b\n  c" and isinstance(3, _shape_t)
    one = fb.nn.Linear(2, 3)
    clones = _get_clones(one, 2)
    assert len(clones) == 2 and clones[0].weight is not clones[1].weight and fb.equal(clones[0].weight, one.weight)
    x = _no_grad_trunc_normal_(fb.empty(200, requires_grad=True), 1.0, 2.0, 0.0, 1.5)
    assert 0 <= x.min().item() and x.max().item() <= 1.5


def test_names_below_modules_of_the_bridge():
    """`torch._utils` is a module of its own with names in a table."""
    with fb.compat.torch():
        import torch._utils as utils

        assert utils._element_size(fb.float16) == 2
        with pytest.raises(AttributeError, match=r"torch\._utils\.no_such_name: not in flambeau"):
            utils.no_such_name  # noqa: B018


def test_trees_with_paths():
    import collections
    import dataclasses

    from flambeau.utils import _pytree as pytree

    Point = collections.namedtuple("Point", "x y")

    @dataclasses.dataclass
    class Pair:
        first: object
        second: object = None

    pytree.register_dataclass(Pair)
    tree = {"k": [1, (2, Point(3, 4))], "d": Pair(5)}
    paths = {pytree.keystr(path): value for path, value in pytree.tree_leaves_with_path(tree)}
    assert paths == {"['k'][0]": 1, "['k'][1][0]": 2, "['k'][1][1].x": 3, "['k'][1][1].y": 4, "['d'].first": 5}
    assert all(pytree.key_get(tree, path) == value for path, value in pytree.tree_leaves_with_path(tree))
    leaves, spec = pytree.tree_flatten(tree)
    assert spec.unflatten(leaves) == tree
    named = pytree.tree_map_with_path(lambda path, value: (len(path), value), tree)
    assert named["k"][1][1] == Point((4, 3), (4, 4)) and named["d"] == Pair((2, 5))
    assert pytree.tree_all_only(int, lambda n: n > 0, [1, "a"]) and not pytree.tree_any_only(str, str.isdigit, [1, "a"])
    assert pytree.arg_tree_leaves(1, [2], k=(3,)) == [1, 2, 3]
    assert pytree.is_namedtuple(Point(1, 2)) and pytree.is_structseq(fb.max(fb.ones(2, 2), 0)) and not pytree.is_namedtuple((1,))
    x = [fb.zeros(1), "a"]
    assert pytree.tree_map_only_(fb.Tensor, lambda t: t.add_(1), x) is x and x[0].item() == 1
    assert pytree.tree_is_leaf(3) and not pytree.tree_is_leaf([3])


def test_products_of_int8_rows(torch):
    w = torch.tensor([[1, -2, 3], [0, 127, -128]], dtype=torch.int8)
    scales, x = torch.tensor([0.5, 2.0], dtype=torch.bfloat16), torch.tensor([[1.0, 2.0, -1.0]], dtype=torch.bfloat16)
    wanted = (x.float() @ w.float().T) * scales.float()
    for product in (torch._weight_int8pack_mm, torch.ops.aten._weight_int8pack_mm):
        got = product(x, w, scales)
        assert got.dtype == torch.bfloat16
        torch.testing.assert_close(got.float(), wanted, rtol=1e-2, atol=0)
    with pytest.raises(RuntimeError, match="expected two matrices and a vector"):
        torch._weight_int8pack_mm(x[0], w, scales)
