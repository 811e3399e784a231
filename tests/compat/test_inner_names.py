"""Inner names of PyTorch that larger libraries import: they work, or fail where they are used."""

import pytest

import flambeau as fb


@pytest.fixture
def torch():
    with fb.compat.torch() as module:
        yield module


def test_names_libraries_import_at_their_top(torch):
    import torch.distributed.distributed_c10d
    import torch.nested
    import torch.storage
    from torch.distributions.utils import _standard_normal, _sum_rightmost
    from torch.nn.modules.module import _EXTRA_STATE_KEY_SUFFIX, _IncompatibleKeys
    from torch.overrides import TorchFunctionMode, has_torch_function
    from torch.serialization import DEFAULT_PROTOCOL, MAP_LOCATION
    from torch.utils._pytree import SUPPORTED_NODES, LeafSpec, _dict_flatten, _dict_unflatten, _get_node_type

    assert torch.torch is torch and DEFAULT_PROTOCOL == 2 and MAP_LOCATION is not None
    assert _IncompatibleKeys([], []).missing_keys == [] and _EXTRA_STATE_KEY_SUFFIX == "_extra_state"
    assert _standard_normal((2, 3), torch.float64, None).dtype == torch.float64
    assert torch.equal(_sum_rightmost(torch.ones(2, 3, 4), 2), torch.full((2,), 12.0))
    values, keys = _dict_flatten({"a": 1})
    assert _dict_unflatten(values, keys) == {"a": 1} and dict in SUPPORTED_NODES and _get_node_type([1]) is list
    tree, seen = {"a": [1, "b"]}, []
    assert torch.utils._pytree.tree_map_(seen.append, tree) is tree and seen == [1, "b"]
    assert torch.utils._pytree.tree_map_only_(int, seen.append, tree) is tree and seen == [1, "b", 1]
    assert LeafSpec() == torch.utils._pytree.tree_flatten(1)[1]
    assert issubclass(TorchFunctionMode, object) and not has_torch_function(())
    for name in ("SymInt", "Stream", "qint8"):
        with pytest.raises(RuntimeError, match=f"torch.{name}: not in flambeau"):
            getattr(torch, name)()


def test_conversions_between_sparse_formats(torch):
    rows = torch.tensor([0, 0, 2, 3])
    begins = torch._convert_indices_from_coo_to_csr(rows, 4)
    assert begins.tolist() == [0, 2, 2, 3, 4]
    assert torch._convert_indices_from_csr_to_coo(begins, torch.tensor([1, 2, 0, 1])).tolist() == [[0, 0, 2, 3], [1, 2, 0, 1]]


def test_gradients_of_softmax(torch):
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    g = torch.randn(3, 4, dtype=torch.float64)
    for function, formula in ((torch.softmax, torch._softmax_backward_data), (torch.log_softmax, torch._log_softmax_backward_data)):
        y = function(x, -1)
        (expected,) = torch.autograd.grad(y, x, g)
        torch.testing.assert_close(formula(g, y.detach(), -1, torch.float64), expected)


def test_checks_and_numbers(torch):
    torch._check_tensor_all(torch.tensor([True]))
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        torch._check_tensor_all(torch.tensor([True, False]))
    for wrong, words in ((True, "cond must be a tensor"), (torch.ones(1), "cond tensor must have dtype torch.bool")):
        with pytest.raises(TypeError, match=words):
            torch._check_tensor_all(wrong)
    with pytest.raises(RuntimeError, match="Expected Tensor with single nonzero value, but got zero"):
        torch._assert_async(torch.tensor(0))
    assert (torch.sym_max(1, 2), torch.sym_not(True), torch.sym_ite(True, 1, 2)) == (2, False, 1)
    assert torch._C._nn._parse_to("cpu", torch.float64)[:2] == (torch.device("cpu"), torch.float64)
    assert not torch._C._are_functorch_transforms_active()
    assert bool(torch.vmap(lambda x: x * int(torch._C._are_functorch_transforms_active()))(torch.ones(2)).all())


def test_aten_names(torch):
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.ops.aten.add.Tensor is torch.ops.aten.add.Tensor
    assert torch.equal(torch.ops.aten.slice.Tensor(x, 1, 0, 2), x[:, :2])
    assert torch.ops.aten._to_copy.default(x, dtype=torch.int64).dtype == torch.int64
    assert torch.equal(torch.ops.aten.index.Tensor(x, [None, torch.tensor([0])]), x[:, [0]])
    with pytest.raises(RuntimeError, match="torch.ops.aten._no_such_kernel"):
        torch.ops.aten._no_such_kernel.default(x)
    assert torch.equal(torch.ops.aten.linalg_vector_norm.default(x, 2, [1]), torch.linalg.vector_norm(x, 2, [1]))
    assert torch.equal(torch.ops.aten.fft_rfft.default(x), torch.fft.rfft(x))
    assert torch.equal(torch.ops.aten.special_i0e.default(x), torch.special.i0e(x))
    with pytest.raises(RuntimeError, match="torch.ops.aten.cudnn_convolution_backward"):
        torch.ops.aten.cudnn_convolution_backward.default(x)
    assert not hasattr(torch.ops.aten, "linalg_no_such_name")


def test_aten_ranges(torch):
    torch.ops.aten.sym_constrain_range_for_size.default(3, min=0, max=4)
    with pytest.raises(ValueError, match="5 is out of the range 0 to 4"):
        torch.ops.aten.sym_constrain_range.default(5, min=0, max=4)


def test_printing_parts(torch):
    from torch._tensor_str import PRINT_OPTS, _add_suffixes, _tensor_str

    assert _tensor_str(torch.arange(4).reshape(2, 2), 2) == "[[0, 1],\n   [2, 3]]" and PRINT_OPTS.precision == 4
    from torch._tensor_str import printoptions

    with printoptions(precision=2):
        assert PRINT_OPTS.precision == 2
    assert _add_suffixes("T([1]", ["a=1"], 2, True) == "T([1],\n  a=1)"


def test_kl_between_classes_of_other_libraries():
    class Foreign: ...

    @fb.distributions.register_kl(Foreign, fb.distributions.Normal)
    def kl(p, q):
        return fb.zeros(())

    assert fb.distributions.kl_divergence(Foreign(), fb.distributions.Normal(0.0, 1.0)).item() == 0.0
    with pytest.raises(TypeError, match="register_kl"):
        fb.distributions.register_kl(3, Foreign)


def test_numpy_of_a_parameter_under_no_grad():
    weight = fb.nn.Parameter(fb.ones(2))
    with fb.no_grad():
        assert weight.numpy().tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="requires grad"):
        weight.numpy()


def test_storage_of_a_file(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(8)))
    storage = fb.UntypedStorage.from_file(str(path), shared=False, nbytes=8)
    assert storage.nbytes() == 8 and storage[3] == 3 and storage[2:4].tolist() == [2, 3]
    numbers = fb.asarray(storage[4:8], dtype=fb.uint8).view(fb.int32)
    assert numbers.item() == int.from_bytes(bytes(range(4, 8)), "little")
    assert storage.untyped() is storage
    shared = fb.UntypedStorage.from_file(str(path), shared=True)
    fb.asarray(shared, dtype=fb.uint8).fill_(7)
    assert path.read_bytes() == bytes([7] * 8)
    with pytest.raises(ValueError, match="has 8 bytes"):
        fb.UntypedStorage.from_file(str(path), nbytes=9)


def test_flop_counter():
    from flambeau.utils.flop_counter import FlopCounterMode

    model = fb.nn.Sequential(fb.nn.Conv2d(3, 8, 3, stride=2, padding=1), fb.nn.ConvTranspose2d(8, 4, 2, stride=2), fb.nn.Flatten(),
                             fb.nn.Linear(256, 5))  # fmt: skip
    with FlopCounterMode(display=False) as counter:
        model(fb.randn(2, 3, 8, 8)).sum().backward()
    assert counter.get_total_flops() == 67584  # PyTorch 2.13 counts the same
    assert sum(counter.get_flop_counts()["Sequential.3"].values()) == 15360
    with FlopCounterMode(display=False) as counter:
        q = fb.randn(2, 4, 5, 8)
        fb.nn.functional.scaled_dot_product_attention(q, q, q)
        fb.bmm(fb.ones(2, 3, 4), fb.ones(2, 4, 5)), fb.ones(3, 4) @ fb.ones(4, 5)
    assert counter.get_total_flops() == 2 * 2 * 2 * 4 * 5 * 5 * 8 + 240 + 120


def test_flop_counter_counts_products_inside_einsum_and_recurrent_layers():
    from flambeau.utils.flop_counter import FlopCounterMode, sdpa_flop_count

    with FlopCounterMode(display=False) as counter:
        fb.einsum("ab,bc->ac", fb.ones(6, 7), fb.ones(7, 8))
        fb.einsum("...ab,cb", fb.ones(2, 3, 4, 5), fb.ones(6, 5))
        fb.einsum("ab,bc,cd->d", fb.ones(2, 3), fb.ones(3, 4), fb.ones(4, 5))  # a is summed first
        fb.einsum("ii", fb.ones(3, 3))
    assert counter.get_total_flops() == 2 * (6 * 7 * 8 + 2 * 3 * 4 * 5 * 6 + 3 * 4 + 4 * 5)
    for kind in (fb.nn.LSTM, fb.nn.GRU, fb.nn.RNN):
        layer = kind(3, 5, num_layers=2, bidirectional=True)
        with FlopCounterMode(display=False) as counter:
            layer(fb.ones(6, 2, 3))
        assert counter.get_total_flops() == sum(2 * 6 * 2 * w.numel() for w in layer.parameters() if w.dim() == 2), kind
    assert sdpa_flop_count((2, 32, 128, 64), (2, 8, 128, 64), (2, 8, 128, 64)) == 4 * 2 * 32 * 128 * 128 * 64
    with pytest.raises(AssertionError, match="do not fit query"):
        sdpa_flop_count((2, 32, 128, 64), (2, 5, 128, 64), (2, 5, 128, 64))
    with pytest.warns(UserWarning, match="mods is not needed"):
        FlopCounterMode(layer, display=False)


def test_flop_counter_names_what_it_counts(torch):
    aten, x = torch.ops.aten, fb.ones(1, 2, 4, 4, requires_grad=True)
    w = fb.ones(3, 2, 2, 2, requires_grad=True)
    with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
        (fb.conv2d(x, w).sum() + fb.conv_transpose2d(fb.conv2d(x, w), w).sum()).backward()
        fb.nn.functional.linear(fb.ones(5, 2), fb.ones(3, 2), fb.ones(3))
        fb.ones(2, 3) @ fb.ones(3, 4), fb.ones(5, 2, 3) @ fb.ones(5, 3, 4)
    counts = counter.get_flop_counts()["Global"]
    assert counts == {aten.convolution: 3 * 432, aten.convolution_backward: 6 * 432, aten.addmm: 60, aten.mm: 48, aten.bmm: 240}
    g = fb.randn(1, 3, 3, 3)
    asked = aten.convolution_backward(g, x, w, [3], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True])
    expected = fb.autograd.grad(fb.conv2d(x, w, bias := fb.zeros(3, requires_grad=True)), (x, w, bias), g)
    assert all(one.allclose(two) for one, two in zip(asked, expected, strict=True))
    assert aten.convolution_backward(g, x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False])[0] is None


def test_storage_is_the_class_of_the_default_dtype(torch):
    assert torch.Storage is torch.FloatStorage
    assert torch.Storage(3).size() == 3
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.Storage(2).dtype == torch.float64
    finally:
        torch.set_default_dtype(before)


def test_switches_of_autograd_keep_what_they_are_given(torch):
    for switch, now, before in (
        (torch.autograd.set_multithreading_enabled, torch.autograd.is_multithreading_enabled, True),
        (torch.autograd._force_original_view_tracking, torch.autograd.is_view_replay_enabled, False),
    ):
        with switch(not before):
            assert now() is not before
        assert now() is before
        inside = switch(not before)(now)
        assert now() is before and inside() is not before and now() is before


def test_a_parameter_keeps_its_address_over_a_change_of_data(torch):
    p = torch.nn.Parameter(torch.ones(2))
    before = p._cdata
    p.data = torch.zeros(3)
    assert p._cdata == before != torch.ones(2)._cdata


def test_products_of_bytes(torch):
    a, b = torch.randint(-128, 128, (5, 300), dtype=torch.int8), torch.randint(-128, 128, (300, 4), dtype=torch.int8)
    out = torch.empty(0, dtype=torch.int32)
    assert torch._int_mm(a, b, out=out) is out and out.equal((a.double() @ b.double()).int())
    assert torch._int_mm(a.to(torch.uint8), b).equal((a.to(torch.uint8).double() @ b.double()).int())
    for wrong, message in ((a.float(), "Expected self dtype"), (a[0], "Expected self to be of dimension 2"), (b, "needs to match")):
        with pytest.raises((ValueError, TypeError), match=message):
            torch._int_mm(wrong, b)
    with pytest.raises(TypeError, match="result dtype"):
        torch._int_mm(a, b, out=torch.empty(0))


def test_parts_of_sparse_tensors_are_validated(torch):
    begins, columns, values = torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.ones(2)
    torch._validate_sparse_csr_tensor_args(begins, columns, values, (2, 2))
    torch._validate_sparse_compressed_tensor_args(begins, columns, values, (2, 2), torch.sparse_csc)
    torch._validate_sparse_coo_tensor_args(torch.tensor([[0, 1]]), values, (2,))
    with pytest.raises(IndexError):
        torch._validate_sparse_csr_tensor_args(begins, columns + 1, values, (2, 2))
    with pytest.raises(ValueError):
        torch._validate_sparse_coo_tensor_args(torch.tensor([[0, 1]]), torch.ones(3), (2,))
