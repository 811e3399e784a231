"""What beginners pass by mistake: the error says which module or function, what it got, and the way out."""

import numpy as np
import pytest

import flambeau as fb
from flambeau import nn
from flambeau.nn import functional as F


def raises(error, words, call, *args, **kwargs):
    with pytest.raises(error) as caught:
        call(*args, **kwargs)
    assert words in str(caught.value), str(caught.value)
    return caught.value


@pytest.mark.parametrize("given", [None, "x", [1.0, 2.0], 1.5])
@pytest.mark.parametrize(
    "module",
    [
        nn.AdaptiveAvgPool2d(2), nn.BatchNorm1d(3), nn.Embedding(5, 3), nn.GRU(3, 4), nn.GroupNorm(1, 3), nn.LPPool2d(2, 2),
        nn.LSTMCell(3, 4), nn.MultiheadAttention(4, 2), nn.Unfold(2), nn.LocalResponseNorm(2),
        nn.Softmin(0),
    ],
    ids=lambda module: type(module).__name__,
)  # fmt: skip
def test_no_tensor(module, given):
    more = (given, given) if isinstance(module, nn.MultiheadAttention) else ()
    with pytest.raises(TypeError) as caught:
        module(given, *more)
    message = str(caught.value)
    assert "must be" in message
    assert type(given).__name__ in message
    assert any(type(module).__name__ in note for note in [message, *caught.value.__notes__])


def test_no_tensor_as_target_and_by_keyword():
    raises(TypeError, "CrossEntropyLoss: target must be a Tensor, got NoneType", nn.CrossEntropyLoss(), fb.zeros(2, 3), None)
    raises(TypeError, "BatchNorm1d: input must be a Tensor, got list; use fb.as_tensor()", nn.BatchNorm1d(3), input=[1])
    raises(TypeError, "BatchNorm1d: input must be a Tensor, got ndarray; use fb.as_tensor()", nn.BatchNorm1d(3), np.zeros((2, 3)))


def test_attribute_errors_of_other_code_stay():
    class Mine(nn.Module):
        def forward(self, x):
            return x.foo

    class Broken(nn.Linear):
        def forward(self, input):
            return self.missing

    raises(AttributeError, "foo", Mine(), None)
    raises(AttributeError, "missing", Broken(2, 2), fb.zeros(2))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda n: nn.Linear(n, 3), "Linear: in_features"),
        (lambda n: nn.Linear(3, n), "Linear: out_features"),
        (lambda n: nn.Conv2d(n, 3, 3), "Conv2d: in_channels"),
        (lambda n: nn.Conv2d(3, n, 3), "Conv2d: out_channels"),
        (lambda n: nn.Conv2d(3, 3, (3, n)), "Conv2d: kernel_size"),
        (lambda n: nn.ConvTranspose1d(3, n, 3), "ConvTranspose1d: out_channels"),
        (lambda n: nn.BatchNorm2d(n), "BatchNorm2d: num_features"),
        (lambda n: nn.Embedding(n, 3), "Embedding: num_embeddings"),
        (lambda n: nn.EmbeddingBag(3, n), "EmbeddingBag: embedding_dim"),
        (lambda n: nn.LayerNorm((2, n)), "LayerNorm: normalized_shape"),
        (lambda n: nn.RMSNorm((n,)), "RMSNorm: normalized_shape"),
    ],
)
def test_sizes(make, name):
    raises(ValueError, name, make, -1)
    for wrong in (None, "a", 2.5):
        raises(TypeError, name, make, wrong)
    make(np.int64(2))


def test_empty_batches_of_sequences():
    for layer in (nn.LSTM, nn.GRU, nn.RNN):
        module = layer(3, 4, 2, bidirectional=True, batch_first=True)
        output, state = module(fb.zeros(0, 5, 3))
        assert output.shape == (0, 5, 8)
        assert (state[0] if layer is nn.LSTM else state).shape == (4, 0, 4)
        output.sum().backward()
        assert all(bool((p.grad == 0).all()) for p in module.parameters() if p.grad is not None)


def test_no_classes():
    target = fb.tensor([0, 0])
    for loss in (F.cross_entropy, F.nll_loss):
        raises(IndexError, "target 0 is out of bounds for 0 classes", loss, fb.zeros(2, 0), target)
    assert F.nll_loss(fb.zeros(2, 0), fb.tensor([-100, -100]), reduction="sum").item() == 0


def test_batch_norm_of_no_pixels():
    module = nn.BatchNorm2d(3)
    assert module(fb.zeros(2, 3, 4, 0)).shape == (2, 3, 4, 0)
    raises(ValueError, "more than 1 value per channel", nn.BatchNorm1d(3), fb.zeros(1, 3))


@pytest.mark.parametrize("dtype", [fb.float16, fb.bfloat16, fb.float32, fb.float64])
@pytest.mark.parametrize("other", [fb.bfloat16, fb.float32, fb.float64])
def test_rms_norm_with_a_weight_of_another_dtype(dtype, other):
    fb.manual_seed(0)
    x, weight = fb.randn(3, 4).to(dtype), fb.randn(4).to(other).requires_grad_()
    result = F.rms_norm(x, (4,), weight, 1e-5)
    assert result.dtype == dtype
    wanted = F.rms_norm(x.double(), (4,), weight.double(), 1e-5)
    coarse = fb.float16 in (dtype, other) or fb.bfloat16 in (dtype, other)
    fb.testing.assert_close(result.double(), wanted, rtol=1e-2 if coarse else 1e-5, atol=1e-2 if coarse else 1e-5)
    result.float().sum().backward()
    assert weight.grad.dtype == other


def test_norms_name_the_function():
    x, weight = fb.zeros(2, 4, dtype=fb.float64), fb.ones(4)
    raises(ValueError, "layer_norm: expected weight to have the input's dtype", F.layer_norm, x, (4,), weight)
    raises(ValueError, "group_norm: expected weight to have the input's dtype", F.group_norm, x, 2, weight)


def test_clipping():
    p = fb.ones(2, requires_grad=True)
    p.sum().backward()
    raises(TypeError, "max_norm must be a number, got 'a'", nn.utils.clip_grad_norm_, [p], "a")
    raises(TypeError, "clip_value must be a number, got None", nn.utils.clip_grad_value_, [p], None)
    for wrong in (None, 3, "ab"):
        raises(TypeError, "pass model.parameters()", nn.utils.clip_grad_norm_, wrong, 1.0)


def test_lengths_of_sequences():
    x, target = fb.zeros(5, 1, 3), fb.tensor([[1, 2]])
    for wrong in (None, "x", 1.5, [2.5]):
        raises(TypeError, "ctc_loss: input_lengths must be a Tensor or a sequence", F.ctc_loss, x, target, wrong, [2])
    F.ctc_loss(x, target, (5,), np.array([2]))


def test_utilities_name_themselves():
    raises(TypeError, "pad_packed_sequence: expected a PackedSequence", nn.utils.rnn.pad_packed_sequence, fb.zeros(2))
    raises(KeyError, "spectral_norm: Linear has no parameter 'foo'", nn.utils.spectral_norm, nn.Linear(2, 2), "foo")
    raises(ValueError, "trunc_normal_: std must be positive, got 0", nn.init.trunc_normal_, fb.zeros(3), std=0)
    raises(RuntimeError, "Transformer: activation should be relu/gelu", nn.TransformerEncoderLayer, 4, 2, activation="foo")
    raises(TypeError, "AveragedModel: model must be a Module", fb.optim.swa_utils.AveragedModel, None)
    scheduler = fb.optim.lr_scheduler.ReduceLROnPlateau(fb.optim.SGD([fb.zeros(2)]))
    raises(TypeError, "ReduceLROnPlateau: metrics must be one number, got 'a'", scheduler.step, "a")
    raises(RuntimeError, "2 elements", scheduler.step, fb.zeros(2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: F.dropout1d(fb.ones(1, 2, 2, 2)), "dropout1d: Expected 2D or 3D input, but received a 4D input"),
        (lambda: nn.Conv2d(1, 1, 3, padding="foo"), "Conv2d: Invalid padding string 'foo'"),
        (lambda: nn.Conv2d(1, 1, 3, padding_mode="foo"), "Conv2d: padding_mode must be one of"),
        (
            lambda: F.conv2d(fb.ones(1, 3, 4, 1), fb.ones(2, 3, 10, 3)),
            "conv2d: Calculated padded input size per channel: (4 x 1). Kernel size: (10 x 3). Kernel size can't be greater than",
        ),
        (
            lambda: F.conv2d(fb.ones(1, 1, 1, 8, 8), fb.ones(2, 1, 3, 3)),
            "conv2d: Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [1, 1, 1, 8, 8]",
        ),
        (
            lambda: F.conv1d(fb.ones(1, 1, 8), fb.ones(1, 1, 3), padding=2**63 - 5),
            "conv1d: Given padding=9223372036854775803 at dimension 0 , expected padding to be at most",
        ),
        (
            lambda: F.embedding_bag(fb.tensor([0, 1]), fb.ones(3, 2), fb.tensor([0]), mode="sum", per_sample_weights=fb.ones(3)),
            "embedding_bag: expected per_sample_weights to have the same shape as the input",
        ),
        (lambda: F.grid_sample(fb.ones(1, 1, 2, 2), fb.ones(1, 1, 1, 3)), "grid_sample: expected grid to have size 2 in last dimension"),
        (lambda: F.grid_sample(fb.ones(1, 1, 2, 2), fb.ones(2, 1, 1, 2)), "expected grid and input to have same batch size"),
        (lambda: F.grid_sample(fb.ones(1, 1, 2, 2), fb.ones(1, 1, 1, 2), mode="x"), "but got: 'x'"),
        (lambda: F.fold(fb.ones(1, 5, 9), (4, 5), (2, 3)), "fold: expected the size of dimension -2 to be divisible by the product of"),
        (lambda: F.fold(fb.ones(1, 6, 8), (4, 5), (2, 3)), "to match the calculated number of sliding blocks"),
        (lambda: F.cosine_similarity(fb.ones(1, 2), fb.ones(1, 2), eps=-1.0), "cosine_similarity: eps must be non-negative"),
        (
            lambda: F.fractional_max_pool2d(fb.ones(1, 8, 8), 2, output_ratio=(0.5, 0.5, 0.5)),
            "fractional_max_pool2d requires output_ratio to either be a single Int or tuple of Ints.",
        ),
        (lambda: nn.LSTM(10, 20)(fb.ones(2, 3, 10), (fb.ones(1, 3, 19), fb.ones(1, 3, 19))), "LSTM: Expected hidden state h_0 of size"),
        (
            lambda: nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5])(fb.ones(2, 16), fb.zeros(3, dtype=fb.int64)),
            "Input and target should have the same size in the batch dimension",
        ),
    ],
)  # fmt: skip
def test_messages_begin_with_the_words_of_pytorch(call, words):
    raises(ValueError, words, call)


def test_dropout_of_other_ranks_warns():
    with pytest.warns(UserWarning, match="Received a 5-D input to dropout2d"):
        F.dropout2d(fb.ones(1, 1, 1, 1, 1))
    with pytest.warns(UserWarning, match="assuming that channel-wise 1D dropout behavior is desired"):
        F.dropout2d(fb.ones(1, 2, 2))
    with pytest.warns(UserWarning, match="Received a 6-D input to dropout3d"):
        F.dropout3d(fb.ones(1, 1, 1, 1, 1, 1))


X = fb.ones(4, 4, 4)


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ((X, X[0], X), {}, "For batched (3-D) `query`, expected `key` and `value` to be 3-D but found 2-D and 3-D tensors respectively"),
        ((X[0], X[0], X), {}, "For unbatched (2-D) `query`, expected `key` and `value` to be 2-D but found 2-D and 3-D tensors"),
        ((X[0, 0], X, X), {}, "query should be unbatched 2D or batched 3D tensor but received 1-D query tensor"),
        ((X, X, X), {"key_padding_mask": fb.ones(4) > 0}, "expected `key_padding_mask` to be `None` or 2-D but found 1-D tensor instead"),
        ((X, X, X), {"attn_mask": fb.ones(4) > 0}, "expected `attn_mask` to be `None`, 2-D or 3-D but found 1-D tensor instead"),
        ((X[0], X[0], X[0]), {"attn_mask": fb.ones(3, 4, 4) > 0}, "Expected `attn_mask` shape to be (2, 4, 4)"),
    ],
)
def test_ranks_in_multihead_attention(given, options, words):
    for kind in (AssertionError, ValueError):  # PyTorch's class, and the one for arguments
        raises(kind, words, nn.MultiheadAttention(4, 2, batch_first=True), *given, **options)


def test_weights_of_samples_need_sums():
    call = lambda: F.embedding_bag(fb.tensor([[1]]), fb.ones(4, 2), mode="max", per_sample_weights=fb.ones(1, 1))  # noqa: E731
    raises(NotImplementedError, "only supported for mode='sum'", call)


def test_orthogonal_needs_matrices():
    layer = nn.Linear(3, 4)
    raises(ValueError, "Expected a matrix", nn.utils.parametrizations.orthogonal, layer, "bias")
    nn.utils.parametrizations.orthogonal(layer, "weight")
    raises(ValueError, "matrices of shape (4, 3)", setattr, layer, "weight", fb.ones(5, 5))
