"""Recurrent layers, packed sequences, attention and transformers."""

import math

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.nn.utils import rnn as R

rng = np.random.default_rng(4)


def t(x, grad=False):
    return fb.from_numpy(np.array(x)).requires_grad_(grad)


def close(result, expected, tolerance=1e-9):
    np.testing.assert_allclose(result.detach().double().numpy(), expected, rtol=tolerance, atol=tolerance)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def run(mode, x, h, c, w):
    """One layer and direction over (L, N, F), by the textbook."""
    outputs = []
    for row in x:
        gx = row @ w["weight_ih"].T + w.get("bias_ih", 0)
        gh = h @ w["weight_hh"].T + w.get("bias_hh", 0)
        if mode == "LSTM":
            i, f, g, o = np.split(gx + gh, 4, 1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            h = h @ w["weight_hr"].T if "weight_hr" in w else h
        elif mode == "GRU":
            (xr, xz, xn), (hr, hz, hn) = np.split(gx, 3, 1), np.split(gh, 3, 1)
            z = sigmoid(xz + hz)
            h = (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h
        else:
            h = np.tanh(gx + gh) if mode == "RNN_TANH" else np.maximum(gx + gh, 0)
        outputs.append(h)
    return np.stack(outputs), h, c


def reference(module, x, h0, c0):
    """All layers and directions of a module."""
    ends, place = [], 0
    for layer in range(module.num_layers):
        parts = []
        for reverse in range(2 if module.bidirectional else 1):
            suffix = f"_l{layer}" + ("_reverse" if reverse else "")
            w = {n[: -len(suffix)]: p.detach().numpy() for n, p in module.named_parameters() if n.endswith(suffix)}
            out, h, c = run(module.mode, x[::-1] if reverse else x, h0[place], c0[place], w)
            parts.append(out[::-1] if reverse else out)
            ends.append((h, c))
            place += 1
        x = np.concatenate(parts, 2)
    return x, np.stack([h for h, _ in ends]), np.stack([c for _, c in ends])


LAYERS = {
    "tanh": lambda **kw: nn.RNN(3, 4, **kw), "relu": lambda **kw: nn.RNN(3, 4, nonlinearity="relu", **kw),
    "lstm": lambda **kw: nn.LSTM(3, 4, **kw), "projected": lambda **kw: nn.LSTM(3, 4, proj_size=2, **kw),
    "gru": lambda **kw: nn.GRU(3, 4, **kw),
}  # fmt: skip


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize(
    "kwargs", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True}], ids=str
)
def test_recurrent_layers(kind, kwargs):
    m = LAYERS[kind](dtype=fb.float64, **kwargs)
    places = m.num_layers * (2 if m.bidirectional else 1)
    x, size = rng.normal(size=(5, 2, 3)), m.proj_size or 4
    h0, c0 = rng.normal(size=(places, 2, size)), rng.normal(size=(places, 2, 4))
    out, h, c = reference(m, x, h0, c0)
    given = t(x.transpose(1, 0, 2)) if m.batch_first else t(x)
    result, state = m(given, (t(h0), t(c0)) if m.mode == "LSTM" else t(h0))
    close(result.transpose(0, 1) if m.batch_first else result, out)
    close(state[0] if m.mode == "LSTM" else state, h)
    if m.mode == "LSTM":
        close(state[1], c)
    # one sequence, without a batch and from zeros
    single, _ = m(t(x[:, 0]))
    alone = reference(m, x[:, :1], 0 * h0[:, :1], 0 * c0[:, :1])[0][:, 0]
    close(single, alone)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_packed_sequences_are_as_good_as_alone(kind, bidirectional):
    m = LAYERS[kind](dtype=fb.float64, bidirectional=bidirectional, num_layers=2)
    sequences = [t(rng.normal(size=(n, 3))) for n in (2, 5, 3)]
    out, state = m(R.pack_sequence(sequences, enforce_sorted=False))
    states = state if m.mode == "LSTM" else (state,)
    for i, (sequence, result) in enumerate(zip(sequences, R.unpack_sequence(out), strict=True)):
        alone, end = m(sequence)
        close(result, alone.detach().numpy())
        for s, e in zip(states, end if m.mode == "LSTM" else (end,), strict=True):
            close(s[:, i], e.detach().numpy())


def test_recurrent_gradients():
    for kind in LAYERS:
        m = LAYERS[kind](dtype=fb.float64, bidirectional=True)
        x = t(rng.normal(size=(3, 2, 3)), True)
        assert fb.autograd.gradcheck(lambda v: m(v)[0], (x,))  # noqa: B023
        m(x)[0].sum().backward()
        assert all(p.grad is not None for p in m.parameters())


def test_cells_are_one_step():
    x, h, c = t(rng.normal(size=(2, 3))), t(rng.normal(size=(2, 4))), t(rng.normal(size=(2, 4)))
    for cell, layer in (
        (nn.RNNCell(3, 4), nn.RNN(3, 4)),
        (nn.LSTMCell(3, 4), nn.LSTM(3, 4)),
        (nn.GRUCell(3, 4), nn.GRU(3, 4)),
    ):
        cell.double()
        layer.double().load_state_dict({f"{k}_l0": v for k, v in cell.state_dict().items()})
        is_lstm = isinstance(cell, nn.LSTMCell)
        result = cell(x, (h, c) if is_lstm else h)
        expected, _ = layer(x.unsqueeze(0), (h.unsqueeze(0), c.unsqueeze(0)) if is_lstm else h.unsqueeze(0))
        close(result[0] if is_lstm else result, expected[0].detach().numpy())
        alone = cell(x[0])
        assert (alone[0] if is_lstm else alone).shape == (4,)
        with pytest.raises(ValueError, match="input_size"):
            cell(fb.zeros(2, 5))


def test_recurrent_errors_and_dropout():
    m = nn.LSTM(3, 4)
    for call, text in (
        (lambda: m(fb.zeros(5, 2, 7)), "Expected 3, got 7"),
        (lambda: m(fb.zeros(5, 2, 3), (fb.zeros(1, 2, 5), fb.zeros(1, 2, 4))), "h_0"),
        (lambda: m(fb.zeros(5, 2, 3), (fb.zeros(1, 2, 4), fb.zeros(2, 2, 4))), "c_0"),
        (lambda: m(fb.zeros(3)), "2D or 3D"),
        (lambda: m(fb.zeros(0, 2, 3)), "larger than 0"),
        (lambda: nn.LSTM(3, 0), "greater than zero"),
        (lambda: nn.GRU(3, 4, dropout=2), "range"),
        (lambda: nn.LSTM(3, 4, proj_size=4), "smaller"),
        (lambda: nn.RNN(3, 4, nonlinearity="sine"), "nonlinearity"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.warns(UserWarning, match="num_layers=1"):
        nn.LSTM(3, 4, dropout=0.5)
    deep = nn.LSTM(3, 4, num_layers=2, dropout=0.5)
    x = fb.randn(3, 1, 3)
    assert not fb.equal(deep(x)[0], deep(x)[0])
    assert fb.equal(deep.eval()(x)[0], deep(x)[0])


# ---- packing -----------------------------------------------------------------------------------------------------------


def test_packing_and_back():
    sequences = [fb.tensor([1.0, 2, 3]), fb.tensor([4.0]), fb.tensor([5.0, 6])]
    padded = R.pad_sequence(sequences, batch_first=True, padding_value=-1)
    assert padded.tolist() == [[1, 2, 3], [4, -1, -1], [5, 6, -1]]
    assert R.pad_sequence(sequences, padding_side="left").t().tolist() == [[1, 2, 3], [0, 0, 4], [0, 5, 6]]
    packed = R.pack_padded_sequence(padded, [3, 1, 2], batch_first=True, enforce_sorted=False)
    assert packed.data.tolist() == [1, 5, 4, 2, 6, 3] and packed.batch_sizes.tolist() == [3, 2, 1]
    back, lengths = R.pad_packed_sequence(packed, batch_first=True, padding_value=-1, total_length=4)
    assert back.tolist() == [[1, 2, 3, -1], [4, -1, -1, -1], [5, 6, -1, -1]] and lengths.tolist() == [3, 1, 2]
    assert [s.tolist() for s in R.unpad_sequence(padded, lengths, batch_first=True)] == [[1, 2, 3], [4], [5, 6]]
    assert packed.to(fb.float64).data.dtype == fb.float64 and packed.cpu() is packed and not packed.is_cuda
    for call in (
        lambda: R.pack_sequence(sequences),
        lambda: R.pack_padded_sequence(padded, [3, 1], batch_first=True),
        lambda: R.pack_padded_sequence(padded, [3, 1, 0], batch_first=True, enforce_sorted=False),
        lambda: R.pack_padded_sequence(padded, [9, 1, 1], batch_first=True),
        lambda: R.pad_packed_sequence(packed, total_length=2),
        lambda: R.pad_sequence([]),
        lambda: R.pad_sequence([fb.zeros(2, 3), fb.zeros(2, 4)]),
    ):
        with pytest.raises(ValueError):
            call()


# ---- attention ---------------------------------------------------------------------------------------------------------


def attention(q, k, v, mask=None, scale=None):
    scores = q @ k.swapaxes(-2, -1) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    scores = scores if mask is None else scores + mask
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def test_scaled_dot_product_attention():
    q, k, v = rng.normal(size=(2, 4, 5, 6)), rng.normal(size=(2, 4, 7, 6)), rng.normal(size=(2, 4, 7, 3))
    close(F.scaled_dot_product_attention(t(q), t(k), t(v)), attention(q, k, v))
    close(F.scaled_dot_product_attention(t(q), t(k), t(v), scale=0.3), attention(q, k, v, scale=0.3))
    causal = np.where(np.tril(np.ones((5, 7))) > 0, 0, -np.inf)
    close(F.scaled_dot_product_attention(t(q), t(k), t(v), is_causal=True), attention(q, k, v, causal))
    close(F.scaled_dot_product_attention(t(q), t(k), t(v), t(causal)), attention(q, k, v, causal))
    close(F.scaled_dot_product_attention(t(q), t(k), t(v), t(causal == 0)), attention(q, k, v, causal))
    shared = F.scaled_dot_product_attention(t(q), t(k[:, :2]), t(v[:, :2]), enable_gqa=True)
    close(shared, attention(q, k[:, :2].repeat(2, 1), v[:, :2].repeat(2, 1)))
    assert fb.autograd.gradcheck(
        lambda *a: F.scaled_dot_product_attention(*a, is_causal=True),
        (t(q[:1, :1], True), t(k[:1, :1], True), t(v[:1, :1], True)),
    )
    nothing = F.scaled_dot_product_attention(t(q), t(k), t(v), fb.zeros(5, 7, dtype=fb.bool))
    assert nothing.abs().sum().item() == 0
    for call in (
        lambda: F.scaled_dot_product_attention(t(q), t(k), t(v), t(causal), is_causal=True),
        lambda: F.scaled_dot_product_attention(t(q), t(q), t(v)),
        lambda: F.scaled_dot_product_attention(t(q), t(k).float(), t(v)),
        lambda: F.scaled_dot_product_attention(t(q), t(k[:, :3]), t(v[:, :3]), enable_gqa=True),
        lambda: F.scaled_dot_product_attention(t(q), t(k), t(v), fb.ones(5, 7, dtype=fb.int64)),
    ):
        with pytest.raises(ValueError):
            call()


def test_multihead_attention():
    m = nn.MultiheadAttention(6, 2, dtype=fb.float64)
    with fb.no_grad():
        m.in_proj_bias.normal_()
    x = rng.normal(size=(5, 3, 6))
    q, k, v = np.split(x @ m.in_proj_weight.detach().numpy().T + m.in_proj_bias.detach().numpy(), 3, 2)
    heads = [y.reshape(5, 3, 2, 3).transpose(1, 2, 0, 3) for y in (q, k, v)]
    expected = attention(*heads).transpose(2, 0, 1, 3).reshape(5, 3, 6) @ m.out_proj.weight.detach().numpy().T
    out, weights = m(t(x), t(x), t(x))
    close(out, expected + m.out_proj.bias.detach().numpy())
    assert weights.shape == (3, 5, 5)
    close(weights.sum(-1), np.ones((3, 5)))
    fast, none = m(t(x), t(x), t(x), need_weights=False)
    assert none is None
    close(fast, out.detach().numpy())
    assert m(t(x), t(x), t(x), average_attn_weights=False)[1].shape == (3, 2, 5, 5)
    hidden = fb.zeros(3, 5, dtype=fb.bool)
    hidden[:, 3:] = True
    masked, weights = m(t(x), t(x), t(x), key_padding_mask=hidden)
    assert weights[..., 3:].abs().sum().item() == 0
    close(masked, m(t(x), t(x[:3]), t(x[:3]))[0].detach().numpy())
    close(m(t(x[:, 0]), t(x[:, 0]), t(x[:, 0]))[0], out[:, 0].detach().numpy())
    other = nn.MultiheadAttention(6, 2, kdim=4, vdim=5, add_bias_kv=True, add_zero_attn=True, batch_first=True)
    out, weights = other(fb.zeros(3, 5, 6), fb.zeros(3, 7, 4), fb.zeros(3, 7, 5))
    assert out.shape == (3, 5, 6) and weights.shape == (3, 5, 9)
    with pytest.raises(AssertionError):
        nn.MultiheadAttention(5, 2)
    with pytest.raises(ValueError, match="attn_mask"):
        m(t(x), t(x), t(x), attn_mask=fb.zeros(2, 2))


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_layers(norm_first):
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, dropout=0.0, activation="gelu", norm_first=norm_first, batch_first=True
    )
    x = fb.randn(3, 5, 8)

    def attend(y):
        return layer.self_attn(y, y, y, need_weights=False)[0]

    def feed(y):
        return layer.linear2(F.gelu(layer.linear1(y)))

    if norm_first:
        y = x + attend(layer.norm1(x))
        y = y + feed(layer.norm2(y))
    else:
        y = layer.norm1(x + attend(x))
        y = layer.norm2(y + feed(y))
    close(layer(x), y.detach().numpy(), 1e-5)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    seen = nn.TransformerEncoder(layer, 2)
    a = seen(x, mask=mask)
    changed = x.clone()
    changed[:, 3:] += 1
    close(seen(changed, mask=mask)[:, :3], a[:, :3].detach().numpy(), 1e-5)
    with pytest.raises(RuntimeError, match="relu/gelu"):
        nn.TransformerEncoderLayer(8, 2, activation="sine")


def test_transformer():
    m = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
    src, tgt = fb.randn(2, 4, 8), fb.randn(2, 3, 8)
    out = m(src, tgt, tgt_mask=m.generate_square_subsequent_mask(3))
    assert out.shape == (2, 3, 8)
    out.sum().backward()
    assert all(p.grad is not None for p in m.parameters())
    with pytest.raises(ValueError, match="d_model"):
        m(src[..., :4], tgt)
    with pytest.raises(ValueError, match="batch number"):
        m(src[:1], tgt)


def test_sdpa_kernel():
    from flambeau.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        assert F.scaled_dot_product_attention(fb.ones(1, 1), fb.ones(1, 1), fb.ones(1, 1)).item() == 1
    with pytest.raises(ValueError), sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        raise AssertionError("not reached")


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_sizes_and_flags_of_recurrent_layers(kind):
    for args, options, error, phrase in (
        ((3.0, 5), {}, TypeError, "input_size should be of type int, got: float"),
        ((0, 5), {}, ValueError, "input_size must be greater than zero"),
        ((3, 0), {}, ValueError, "hidden_size must be greater than zero"),
        ((3, 5, 0), {}, ValueError, "num_layers must be greater than zero"),
        ((3, 5), {"bias": 0}, TypeError, "bias should be of type bool, got: int"),
        ((3, 5), {"batch_first": "False"}, TypeError, "batch_first should be of type bool, got: str"),
        ((3, 5), {"dropout": True}, ValueError, "dropout should be a number"),
    ):
        with pytest.raises(error, match=phrase):
            kind(*args, **options)


def test_states_of_cells_are_checked():
    cell, x = nn.GRUCell(10, 20), fb.zeros(3, 10)
    for shape, phrase in (
        ((3, 21), "hidden0 has inconsistent hidden_size: got 21, expected 20"),
        ((5, 20), "Input batch size 3 doesn't match hidden0 batch size 5"),
        ((3, 1, 1, 20), "Expected hidden to be 1D or 2D, got 4D instead"),
        ((20,), "hidden state must be"),
    ):
        with pytest.raises(ValueError, match=phrase):
            cell(x, fb.zeros(shape))
    with pytest.raises(ValueError, match=r"Expected hx\[0\] to be 1D or 2D, got 4D instead"):
        nn.LSTMCell(10, 20)(x, (fb.zeros(3, 1, 1, 20), fb.zeros(3, 1, 1, 20)))


def test_what_models_read_of_transformer_layers():
    kinds = {"relu": 1, "gelu": 2, nn.ReLU(): 1, nn.GELU(): 2, nn.functional.gelu: 2, fb.tanh: 0}
    for activation, kind in kinds.items():
        layer = nn.TransformerEncoderLayer(4, 2, 8, activation=activation)
        assert layer.activation_relu_or_gelu == kind
    assert nn.TransformerEncoder(layer, 1).use_nested_tensor is False


def test_packed_sequences_convert_to_small_integers():
    packed = fb.nn.utils.rnn.pack_sequence([fb.tensor([1.0, 2.0])])
    assert [getattr(packed, n)().data.dtype for n in ("short", "char", "byte")] == [fb.int16, fb.int8, fb.uint8]


def test_packed_sequence_without_steps_is_refused():
    empty = fb.nn.utils.rnn.PackedSequence(fb.zeros(0, 5), fb.tensor([], dtype=fb.int64))
    for unpack in (fb.nn.utils.rnn.pad_packed_sequence, fb.nn.utils.rnn.unpack_sequence):
        with pytest.raises(RuntimeError, match="batch_sizes is empty"):
            unpack(empty)
