"""Messages begin with the words people know from PyTorch, and say what was given."""

import pytest

import flambeau as fb

F = fb.nn.functional
rnn = fb.nn.utils.rnn

WORDS = [
    (lambda: fb.ones(2, 3) + fb.ones(2, 4), r"The size of tensor a \(3\) must match the size of tensor b \(4\) at non-sing"),
    (lambda: fb.ones(4) + fb.ones(2, 3), r"The size of tensor a \(4\) must match the size of tensor b \(3\) at non-sing"),
    (lambda: fb.ones(2).sum(3), r"Dimension out of range \(expected to be in range of \[-1, 0\], but got 3\)"),
    (lambda: fb.ones(2, 3).view(4, 2), r"shape '\[4, 2\]' is invalid for input of size 6"),
    (lambda: fb.zeros(0).reshape(0, -1), r"cannot reshape tensor of 0 elements into shape \[0, -1\]"),
    (lambda: fb.ones(3).item(), "a Tensor with 3 elements cannot be converted to Scalar"),
    (lambda: fb.cat([fb.ones(2, 2), fb.ones(3)]), "Tensors must have same number of dimensions"),
    (lambda: fb.cat([fb.ones(2), None]), "expected Tensor as element 1 in argument 'tensors'.*got NoneType"),
    (lambda: fb.cat(fb.ones(2)), r"argument 'tensors' \(position 1\) must be tuple of Tensors, not Tensor"),
    (lambda: fb.linspace(0, 1, 2.5), r"received an invalid combination of arguments - got \(int, int, float\)"),
    (lambda: fb.ones(2).sum(dim="x"), r"received an invalid combination of arguments - got \(dim=str\)"),
    (lambda: fb.ones(2, dtype=fb.int64).mean(), r"could not infer output dtype. Input dtype must be .* Got: Long"),
    (lambda: fb.ones(2).as_strided((3,), (2,)), r"requiring a storage size of 20 are out of bounds for storage of size 8"),
    (lambda: fb.ones(3).hsplit(2), r"flambeau.hsplit attempted to split along dimension 0"),
    (lambda: fb.movedim(fb.ones(2, 3), (0, 0), (0, 1)), r"repeated dim in `source` \(\[0, 0\]\)"),
    (lambda: F.conv2d(fb.ones(1, 1, 3, 3), fb.ones(1, 1, 2, 2), stride=0), "non-positive stride is not supported"),
    (lambda: fb.nn.Linear(2, 2).load_state_dict({"weight": 1}), "expected flambeau.Tensor or Tensor-like object from checkpoint but"),
    (lambda: fb.nn.ReLU().load_state_dict(""), "Expected state_dict to be dict-like, got str"),
    (lambda: fb.nn.ReLU().add_module(1, None), "module name should be a string. Got int"),
    (lambda: fb.nn.ReLU().register_buffer(1, None), "buffer name should be a string. Got int"),
    (lambda: rnn.pack_sequence([fb.ones(1), fb.ones(2)]), r"got \[1, 2\]. You can pass `enforce_sorted=False`"),
    (lambda: rnn.pad_sequence(3), "Expected iterable for input sequences, but got arg of type int"),
    (lambda: F.cosine_embedding_loss(fb.ones(2), fb.ones(2), fb.ones(2)), "1D target tensor expects 2D input tensors"),
    (lambda: F.cosine_embedding_loss(fb.ones(2), fb.ones(2), fb.ones(2, 1)), "0D or 1D target tensor expected"),
    (lambda: F.binary_cross_entropy(fb.ones(2), fb.ones(2, 1)), r"Using a target size \(flambeau.Size\(\[2, 1\]\)\)"),
    (lambda: F.embedding(fb.tensor([0]), fb.ones(2, 1), padding_idx=5), "padding_idx must be within the number of embeddings"),
    (lambda: F.layer_norm(fb.ones(2, 3), (4,)), r"Given normalized_shape=\[4\], expected input with shape \[\*, 4\]"),
    (lambda: fb.ones(3).random_(4, 2), "random_ expects 'from' to be less than 'to', but got from=4 >= to=2"),
    (lambda: fb.ones(3, dtype=fb.int8).random_(-300, 5), "from is out of bounds for .*got -300, expected -128 to 127"),
    (lambda: fb.ones(3, dtype=fb.int8).random_(-3, 500), "to - 1 is out of bounds for .*got 499, expected -128 to 127"),
    (lambda: fb.ones(3, dtype=fb.float16).random_(-3, 70000), "to - 1 is out of bounds for .*-3 to 70000"),
    (lambda: fb.ones(3, dtype=fb.float16).random_(-70000, 3), "from is out of bounds for .*-70000 to 3"),
    (lambda: fb.ones(3, dtype=fb.int8).random_(300, None), "from is out of bounds for .*got 300"),
    (lambda: fb.ones(3).uniform_(-3e38, 3e38), "uniform_ expects to-from <= .*found from=-3e.38 and to=3e.38"),
    (lambda: fb.add(fb.tensor([1]), fb.tensor([1]), alpha=1.5), "argument alpha must not be a floating point number"),
    (lambda: fb.add(fb.ones(1), fb.ones(1), alpha=1j), "argument alpha must not be a complex number"),
    (lambda: fb.sub(fb.tensor([1]), fb.tensor([1]), alpha=False), "Boolean alpha only supported for Boolean results"),
    (lambda: fb.addcdiv(*[fb.tensor([1])] * 3), "Integer division with addcdiv is no longer supported"),
    (lambda: fb.linalg.cholesky(fb.ones(2, 3)), r"A must be batches of square matrices, got shape \(2, 3\)"),
    (lambda: fb.linalg.cond(fb.ones(3)), r"The input tensor A must have at least 2 dimensions, got shape \(3,\)"),
    (lambda: fb.bincount(fb.tensor([-1])), "only supports 1-d non-negative integral inputs, got -1"),
    (lambda: fb.bincount(fb.tensor([[1]])), "only supports 1-d non-negative integral inputs, got shape"),
    (lambda: fb.bincount(fb.tensor([1.0])), "only supports 1-d non-negative integral inputs, got .*float32"),
    (lambda: fb.all(fb.ones(2), 0, out=fb.ones(())), "all only supports bool tensor for result, got .*float32"),
    (lambda: fb.any(fb.ones(2), 0, out=fb.ones(())), "any only supports bool tensor for result, got .*float32"),
    (lambda: fb.cumsum(fb.ones(2), 0, dtype=fb.float64, out=fb.ones(2)), "Expected out tensor to have dtype .*float64"),
    (lambda: fb.cumprod(fb.ones(2), 0, dtype=fb.float64, out=fb.ones(2)), "Expected out tensor to have dtype .*float64"),
]


@pytest.mark.parametrize(("call", "words"), WORDS, ids=range(len(WORDS)))
def test_messages_begin_with_known_words(call, words):
    with pytest.raises((RuntimeError, TypeError), match=words):
        call()


def test_programs_for_pytorch_read_its_name():
    with fb.compat.torch() as torch, pytest.raises(RuntimeError, match="torch.hsplit attempted"):
        torch.ones(3).hsplit(2)
