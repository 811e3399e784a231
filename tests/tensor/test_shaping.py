"""Views, joins, rearrangements: shapes at the edges, memory shared or not, errors."""

import numpy as np
import pytest

import flambeau as fb


def shares(a, b):
    return np.shares_memory(a.numpy(), b.numpy())


VIEWS = {
    "view": lambda x: x.view(4, 6),
    "view_as": lambda x: x.view_as(fb.zeros(6, 4)),
    "view dtype": lambda x: x.view(fb.uint8),
    "reshape": lambda x: x.reshape(-1),
    "expand": lambda x: x.unsqueeze(0).expand(3, -1, -1, -1),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(0, -1),
    "swapaxes": lambda x: x.swapaxes(axis0=0, axis1=1),
    "movedim": lambda x: x.movedim((0, 1), (-1, 0)),
    "unflatten": lambda x: x.unflatten(-1, (2, -1)),
    "flatten": lambda x: x.flatten(1),
    "squeeze": lambda x: x.unsqueeze(1).squeeze((0, 1)),
    "narrow": lambda x: x.narrow(1, -2, 1),
    "select": lambda x: x.select(1, -1),
    "unbind": lambda x: x.unbind(1)[2],
    "split": lambda x: x.split([1, 3], dim=2)[1],
    "chunk": lambda x: x.chunk(2, dim=1)[1],
    "tensor_split": lambda x: x.tensor_split((1, 1, 3), dim=2)[2],
    "hsplit": lambda x: x.hsplit([2])[0],
    "diagonal": lambda x: x.diagonal(1, 1, 2),
    "unfold": lambda x: x.unfold(2, 3, 1),
    "as_strided": lambda x: x.as_strided((2, 2), (3, 5), 4),
    "broadcast_to": lambda x: fb.broadcast_to(x, (2, 2, 3, 4)),
    "atleast_3d": lambda x: fb.atleast_3d(x),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory(name):
    x = fb.arange(24).view(2, 3, 4)
    v = VIEWS[name](x)
    assert shares(v, x)
    v.as_strided((1,), (1,), v.storage_offset()).fill_(0)
    assert 0 in v.flatten().tolist()


COPIES = {
    "clone": lambda x: x.clone(),
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, 0),
    "rot90": lambda x: fb.rot90(x, 0),
    "repeat": lambda x: x.repeat(1, 1, 1),
    "tril": lambda x: x.tril(),
    "diag": lambda x: fb.diag(x[0]),
    "cat": lambda x: fb.cat([x]),
    "narrow_copy": lambda x: x.narrow_copy(0, 0, 2),
    "reshape of a transposed view": lambda x: x.transpose(0, 2).reshape(-1),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_do_not(name):
    x = fb.arange(24).view(2, 3, 4)
    assert not shares(COPIES[name](x), x)


def test_what_is_already_right_is_returned_itself():
    x = fb.zeros(2, 3)
    assert x.contiguous() is x
    assert x.flatten(0, 0) is x
    assert fb.real(x) is x
    assert x.transpose_(0, 1) is x and x.shape == (3, 2) and x.stride() == (1, 3)
    assert x.unsqueeze_(0).squeeze_() is x and x.t_().stride() == (3, 1)


def test_negative_strides_go_everywhere():
    array = np.arange(24).reshape(2, 3, 4)
    x, back = fb.from_numpy(array)[::-1, :, ::-1], array[::-1, :, ::-1]
    assert x.stride() == (-12, 4, -1)
    for ours, theirs in [
        (x.contiguous(), back),
        (x.reshape(6, 4), back.reshape(6, 4)),
        (fb.cat([x, x], 1), np.concatenate([back, back], 1)),
        (x.flip(2), back[:, :, ::-1]),
        (x.roll((1, 2), (0, 2)), np.roll(back, (1, 2), (0, 2))),
        (x.repeat(1, 2, 2), np.tile(back, (1, 2, 2))),
        (x.transpose(0, 2).tril(), np.tril(back.transpose(2, 1, 0))),
        (x.diagonal(0, 1, 2), back.diagonal(0, 1, 2)),
        (fb.rot90(x, 3, (0, 2)), np.rot90(back, 3, (0, 2))),
    ]:
        assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("dtype", [fb.bool, fb.uint8, fb.bfloat16, fb.float32, fb.int64, fb.complex128], ids=str)
def test_large_moves_match_numpy(dtype):
    array = np.arange(300 * 410).reshape(300, 410) % 251
    x = fb.from_numpy(array).to(dtype)
    base = np.asarray(x.to(fb.float64 if dtype != fb.complex128 else dtype).tolist())

    def check(ours, theirs):
        assert ours.dtype == dtype
        assert np.array_equal(np.asarray(ours.to(fb.complex128).tolist()), theirs)

    check(fb.flip(x, [1]), base[:, ::-1])
    check(fb.flip(x, [0, 1]), base[::-1, ::-1])
    check(fb.roll(x, (-7, 13), (0, 1)), np.roll(base, (-7, 13), (0, 1)))
    check(fb.cat([x, x[:, :5]], 1), np.concatenate([base, base[:, :5]], 1))
    check(x.repeat(2, 3), np.tile(base, (2, 3)))
    check(x[:, :1].repeat(1, 500), np.tile(base[:, :1], (1, 500)))
    check(fb.repeat_interleave(x, 2, dim=1), np.repeat(base, 2, 1))
    check(fb.triu(x, 3), np.triu(base, 3))
    check(fb.constant_pad_nd(x, (2, -3, 0, 4)), np.pad(base[:, :-3], ((0, 4), (2, 0))))


def test_repeat_in_many_dimensions():
    array = np.arange(6).reshape(1, 2, 3)
    for times in [(2, 1, 1), (1, 3, 1), (2, 3, 4), (5, 2, 1, 3), (0, 1, 1)]:
        assert fb.from_numpy(array).repeat(*times).tolist() == np.tile(array, times).tolist()
    assert fb.tensor(3).repeat(4).tolist() == [3, 3, 3, 3]


def test_cat_promotes_and_forgets_empty_vectors():
    result = fb.cat([fb.tensor([], dtype=fb.float32), fb.ones(2, 2, dtype=fb.int64), fb.zeros(1, 2)])
    assert result.dtype == fb.float32 and result.tolist() == [[1, 1], [1, 1], [0, 0]]
    out = fb.empty(0)
    assert fb.cat([fb.ones(1), fb.ones(2)], out=out) is out and out.shape == (3,)
    assert fb.concatenate([fb.ones(1, 2), fb.ones(1, 1)], axis=1).shape == (1, 3)


def test_meshgrid_indexing():
    x, y = fb.arange(3), fb.arange(2)
    for indexing in ("ij", "xy"):
        expected = np.meshgrid(x.numpy(), y.numpy(), indexing=indexing)
        for ours, theirs in zip(fb.meshgrid(x, y, indexing=indexing), expected, strict=True):
            assert ours.tolist() == theirs.tolist()


def test_view_as_another_dtype():
    x = fb.arange(8, dtype=fb.uint8)
    assert x.view(fb.int64).tolist() == [0x0706050403020100]
    assert x.view(fb.int32).view(fb.uint8).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="divisible"):
        x[:6].view(fb.int64)
    with pytest.raises(RuntimeError, match="stride"):
        x[::2].view(fb.int16)


def test_channels_last():
    x = fb.arange(2 * 3 * 4 * 5).view(2, 3, 4, 5)
    y = x.contiguous(memory_format=fb.channels_last)
    assert y.stride() == (60, 1, 15, 3) and y.tolist() == x.tolist()
    assert y.contiguous(memory_format=fb.channels_last) is y
    assert y.clone().stride() == y.stride() and fb.empty_like(y).stride() == y.stride()
    assert y.clone(memory_format=fb.contiguous_format).stride() == x.stride()
    with pytest.raises(RuntimeError, match="rank 4"):
        fb.zeros(2, 3).contiguous(memory_format=fb.channels_last)


def test_resize_keeps_what_fits():
    x = fb.arange(3)
    assert x.resize_(2, 4)[0, :3].tolist() == [0, 1, 2]
    assert x.resize_(2).tolist() == [0, 1]


def test_fill_diagonal_wraps():
    assert fb.zeros(5, 2).fill_diagonal_(1, wrap=True).tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]


def test_split_sizes_at_the_edges():
    x = fb.arange(5)
    assert [p.numel() for p in x.split(2)] == [2, 2, 1]
    assert [p.numel() for p in x.chunk(4)] == [2, 2, 1]
    assert [p.numel() for p in x.tensor_split(4)] == [2, 1, 1, 1]
    assert [p.tolist() for p in x.tensor_split([2, 1])] == [[0, 1], [], [1, 2, 3, 4]]
    assert [p.shape for p in fb.zeros(0, 2).chunk(3)] == [(0, 2)] * 3
    assert [p.numel() for p in fb.zeros(0).split(0)] == [0]


BAD = [
    (lambda: fb.zeros(2, 3).view(7), r"view: shape .\[7\]. is invalid"),
    (lambda: fb.zeros(2, 3).t().view(6), "reshape"),
    (lambda: fb.zeros(2, 3).view(-1, -1), "only one"),
    (lambda: fb.zeros(2, 3).expand(2, 4), "expand"),
    (lambda: fb.zeros(2, 3).permute(0, 0), "multiple times"),
    (lambda: fb.zeros(2, 3, 4).t(), "2 dimensions"),
    (lambda: fb.zeros(4).as_strided((3,), (2,)), "out of bounds for storage"),
    (lambda: fb.zeros(4).as_strided((2**62,), (2**62,)), "as_strided"),
    (lambda: fb.zeros(4).unfold(0, 5, 1), "maximum size"),
    (lambda: fb.zeros(4).split([1, 2]), "sum exactly to 4"),
    (lambda: fb.zeros(4).chunk(0), "greater than 0"),
    (lambda: fb.cat([]), "non-empty"),
    (lambda: fb.cat([fb.zeros(2, 2), fb.zeros(3)]), "same number of dimensions"),
    (lambda: fb.cat([fb.zeros(2, 2), fb.zeros(2, 3)]), "Expected size 2 but got size 3"),
    (lambda: fb.stack([fb.zeros(2), fb.zeros(3)]), "equal size"),
    (lambda: fb.zeros(2).repeat(-1), "negative"),
    (lambda: fb.zeros(2, 2).repeat(2**40, 2**40), "too many elements"),
    (lambda: fb.zeros(2).repeat_interleave(-1), "negative"),
    (lambda: fb.zeros(3).roll((1, 2), (0,)), "must align"),
    (lambda: fb.constant_pad_nd(fb.zeros(2), (1,)), "even"),
    (lambda: fb.constant_pad_nd(fb.zeros(2), (-3, 0)), "negative output size"),
    (lambda: fb.diagonal(fb.zeros(2, 2), 0, 1, 1), "identical"),
    (lambda: fb.imag(fb.zeros(2)), "complex"),
    (lambda: fb.view_as_complex(fb.zeros(3)), "size 2"),
]


@pytest.mark.parametrize("call, message", BAD, ids=range(len(BAD)))
def test_impossible_shapes_are_errors(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()
    with pytest.raises(ValueError, match=message):
        call()


def test_filling_an_expanded_tensor_fills_what_it_repeats():
    x = fb.zeros(2, 1)
    assert x.expand(2, 3).fill_(4).tolist() == [[4, 4, 4], [4, 4, 4]] and x.tolist() == [[4], [4]]
    assert x.expand(2, 3).zero_().sum().item() == 0


def test_triangle_indices_do_not_walk_empty_rows():
    for offset in (-3, 0, 2):
        assert fb.tril_indices(4, 3, offset).tolist() == [v.tolist() for v in np.tril_indices(4, offset, 3)]
        assert fb.triu_indices(4, 3, offset).tolist() == [v.tolist() for v in np.triu_indices(4, offset, 3)]
    assert fb.triu_indices(2**50, 2).tolist() == [[0, 0, 1], [0, 1, 1]]
    with pytest.raises(ValueError, match="too many elements"):
        fb.tril_indices(2**40, 2**40)


def test_ops_of_many_tensors_take_none():
    assert fb.block_diag().shape == (1, 0)
    assert fb.broadcast_tensors() == () and fb.atleast_2d() == ()
    for op in (fb.meshgrid, fb.cartesian_prod):
        with pytest.raises(RuntimeError, match="expects a non-empty TensorList"):
            op()
    with pytest.raises(RuntimeError, match="at least one operand"):
        fb.einsum("i")


def test_fill_and_zero_take_overlapping_elements():
    x = fb.zeros(8)
    overlapping = x.as_strided((2, 3, 4), (1, 0, 1))
    overlapping.fill_(3)
    assert x.tolist() == [3] * 5 + [0] * 3
    overlapping.zero_()
    assert x.sum() == 0
