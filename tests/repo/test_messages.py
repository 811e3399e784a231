"""What beginners get wrong, and what they are told: the op, what was given, and the way out."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.nn.utils import rnn
from flambeau.utils.data import DataLoader

MISTAKES = {
    "an array to a layer": (lambda: nn.Linear(3, 2)(np.ones((1, 3))), TypeError, "linear: input must be a Tensor, got ndarray"),
    "integers to a layer": (lambda: nn.Linear(3, 2)(fb.ones(1, 3).long()), ValueError, r"linear: .*int64 .*\.to\(flambeau.float32\)"),
    "doubles to a layer": (lambda: nn.Linear(3, 2)(fb.ones(1, 3).double()), ValueError, r"the module with \.to\(flambeau.float64\)"),
    "floats to an embedding": (lambda: nn.Embedding(3, 2)(fb.ones(2)), TypeError, r"embedding: .*float32; .*\.long\(\)"),
    "an index too large": (lambda: nn.Embedding(3, 2)(fb.tensor([3])), IndexError, "has 3 rows, 0 to 2"),
    "floats as classes": (lambda: F.cross_entropy(fb.ones(2, 3), fb.ones(2)), ValueError, r"float32; use \.long\(\)"),
    "classes in a column": (lambda: F.cross_entropy(fb.ones(2, 3), fb.ones(2, 1).long()), ValueError, r"target\.squeeze\(1\)"),
    "a batch of one": (lambda: nn.BatchNorm1d(3)(fb.ones(1, 3)), ValueError, r"got input size \(1, 3\); use a larger batch, or eval\(\)"),
    "a module to an optimizer": (lambda: fb.optim.SGD(nn.Linear(1, 1), lr=0.1), TypeError, r"SGD: .* got Linear; pass its parameters\(\)"),
    "a used-up iterator": (lambda: fb.optim.Adam(iter(())), ValueError, "Adam: params is empty; .* iterator used up"),
    "a rate in quotes": (lambda: fb.optim.Adam([fb.ones(1)], lr="0.1"), TypeError, "Adam: lr must be a number or a tensor, got str"),
    "a module to clip": (lambda: nn.utils.clip_grad_norm_(nn.Linear(1, 1), 1.0), TypeError, r"Linear; pass its parameters\(\)"),
    "a module to a loss": (lambda: F.mse_loss(nn.Linear(1, 1), fb.ones(1)), TypeError, "mse_loss: input must be a Tensor, got Linear"),
    "a loss called while made": (lambda: nn.MSELoss(fb.ones(2), fb.ones(2)), TypeError, r"made first and then called"),
    "a function as a layer": (lambda: nn.Sequential(F.relu), TypeError, "got function; call it in forward"),
    "a list that is called": (lambda: nn.ModuleList([nn.ReLU()])(fb.ones(1)), NotImplementedError, "call the modules in it"),
    "samples of other keys": (lambda: next(iter(DataLoader([{"a": 1}, {"b": 2}], 2))), KeyError, "default_collate: .* 'a' is missing"),
    "numbers as sequences": (lambda: nn.utils.rnn.pad_sequence([fb.tensor(1.0)]), ValueError, "pad_sequence: .* 0-d"),
    "a folder that is not there": (lambda: fb.save({}, "/nowhere/at/all.pt"), FileNotFoundError, "No such folder.*'/nowhere/at'"),
    "a GPU": (lambda: fb.ones(1).cuda(), RuntimeError, r"fb\.cuda\.is_available\(\)"),
    "backward from nothing": (lambda: fb.ones(()).backward(), RuntimeError, r"backward: .* does not require grad .* no_grad\(\)"),
    "gradients of integers": (lambda: fb.tensor([1], requires_grad=True), RuntimeError, r"got int64; .* \.float\(\)"),
    "bytes to a convolution": (lambda: nn.Conv2d(1, 1, 1)(fb.ones(1, 1, 2, 2).byte()), ValueError, r"uint8.*\.to\(dtype\)"),
    "text as a tensor": (lambda: fb.tensor("1"), TypeError, "from str; expected numbers"),
    "padding of nothing": (
        lambda: F.avg_pool2d(fb.ones(1, 0, 1, 49), 2, padding=-1), RuntimeError, "avg_pool2d: pad must be non-negative"),
    "too much padding of nothing": (
        lambda: F.max_pool3d(fb.ones(1, 0, 1, 49, 50), 2, padding=4), RuntimeError, "pad should be at most half"),
    "a copy of less than nothing": (
        lambda: fb.narrow_copy(fb.ones(10), 0, 0, -1), RuntimeError, r"start \(0\) \+ length \(-1\) exceeds dimension size \(10\)"),
    "too many reflectors": (
        lambda: fb.ormqr(fb.ones(5, 0), fb.ones(5), fb.ones(5, 5)), RuntimeError, r"tau\.shape\[-1\] must be equal to min"),
    "coordinates on two devices": (
        lambda: fb.gradient(fb.ones(3, 3), spacing=[fb.ones(3), fb.ones(3, device="meta")]), RuntimeError, "on the same device"),
    "a number as condition": (lambda: fb.where(fb.ones(1), fb.ones(1), fb.ones(1)), TypeError, "condition != 0"),
    "a size in quotes": (lambda: nn.Linear("3", 2), TypeError, "Linear: in_features must be a whole number, got '3'"),
    "a dtype in quotes": (lambda: fb.zeros(2, dtype="float"), TypeError, r"must be dtype \(or None\), say flambeau.float32, not str"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_message_has_the_way_out(mistake):
    make, kind, pattern = MISTAKES[mistake]
    with pytest.raises(kind, match=pattern):
        make()


@pytest.mark.parametrize("wrong, right", [("fb.zeors", "zeros"), ("fb.optim.Adm", "Adam"), ("fb.utils.dta", "data")])
def test_misspelt_names_are_corrected(wrong, right):
    code = f"import flambeau as fb\n{wrong}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert f"Did you mean: '{right}'?" in result.stderr


def test_ops_have_signatures():
    assert str(inspect.signature(fb.kron)) == "(input: 'Tensor', other: 'Tensor') -> 'Tensor'"
    assert list(inspect.signature(fb.Tensor.sum).parameters) == ["self", "dim", "keepdim", "dtype"]
    assert inspect.signature(fb.ones(2).sum).parameters["keepdim"].default is False
    assert inspect.signature(fb.Tensor.add_).parameters["alpha"].kind is inspect.Parameter.KEYWORD_ONLY
    assert str(inspect.signature(fb.zeros)).startswith("(*size: 'int', dtype: 'dtype | None' = None, ")
    with_none = [name for name, op in vars(fb.linalg).items() if hasattr(op, "signatures") and not hasattr(op, "__signature__")]
    assert len(with_none) < 10, with_none
    for op in fb._C.namespaces[""].values():
        if hasattr(op, "__signature__"):
            inspect.signature(op)


# Phrases of PyTorch's that people search for: ours begin with them.
SEARCHED = {
    "real transform of complex numbers": (lambda: fb.fft.rfft(fb.ones(4) * 1j), RuntimeError, "rfft expects a real input tensor"),
    "transform of no points": (lambda: fb.fft.fft(fb.ones(4), n=0), RuntimeError, r"Invalid number of data points \(0\) specified"),
    "istft of real numbers": (lambda: fb.istft(fb.zeros(3, 5, 2), 4), RuntimeError, "requires a complex-valued input tensor"),
    "autocast of a tensor": (lambda: fb.autocast("cpu")(fb.ones(1)), TypeError, r"autocast\(\)\(func\) requires a callable, but got"),
    "autocast on nothing": (lambda: fb.autocast("no such"), RuntimeError, "Invalid device string: 'no such'"),
    "autocast on a device": (lambda: fb.autocast(fb.device("cpu")), ValueError, "Expected `device_type` of type `str`, got: `<class"),
    "segments that do not fit": (
        lambda: fb.segment_reduce(fb.ones(3), "sum", lengths=fb.tensor([1, 1])), RuntimeError, "Expected all rows of lengths along axis",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEARCHED)
def test_words_that_people_search_for(name):
    call, error, words = SEARCHED[name]
    with pytest.raises(error, match=words):
        call()


WORDS = [
    (lambda: fb.channel_shuffle(fb.ones(1, 3, 2, 2), 0), "Number of groups to divide channels in must be positive"),
    (lambda: fb.channel_shuffle(fb.ones(1, 3, 2, 2), 2), "Number of channels must be divisible by groups"),
    (lambda: fb.channel_shuffle(fb.ones(1, 2), 2), "channel_shuffle expects input with > 2 dims"),
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
    (lambda: fb.linalg.cholesky(fb.ones(2, 3)), "A must be batches of square matrices, but they are 2 by 3 matrices"),
    (lambda: fb.linalg.cond(fb.ones(3)), r"The input tensor A must have at least 2 dimensions, got shape \(3,\)"),
    (lambda: fb.bincount(fb.tensor([-1])), "only supports 1-d non-negative integral inputs, got -1"),
    (lambda: fb.bincount(fb.tensor([[1]])), "only supports 1-d non-negative integral inputs, got shape"),
    (lambda: fb.bincount(fb.tensor([1.0])), "not implemented for 'Float'"),
    (lambda: fb.all(fb.ones(2), 0, out=fb.ones(())), "all only supports bool tensor for result, got .*float32"),
    (lambda: fb.any(fb.ones(2), 0, out=fb.ones(())), "any only supports bool tensor for result, got .*float32"),
    (lambda: fb.cumsum(fb.ones(2), 0, dtype=fb.float64, out=fb.ones(2)), "Expected out tensor to have dtype .*float64"),
    (lambda: fb.cumprod(fb.ones(2), 0, dtype=fb.float64, out=fb.ones(2)), "Expected out tensor to have dtype .*float64"),
    (lambda: fb.mm(fb.eye(2), fb.eye(2), out=fb.empty(0, dtype=fb.int32)), r"have dtype float, but got int instead \("),
    (lambda: fb.add(fb.ones(1), 1, out=fb.ones(1, dtype=fb.int64)), "result type Float can't be cast to the desired output type Long"),
    (lambda: fb.linalg.pinv(fb.eye(2), out=fb.empty(0, dtype=fb.int32)), "safely castable from Float dtype, but got result with dtype Int"),
    (lambda: fb.linalg.eigvals(fb.eye(2), out=fb.empty(0)), "but got eigenvalues with dtype Float"),
    (lambda: fb.ones(10, 10) + fb.ones(11, 11), r"tensor a \(10\) must match the size of tensor b \(11\) at non-singleton dimension 1"),
    (lambda: fb.mm(fb.ones(2, 3), fb.ones(2, 4)), r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 2x4\)"),
    (lambda: fb.mm(fb.eye(2).short(), fb.eye(2)), "expected m1 and m2 to have the same dtype, but got: short int != float"),
    (lambda: fb.baddbmm(fb.ones(1, 2, 2).long(), fb.ones(1, 2, 2), fb.ones(1, 2, 2)), "got: input long int, batch1: float, batch2: float"),
    (lambda: fb.inner(fb.eye(3), fb.ones(2, 2)), r"last dimension must match on both input tensors but got shapes \[3, 3\] and \[2, 2\]"),
    (lambda: fb.addr(fb.eye(2).long(), *[fb.tensor([1, 2])] * 2, beta=1.5), "argument beta must not be a floating point number"),
    (lambda: fb.einsum("", []), r"einsum\(\): must specify the equation string and at least one operand"),
    (lambda: fb.tensordot(fb.eye(2), fb.eye(2), -1), "tensordot expects dims >= 0, but got dims=-1"),
    (lambda: fb.linalg.multi_dot([fb.tensor(1.0), fb.eye(2)]), "the first tensor must be 1D or 2D but got 0D"),
    (lambda: fb.linalg.multi_dot([fb.eye(2), fb.ones(2), fb.eye(2)]), "tensor 1 must be 2D but got 1D"),
    (lambda: fb.linalg.inv(fb.eye(2).bfloat16()), "Low precision dtypes not supported. Got BFloat16"),
    (lambda: fb.linalg.inv(fb.eye(2).long()), "Expected a floating point or complex tensor as input. Got Long"),
    (lambda: fb.linalg.qr(fb.ones(3)), "The input tensor A must have at least 2 dimensions"),
    (lambda: fb.linalg.lstsq(fb.ones(3), fb.eye(3)), "lstsq: input must have at least 2 dimensions"),
    (lambda: fb.linalg.lu(fb.eye(2), pivot=False), "LU without pivoting is not implemented on the CPU"),
    (lambda: fb.linalg.lu_factor(fb.zeros(2, 2)), r"U\[1,1\] is zero and using it on lu_solve would result in a division by zero"),
    (lambda: fb.linalg.lu_solve(fb.eye(1), fb.zeros(1, dtype=fb.int32), fb.eye(1)), "Pivots given to .* must all be greater or equal to 1"),
    (lambda: fb.linalg.cond(fb.ones(2, 3), 1), "A must be batches of square matrices, but they are 2 by 3 matrices"),
    (lambda: fb.linalg.norm(fb.ones(3), "fro"), "The input tensor A must have at least 2 dimensions"),
    (lambda: fb.linalg.vector_norm(fb.ones(3), 1j), "Expected a non-complex scalar as the order of norm"),
    (lambda: fb.linalg.tensorinv(fb.ones(2, 3, 5)), r"Expected self to satisfy the requirement .*but got 5 != 6"),
    (lambda: fb.ormqr(fb.ones(4, 3), fb.ones(3), fb.ones(5, 2)), r"other.shape\[-2\] must be equal to input.shape\[-2\]"),
    (lambda: fb.histc(fb.ones(2), 4, 5, 1), "max must be larger than min"),
    (lambda: fb.addr(fb.eye(2), fb.ones(2), fb.ones(2), beta=True), "Boolean beta only supported for Boolean results"),
    (lambda: fb.addr(fb.eye(2), fb.ones(2), fb.ones(2), alpha=True), "Boolean alpha only supported for Boolean results"),
    (lambda: fb.linalg.cond(fb.eye(2), "no"), "linalg.cond got an invalid norm type: no"),
    (lambda: fb.linalg.matrix_norm(fb.eye(2), dim=(0,)), "linalg.matrix_norm: dim must be a 2-tuple"),
    (lambda: fb.linalg.householder_product(fb.ones(3, 2), fb.ones(3)), r"must be greater than or equal to tau.shape\[-1\]"),
    (lambda: fb.linalg.lstsq(fb.eye(3), fb.tensor(1.0)), "other must have at least 1 dimension"),
    (lambda: fb.histc(fb.ones(2), -1), "bins must be > 0"),
    (lambda: fb.bincount(fb.tensor([1]), minlength=-1), "minlength should be >= 0"),
    (lambda: fb.aminmax(fb.tensor(1j)), "not implemented for 'ComplexFloat'"),
    (lambda: fb.zeros(2).H, r"tensor.H is only supported on matrices \(2-D tensors\). Got 1-D tensor"),
    (lambda: fb.zeros(2).mT, "tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor"),
    (lambda: fb.kaiser_window(3, layout=fb.sparse_coo), "not implemented for sparse types"),
    (lambda: fb.zeros(4, 3, dtype=fb.bool).t().view(fb.uint16), r"self.stride\(-1\) must be 1 to view Bool as UInt16"),
    (lambda: fb.zeros(3, dtype=fb.bool).view(fb.uint16), r"self.size\(-1\) must be divisible by 2 to view Bool as UInt16.*got 3"),
    (lambda: fb.zeros(3, dtype=fb.bool)[1:].view(fb.uint16), r"self.storage_offset\(\) must be divisible by 2"),
    (lambda: fb.broadcast_to(fb.zeros(2), (1, 1)), r"The expanded size of the tensor \(1\) must match the existing size \(2\) at non-sing"),
    (lambda: fb.broadcast_shapes((2, -12)), "Attempting to broadcast a dimension with negative length!"),
    (lambda: fb.polar(fb.zeros(2, dtype=fb.bool), fb.zeros(2)), "Expected both inputs to be Half, Float or Double tensors but got Bool"),
    (lambda: fb.polar(fb.zeros(2), fb.zeros(2).double()), "Expected object of scalar type Float but got scalar type Double for second"),
    (lambda: fb.diff(fb.tensor(1)), "diff expects input to be at least one-dimensional"),
    (lambda: fb.diff(fb.zeros(2, 3), prepend=fb.zeros(3)), "diff expects prepend or append to be the same dimension as input"),
    (lambda: fb.diff(fb.zeros(2, 3), append=fb.zeros(3, 3)), "diff expects the shape of tensor to prepend or append to match"),
    (lambda: fb.heaviside(fb.zeros(2), fb.zeros(2).long()), "heaviside is not yet implemented for tensors with different dtypes"),
    (lambda: fb.heaviside(fb.zeros(2) * 1j, fb.zeros(2) * 1j), "heaviside is not yet implemented for complex tensors"),
    (lambda: fb.zeros(1).expand(3).add_(1), "unsupported operation: more than one element of the written-to tensor refers to a single mem"),
    (lambda: fb.zeros(1).expand(3).random_(), "unsupported operation: more than one element of the written-to tensor refers to a single"),
    (lambda: fb.empty(2, 4, 2**29, 2**29), "Storage size calculation overflowed"),
    (lambda: fb.zeros(3).as_strided((1,), ()), "mismatch in length of strides and shape"),
    (lambda: fb.zeros(3).new_empty_strided((1,), ()), r"dimensionality of sizes \(1\) must match dimensionality of strides \(0\)"),
    (lambda: fb.view_as_complex(fb.zeros(3)), "Tensor must have a last dimension of size 2"),
    (lambda: fb.zeros(3).unfold(0, 1, -1), "step is -1 but must be > 0"),
    (lambda: (fb.zeros(3) * 1j).sort(), "Sort does not support complex dtypes on CPU"),
    (lambda: fb.is_nonzero(fb.zeros(0)), "Boolean value of Tensor with no values is ambiguous"),
    (lambda: fb.zeros(2).is_nonzero(), "Boolean value of Tensor with more than one value is ambiguous"),
    (lambda: "a" in fb.zeros(2), "Tensor.__contains__ only supports Tensor or scalar, but you passed in a <class 'str'>"),
    (lambda: fb.Size([1]) + [2], r"can only concatenate tuple \(not list\) to flambeau.Size"),
    (lambda: fb.unravel_index(fb.tensor(3), fb.tensor([2, 2])), "expected 'shape' to be int or sequence of ints"),
    (lambda: fb.unravel_index(fb.tensor(3), (2, 2.0)), "expected 'shape' sequence to only contain ints"),
    (lambda: fb.unravel_index(fb.tensor(3), (2, -3)), r"'shape' cannot have negative values, but got \(2, -3\)"),
    (lambda: fb.block_diag(fb.zeros(2, 2, 2)), "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input 0 has 3 dimensions"),
    (lambda: fb.zeros(()).view(fb.int16), r"self.dim\(\) cannot be 0 to view Float as Short \(different element sizes\)"),
    (lambda: fb.view_as_complex(fb.zeros(2, 2).t()), "Tensor must have a last dimension with stride 1"),
    (lambda: fb.zeros(2).adjoint(), r"tensor.adjoint\(\) is only supported on matrices or batches of matrices. Got 1-D tensor"),
    (lambda: fb.broadcast_shapes((3, 5), (2, 4, 1)), "expected shape should be broadcastable to"),
    (lambda: fb.tensor_split(fb.zeros(3), fb.tensor(1.1)), "expected tensor_indices_or_sections to have dtype of long, but got Float"),
    (lambda: fb.tensor_split(fb.zeros(3), fb.zeros(1, 1).long()), "zero-dimensional or one-dimensional tensor, but got a tensor with 2"),
    (lambda: fb.zeros(2).long().new_full((2,), 1, requires_grad=True), "Only Tensors of floating point and complex dtype can require grad"),
    (lambda: fb.empty_strided((8,), (2**61,)), "Storage size calculation overflowed"),
    (lambda: fb.polar(fb.zeros(2).long(), fb.zeros(2)), "Expected both inputs to be Half, Float or Double tensors but got Long and Float"),
    (lambda: fb.zeros(3).chunk(0), "chunk expects `chunks` to be greater than 0, got: 0"),
    (lambda: fb.tensor_split(fb.tensor(1), 2), "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"),
    (lambda: fb.zeros(2, 2, 2).t(), "expects a tensor with <= 2 dimensions, but self is 3D"),
    (lambda: fb.meshgrid(fb.zeros(2, 2), indexing="ij"), "Expected 0D or 1D tensor in the tensor list but got"),
    (lambda: fb.meshgrid(fb.zeros(2), indexing="no"), 'indexing must be one of "xy" or "ij", but received: no'),
    (lambda: fb.linspace(0, 1j, 3, dtype=fb.float32), r"torch.linspace\(\): inferred dtype complex64 can't be safely cast"),
    (lambda: fb.logspace(0, 1j, 3, dtype=fb.float32), r"torch.logspace\(\): inferred dtype complex64 can't be safely cast"),
    (lambda: fb.tensor([1]).fmod_(1.5), "result type Float can't be cast to the desired output type Long"),
    (lambda: fb.isposinf(fb.zeros(1), out=fb.zeros(1)), "does not support non-boolean outputs"),
    (lambda: (fb.zeros(1) * 1j).abs_(), "In-place abs is not supported for complex tensors."),
    (lambda: fb.zeros(2).as_subclass(int), "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible"),
]


@pytest.mark.parametrize(("call", "words"), WORDS, ids=range(len(WORDS)))
def test_messages_begin_with_known_words(call, words):
    with pytest.raises((RuntimeError, TypeError), match=words):
        call()


def test_programs_for_pytorch_read_its_name():
    with fb.compat.torch() as torch, pytest.raises(RuntimeError, match="torch.hsplit attempted"):
        torch.ones(3).hsplit(2)
