"""Products based on other products: chains, tensor contractions, Kronecker and cross products, powers."""

import functools
import math
import operator

import flambeau as fb
from flambeau import _C
from flambeau._registry.composite import composite


def _chain_order(shapes):
    """Where to split a chain of matrices (each (rows, columns)) to minimise the number of multiplications."""
    n = len(shapes)
    sizes = [rows for rows, _ in shapes] + [shapes[-1][1]]
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j], split[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    return split


def _multiply_chain(matrices):
    split = _chain_order([m.shape for m in matrices])

    def product(i, j):
        if i == j:
            return matrices[i]
        k = split[i][j]
        return product(i, k) @ product(k + 1, j)

    return product(0, len(matrices) - 1)


@composite("linalg.multi_dot(Tensor[] tensors) -> Tensor", out=True)
def multi_dot(tensors):
    """Product of a chain of matrices, in the order that needs the fewest multiplications.

    Args:
        tensors: at least two matrices; the first and the last may be vectors.

    Example:
        >>> fb.linalg.multi_dot([fb.tensor([1., 2.]), fb.eye(2), fb.tensor([3., 4.])])
        tensor(11.)
    """
    given, tensors = tensors, list(tensors)
    if len(tensors) < 2:
        raise fb.errors.ArgumentError(f"multi_dot: expected at least 2 tensors, got {len(tensors)}")
    row, column = tensors[0].dim() == 1, tensors[-1].dim() == 1
    if row:
        tensors[0] = tensors[0].unsqueeze(0)
    if column:
        tensors[-1] = tensors[-1].unsqueeze(-1)
    for i, t in enumerate(tensors):
        end = i in (0, len(tensors) - 1)
        if t.dim() != 2:
            which = f"tensor {i}" if not end else "the last tensor" if i else "the first tensor"
            raise fb.errors.ArgumentError(
                f"multi_dot(): {which} must be {'1D or 2D' if end else '2D'} but got {given[i].ndim}D, shape {tuple(given[i].shape)}"
            )
        if t.dtype != tensors[0].dtype:
            raise fb.errors.ArgumentError(
                f"multi_dot(): all tensors must have be the same dtype, got {tensors[0].dtype} and {t.dtype}"
            )
        if i and tensors[i - 1].shape[1] != t.shape[0]:
            raise fb.errors.ArgumentError(
                f"multi_dot: tensors {i - 1} and {i} with shapes {tuple(tensors[i - 1].shape)} and {tuple(t.shape)} "
                "cannot be multiplied"
            )
    result = _multiply_chain(tensors)
    if row:
        result = result.squeeze(0)
    return result.squeeze(-1) if column else result


@composite("chain_matmul(*Tensor[] matrices) -> Tensor", out=True)
def chain_matmul(matrices):
    """Product of a chain of matrices, in the order that needs the fewest multiplications.

    Args:
        matrices: the matrices, one argument each.

    Example:
        >>> fb.chain_matmul(fb.ones(1, 2), fb.ones(2, 2), fb.ones(2, 1))
        tensor([[4.]])
    """
    for t in matrices:
        if t.dim() != 2:
            raise fb.errors.ArgumentError(f"chain_matmul: expected matrices, got shape {tuple(t.shape)}")
    if len(matrices) == 1:
        return matrices[0].clone()
    return fb.linalg.multi_dot(list(matrices))


@composite("linalg.vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", out=True)
def vecdot(x, y, *, dim):
    """Dot products of vectors along a dimension; the first ones are conjugated when complex.

    Args:
        x: the first vectors.
        y: the second vectors; shapes broadcast.
        dim: the dimension of the vectors.

    Example:
        >>> fb.linalg.vecdot(fb.tensor([[1., 2.], [3., 4.]]), fb.tensor([1., 10.]))
        tensor([21., 43.])
    """
    if not (x.is_floating_point() or x.is_complex()):
        raise fb.errors.DTypeError(f"vecdot: needs floating point or complex tensors, got {x.dtype}")
    if x.dtype != y.dtype:
        raise fb.errors.ArgumentError(f"vecdot: both tensors must have the same dtype, got {x.dtype} and {y.dtype}")
    x = x.conj() if x.is_complex() else x
    if x.dim() == 1 and y.dim() == 1 and x.shape == y.shape and dim in (-1, 0):
        return fb.dot(x, y)
    x, y = fb.broadcast_tensors(x, y)
    x, y = x.movedim(dim, -1), y.movedim(dim, -1)
    return (x.unsqueeze(-2) @ y.unsqueeze(-1)).squeeze(-1).squeeze(-1)


@composite("tensordot(Tensor a, Tensor b, any dims=2) -> Tensor", out=True)
def tensordot(a, b, dims):
    """Sums products over pairs of dimensions of two tensors.

    Args:
        a: the left tensor.
        b: the right tensor.
        dims: a number n (the last n dimensions of ``a`` with the first n of ``b``) or two lists of dimensions.

    Example:
        >>> fb.tensordot(fb.ones(2, 3, 4), fb.ones(3, 4, 5), dims=2).shape
        flambeau.Size([2, 5])
    """
    left, right = _contracted(a, b, 2 if dims is None else dims)
    if a.dtype != b.dtype:
        raise fb.errors.ArgumentError(f"tensordot: both tensors must have the same dtype, got {a.dtype} and {b.dtype}")
    for i, j in zip(left, right, strict=True):
        # A size of one broadcasts: the other operand is summed first.
        if a.shape[i] != b.shape[j]:
            if b.shape[j] == 1:
                a = a.sum(i, keepdim=True, dtype=a.dtype)
            elif a.shape[i] == 1:
                b = b.sum(j, keepdim=True, dtype=b.dtype)
            else:
                raise fb.errors.ArgumentError(
                    f"tensordot: dimension {i} of shape {tuple(a.shape)} and dimension {j} of shape {tuple(b.shape)} "
                    f"must have the same size"
                )
    free_a = [d for d in range(a.dim()) if d not in left]
    free_b = [d for d in range(b.dim()) if d not in right]
    rows = math.prod(a.shape[d] for d in free_a)
    inner = math.prod(a.shape[d] for d in left)
    columns = math.prod(b.shape[d] for d in free_b)
    x = a.permute(free_a + left).reshape(rows, inner)
    y = b.permute(right + free_b).reshape(inner, columns)
    return (x @ y).reshape([a.shape[d] for d in free_a] + [b.shape[d] for d in free_b])


def _contracted(a, b, dims):
    if isinstance(dims, fb.Tensor):
        dims = dims.tolist()
    if isinstance(dims, (list, tuple)):
        if len(dims) != 2:
            raise fb.errors.ArgumentError(f"tensordot: dims must be an int or a pair of lists, got {dims}")
        left, right = ([d] if isinstance(d, int) else [operator.index(i) for i in d] for d in dims)
    else:
        n = operator.index(dims)
        if n < 0:
            raise fb.errors.ArgumentError(f"tensordot expects dims >= 0, but got dims={n}")
        if n > min(a.dim(), b.dim()):
            raise fb.errors.ArgumentError(
                f"tensordot: dims={n} is more than the tensors have ({a.dim()} and {b.dim()})"
            )
        left, right = list(range(a.dim() - n, a.dim())), list(range(n))
    if len(left) != len(right):
        raise fb.errors.ArgumentError(
            f"tensordot: both lists of dims must have the same length, got {left} and {right}"
        )
    return _wrapped(left, a.dim()), _wrapped(right, b.dim())


def _wrapped(dims, ndim):
    result = []
    for d in dims:
        if not -ndim <= d < ndim:
            raise fb.errors.OutOfRangeError(
                f"tensordot: dimension {d} is out of range for a {ndim}-d tensor; expected {-ndim}..{ndim - 1}"
            )
        result.append(d % ndim)
    if len(set(result)) != len(result):
        raise fb.errors.ArgumentError(f"tensordot: dims {dims} name a dimension twice")
    return result


@composite("kron(Tensor input, Tensor other) -> Tensor", method=True, out=True)
def kron(input, other):
    """Kronecker product: every element of one tensor times the whole of the other.

    Args:
        input: the outer tensor.
        other: the tensor that is repeated, scaled.

    Example:
        >>> fb.kron(fb.tensor([1, 10]), fb.tensor([1, 2]))
        tensor([ 1,  2, 10, 20])
    """
    n = max(input.dim(), other.dim())
    left, right, sizes = [], [], []
    for i in range(n):
        p = input.shape[i - n + input.dim()] if i >= n - input.dim() else 1
        q = other.shape[i - n + other.dim()] if i >= n - other.dim() else 1
        left += [p, 1]
        right += [1, q]
        sizes.append(p * q)
    return (input.reshape(left) * other.reshape(right)).reshape(sizes)


def _cross(name, input, other, dim):
    if input.dim() != other.dim():
        raise fb.errors.ArgumentError(
            f"{name}: inputs must have the same number of dimensions, got shapes {tuple(input.shape)} and {tuple(other.shape)}"
        )
    if input.dim() == 0 or not -input.dim() <= dim < input.dim():
        raise fb.errors.OutOfRangeError(
            f"{name}: Dimension out of range (expected to be in range of [{-input.dim()}, {input.dim() - 1}], but got {dim})"
        )
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise fb.errors.ArgumentError(
            f"{name}: inputs dimension {dim} must have length 3, got shapes {tuple(input.shape)} and {tuple(other.shape)}"
        )
    if input.dtype != other.dtype:
        common = fb.result_type(input, other)
        input, other = input.to(common), other.to(common)
    a = [input.select(dim, i) for i in range(3)]
    b = [other.select(dim, i) for i in range(3)]
    parts = [a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3] for i in range(3)]
    return fb.stack(parts, dim % input.dim())


@composite("linalg.cross(Tensor input, Tensor other, *, int dim=-1) -> Tensor", out=True)
def linalg_cross(input, other, *, dim):
    """Cross product of vectors of size 3 along a dimension.

    Args:
        input: the first vectors.
        other: the second vectors; the other dimensions broadcast.
        dim: the dimension of size 3.

    Example:
        >>> fb.linalg.cross(fb.tensor([1., 0., 0.]), fb.tensor([0., 1., 0.]))
        tensor([0., 0., 1.])
    """
    return _cross("linalg.cross", input, other, dim)


@composite("cross(Tensor input, Tensor other, int? dim=None) -> Tensor", method=True, out=True)
def cross(input, other, dim):
    """Cross product of vectors of size 3 along a dimension.

    Args:
        input: the first vectors.
        other: the second vectors; the other dimensions broadcast.
        dim: the dimension of size 3; if not given, the first one of that size.

    Example:
        >>> fb.cross(fb.tensor([1., 0., 0.]), fb.tensor([0., 1., 0.]))
        tensor([0., 0., 1.])
    """
    if dim is None:
        dim = next((d for d, size in enumerate(input.shape) if size == 3), None)
        if dim is None:
            raise fb.errors.ArgumentError(f"cross: no dimension of size 3 in shape {tuple(input.shape)}")
    return _cross("cross", input, other, dim)


def _power(name, input, n):
    if input.dim() < 2 or input.shape[-1] != input.shape[-2]:
        sizes = " by ".join(map(str, input.shape[-2:]))
        raise fb.errors.ArgumentError(f"{name}: input must be batches of square matrices, but they are {sizes} matrices")
    if n < 0:
        input, n = fb.linalg.inv(input), -n
    if n == 0:
        eye = fb.eye(input.shape[-1], dtype=input.dtype, device=input.device)
        return input.clone().copy_(eye)  # constant, but with a gradient of zeros for the input
    result = None
    while True:
        if n & 1:
            result = input if result is None else result @ input
        n >>= 1
        if n == 0:
            return result.clone() if result is input else result
        input = input @ input


@composite("matrix_power(Tensor input, int n) -> Tensor", method=True, out=True)
def matrix_power(input, n):
    """The n-th power of a square matrix.

    Args:
        input: square matrices, of shape (..., m, m).
        n: the exponent; a negative one uses the inverse.

    Example:
        >>> fb.matrix_power(fb.tensor([[1, 1], [0, 1]]), 5)
        tensor([[1, 5],
                [0, 1]])
    """
    return _power("matrix_power", input, n)


@composite("linalg.matrix_power(Tensor A, int n) -> Tensor", out=True)
def linalg_matrix_power(A, n):
    """The n-th power of a square matrix.

    Args:
        A: square matrices, of shape (..., m, m).
        n: the exponent; a negative one uses the inverse.

    Example:
        >>> fb.linalg.matrix_power(fb.tensor([[1., 1.], [0., 1.]]), -1)
        tensor([[ 1., -1.],
                [ 0.,  1.]])
    """
    return _power("linalg.matrix_power", A, n)


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_einsum = _C.namespaces[""]["einsum"]


def _subscripts(labels):
    text = ""
    for label in labels:
        if label is Ellipsis:
            text += "..."
        elif isinstance(label, int) and 0 <= label < len(_LETTERS):
            text += _LETTERS[label]
        else:
            raise fb.errors.ArgumentError(f"einsum: a sublist holds ints from 0 to 51 and Ellipsis, got {label!r}")
    return text


@functools.wraps(_einsum)
def einsum(*args):
    if args and isinstance(args[0], str):
        try:
            return _einsum(*args)
        except fb.errors.ArgumentError:
            promoted = _promoted(*args)
            if promoted is None:
                raise
        return _einsum(args[0], *promoted)
    if len(args) < 2:
        raise TypeError("einsum: expected an equation and operands, or operands each followed by a sublist of labels")
    pairs = len(args) // 2
    equation = ",".join(_subscripts(labels) for labels in args[1 : 2 * pairs : 2])
    if len(args) % 2:
        equation += "->" + _subscripts(args[-1])
    return einsum(equation, *args[0 : 2 * pairs : 2])


def _promoted(equation, *operands):
    """Converts operands to one dtype, if they are only multiplied; None if products are summed or dtypes agree."""
    tensors = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    if len({t.dtype for t in tensors}) < 2:
        return None
    terms, _, result = equation.replace(" ", "").partition("->")
    letters = "".join("".join(set(term)) for term in terms.split(","))
    if any(letters.count(letter) > 1 and letter not in result for letter in letters if letter.isalpha()):
        return None
    kind = functools.reduce(fb.promote_types, (t.dtype for t in tensors))
    return [t.to(kind) for t in tensors]


_C.namespaces[""]["einsum"] = einsum
