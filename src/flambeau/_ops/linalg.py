"""Linear algebra based on the decompositions of the core: ranks, pseudo-inverses, matrix functions."""

import math

import flambeau as fb
from flambeau._ops.gradients_decompose import pinv_gradient
from flambeau._registry.composite import composite
from flambeau.autograd.function import Function
from flambeau.errors import ArgumentError


def check_floating(name, a):
    if not (a.is_floating_point() or a.is_complex()):
        raise ArgumentError(f"{name}: Expected a floating point or complex tensor as input. Got {a.dtype}")


def check_matrix(name, a):
    if a.dim() < 2:
        raise ArgumentError(f"{name}: The input tensor A must have at least 2 dimensions, got shape {tuple(a.shape)}")


def check_square(name, a):
    check_matrix(name, a)
    if a.shape[-1] != a.shape[-2]:
        raise ArgumentError(f"{name}: A must be batches of square matrices, but they are {a.shape[-2]} by {a.shape[-1]} matrices")


def _adjoint(a):
    a = a.transpose(-2, -1)
    return a.conj() if a.is_complex() else a


def _cutoff(name, values, a, atol, rtol):
    """The threshold up to which singular values count as zero."""
    eps = fb.finfo(values.dtype).eps
    if rtol is None:
        rtol = eps * max(a.shape[-2:]) if atol is None else 0.0
    atol = 0.0 if atol is None else atol
    for key, tol in (("atol", atol), ("rtol", rtol)):
        if isinstance(tol, fb.Tensor) and tol.is_complex():
            raise ArgumentError(f"{name}: {key} must be real, got {tol.dtype}")
    if values.shape[-1] == 0:
        return values.new_zeros(values.shape[:-1])
    largest = values.amax(-1)
    relative = rtol * largest
    if not isinstance(atol, fb.Tensor):
        atol = fb.tensor(float(atol), dtype=values.dtype, device=values.device)
    return fb.maximum(relative, atol.to(relative.dtype))


def _rank(a, atol, rtol, hermitian):
    name = "linalg.matrix_rank"
    check_square(name, a) if hermitian else check_matrix(name, a)
    s = fb.linalg.eigvalsh(a).abs() if hermitian else fb.linalg.svdvals(a)
    if s.shape[-1] == 0:
        return fb.zeros(a.shape[:-2], dtype=fb.int64, device=a.device)
    return (s > _cutoff(name, s, a, atol, rtol).unsqueeze(-1)).sum(-1)


@composite("linalg.matrix_rank(Tensor A, *, any atol=None, any rtol=None, bool hermitian=False) -> Tensor", out=True)
def matrix_rank(A, *, atol, rtol, hermitian):
    """Number of singular values that are not (nearly) zero.

    Args:
        A: shape (..., m, n).
        atol: singular values up to this are zero; a number or a tensor.
        rtol: so are those up to this times the largest; if neither is given, machine precision times max(m, n).
        hermitian: whether A is symmetric or Hermitian, which is faster.

    Example:
        >>> fb.linalg.matrix_rank(fb.tensor([[1., 2.], [2., 4.]]))
        tensor(1)
    """
    return _rank(A, atol, rtol, hermitian)


@composite("linalg.matrix_rank(Tensor A, any tol, bool hermitian=False) -> Tensor", out=True)
def matrix_rank_tol(A, tol, hermitian):
    return _rank(A, tol, 0.0, hermitian)


class _PseudoInverse(Function):
    """Has its own gradient: that through the singular vectors is undefined if singular values are equal or zero."""

    generate_vmap_rule = True

    @staticmethod
    def forward(name, a, atol, rtol, hermitian):
        return _pinv_of(name, a, atol, rtol, hermitian)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[1], output)

    @staticmethod
    def backward(ctx, g):
        return None, pinv_gradient(*ctx.saved_tensors, g), None, None, None


def _pinv(name, a, atol, rtol, hermitian):
    check_square(name, a) if hermitian else check_matrix(name, a)
    check_floating(name, a)
    compute = _PseudoInverse.apply if a.requires_grad and fb.is_grad_enabled() else _pinv_of
    return compute(name, a, atol, rtol, hermitian)


def _pinv_of(name, a, atol, rtol, hermitian):
    if a.numel() == 0:
        return a.new_zeros(*a.shape[:-2], a.shape[-1], a.shape[-2])
    if hermitian:
        values, vectors = fb.linalg.eigh(a)
        size = values.abs()
        keep = size > _cutoff(name, size, a, atol, rtol).unsqueeze(-1)
        inverse = fb.where(keep, fb.ones_like(values) / values, fb.zeros_like(values)).to(a.dtype)
        return (vectors * inverse.unsqueeze(-2)) @ _adjoint(vectors)
    u, s, vh = fb.linalg.svd(a, full_matrices=False)
    keep = s > _cutoff(name, s, a, atol, rtol).unsqueeze(-1)
    inverse = fb.where(keep, fb.ones_like(s) / s, fb.zeros_like(s)).to(a.dtype)
    return (_adjoint(vh) * inverse.unsqueeze(-2)) @ _adjoint(u)


@composite("linalg.pinv(Tensor A, *, any atol=None, any rtol=None, bool hermitian=False) -> Tensor", out=True)
def pinv(A, *, atol, rtol, hermitian):
    """Pseudo-inverse of matrices (Moore-Penrose).

    Args:
        A: shape (..., m, n).
        atol: singular values up to this are zero; a number or a tensor.
        rtol: so are those up to this times the largest; if neither is given, machine precision times max(m, n).
        hermitian: whether A is symmetric or Hermitian, which is faster.

    Example:
        >>> fb.linalg.pinv(fb.tensor([[2., 0.], [0., 0.]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.0000]])
    """
    return _pinv("linalg.pinv", A, atol, rtol, hermitian)


@composite("linalg.pinv(Tensor A, any rcond, bool hermitian=False) -> Tensor", out=True)
def pinv_rcond(A, rcond, hermitian):
    return _pinv("linalg.pinv", A, 0.0, rcond, hermitian)


@composite("pinverse(Tensor input, float rcond=1e-15) -> Tensor", method=True)
def pinverse(input, rcond):
    """Pseudo-inverse of matrices; :func:`flambeau.linalg.pinv` is newer.

    Args:
        input: shape (..., m, n).
        rcond: singular values up to this times the largest are treated as zero.

    Example:
        >>> fb.pinverse(fb.tensor([[2.]]))
        tensor([[0.5000]])
    """
    return _pinv("pinverse", input, 0.0, rcond, False)


@composite("logdet(Tensor input) -> Tensor", method=True)
def logdet(input):
    """Logarithm of the determinant: nan for a negative one, -inf for zero.

    Args:
        input: shape (..., n, n).

    Example:
        >>> fb.logdet(fb.tensor([[1., 0.], [0., 1.]]))
        tensor(0.)
    """
    sign, log = fb.linalg.slogdet(input)
    if input.is_complex():
        return log + sign.log()
    return fb.where(sign < 0, fb.full_like(log, math.nan), log)


# The diagonal Padé approximant of degree 13: coefficient k of the numerator.
_PADE = [math.comb(13, k) * math.factorial(26 - k) / math.factorial(26) for k in range(14)]


def _matrix_exp(name, a):
    check_square(name, a)
    check_floating(name, a)
    if a.numel() == 0:
        return a.clone()
    wide = fb.complex128 if a.is_complex() else fb.float64
    if a.dtype != wide:
        # Squaring magnifies rounding errors; the wider dtype keeps the result accurate to the narrow one.
        return _matrix_exp(name, a.to(wide)).to(a.dtype)
    values = a.detach()
    while hasattr(values, "physical"):  # inside vmap all examples are squared as often
        values = values.physical.detach()
    size = 0.0 if a.is_meta else float(fb.linalg.matrix_norm(values, 1).amax())
    if not math.isfinite(size):
        return a * math.nan
    squarings = max(0, math.ceil(math.log2(size / 5.4))) if size > 0 else 0
    a = a / 2.0**squarings
    b = _PADE
    eye = fb.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    odd = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * eye)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * eye
    result = fb.linalg.solve(even - odd, even + odd)
    for _ in range(squarings):
        result = result @ result
    return result


@composite("linalg.matrix_exp(Tensor A) -> Tensor")
def linalg_matrix_exp(A):
    """Exponential of square matrices.

    Args:
        A: shape (..., n, n).

    Example:
        >>> fb.linalg.matrix_exp(fb.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    return _matrix_exp("linalg.matrix_exp", A)


@composite("matrix_exp(Tensor input) -> Tensor", method=True)
def matrix_exp(input):
    """Exponential of square matrices; the same as :func:`flambeau.linalg.matrix_exp`.

    Args:
        input: shape (..., n, n).

    Example:
        >>> fb.matrix_exp(fb.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    return _matrix_exp("matrix_exp", input)


@composite("linalg.tensorinv(Tensor A, int ind=2) -> Tensor", out=True)
def tensorinv(A, ind):
    """Inverse of a tensor as a map from its last to its first dimensions.

    Args:
        A: the product of the first ``ind`` sizes must equal that of the others.
        ind: number of leading dimensions.

    Example:
        >>> fb.linalg.tensorinv(fb.eye(4).reshape(2, 2, 4), 2).shape
        flambeau.Size([4, 2, 2])
    """
    if ind <= 0:
        raise ArgumentError(f"linalg.tensorinv: Expected a strictly positive integer for 'ind', but got {ind}")
    first, last = A.shape[:ind], A.shape[ind:]
    n = math.prod(first)
    if n != math.prod(last):
        raise ArgumentError(
            "linalg.tensorinv: Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), "
            f"but got {math.prod(last)} != {n} for shape {tuple(A.shape)} and ind {ind}"
        )
    return fb.linalg.inv(A.reshape(n, n)).reshape(*last, *first)


@composite("linalg.tensorsolve(Tensor A, Tensor B, int[]? dims=None) -> Tensor", out=True)
def tensorsolve(A, B, dims):
    """Solution X of tensordot(A, X, X.dim()) = B.

    Args:
        A: a tensor whose first dimensions are those of B.
        B: the right side.
        dims: dimensions of A that are moved to the end first.

    Example:
        >>> fb.linalg.tensorsolve(2 * fb.eye(4).reshape(2, 2, 4), fb.ones(2, 2))
        tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.dim() - len(dims), A.dim())))
    shape = A.shape[B.dim() :]
    n = math.prod(shape)
    if n != B.numel() or A.numel() != n * n:
        raise ArgumentError(
            "linalg.tensorsolve: Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]): as many unknowns as equations, got shapes {tuple(A.shape)} and {tuple(B.shape)}"
        )
    return fb.linalg.solve(A.reshape(n, n), B.reshape(n)).reshape(shape)


@composite("linalg.vander(Tensor x, *, int? N=None) -> Tensor")
def linalg_vander(x, *, N):
    """Vandermonde matrix: powers 0 to N - 1 of the elements, in columns.

    Args:
        x: vectors, of shape (..., n); a number counts as a vector of length 1. Integers give int64.
        N: number of powers, at least 2; n if not given.

    Example:
        >>> fb.linalg.vander(fb.tensor([2, 3]), N=3)
        tensor([[1, 2, 4],
                [1, 3, 9]])
    """
    if x.dtype == fb.bool:
        raise ArgumentError("linalg.vander: expected a floating, complex or integer dtype, got bool; convert it")
    x = fb.atleast_1d(x)
    n = x.shape[-1] if N is None else N
    if n <= 1:
        raise ArgumentError(f"linalg.vander: N must be greater than 1, got {n}")
    x = x.unsqueeze(-1)
    return fb.cat([fb.ones_like(x), x.expand(*x.shape[:-1], n - 1).cumprod(-1)], -1)


@composite("lu(Tensor A, bool pivot=True, bool get_infos=False, any out=None) -> any", method=True)
def lu(A, pivot, get_infos, out):
    """Packed LU decomposition; :func:`flambeau.linalg.lu_factor` is newer.

    Args:
        A: shape (..., m, n).
        pivot: must be True.
        get_infos: whether LAPACK's codes are returned as a third tensor.
        out: tensors for the results.

    Example:
        >>> fb.lu(fb.tensor([[1., 2.], [2., 2.]]))[1]
        tensor([2, 2], dtype=flambeau.int32)
    """
    result = fb.linalg.lu_factor_ex(A, pivot=pivot, check_errors=not get_infos)
    result = result if get_infos else (result.LU, result.pivots)
    if out is None:
        return result
    if not isinstance(out, (tuple, list)) or not all(isinstance(t, fb.Tensor) for t in out) or len(out) != len(result):
        given = f"{len(out)} objects" if isinstance(out, (tuple, list)) else type(out).__name__
        raise ArgumentError(f"lu: expected a tuple of {len(result)} tensors as out, got {given}")
    for target, value in zip(out, result, strict=True):
        target.resize_(value.shape).copy_(value)
    return tuple(out)


@composite("svd_lowrank(Tensor A, int? q=6, int? niter=2, Tensor? M=None) -> (Tensor U, Tensor S, Tensor V)")
def svd_lowrank(A, q, niter, M):
    """The largest singular values and their vectors, by random projection.

    Args:
        A: shape (..., m, n).
        q: how many values to look for, a little more than the rank of interest.
        niter: rounds of refinement.
        M: a tensor subtracted from A; it broadcasts.

    Example:
        >>> fb.svd_lowrank(fb.tensor([[3., 0.], [0., 4.]]), q=2).S.round()
        tensor([4., 3.])
    """
    q = 6 if q is None else q
    niter = 2 if niter is None else niter
    if not 0 <= q <= min(A.shape[-2:]):
        raise ArgumentError(f"svd_lowrank: q={q} must be from 0 to min(m, n) = {min(A.shape[-2:])}")
    if niter < 0:
        raise ArgumentError(f"svd_lowrank: niter must not be negative, got {niter}")
    if M is not None:
        A = A - M
    if A.shape[-2] < A.shape[-1]:
        u, s, v = fb.svd_lowrank(_adjoint(A), q, niter)
        return v, s, u
    ah = _adjoint(A)
    basis = fb.linalg.qr(A @ fb.randn(A.shape[-1], q, dtype=A.dtype, device=A.device)).Q
    for _ in range(niter):
        basis = fb.linalg.qr(A @ fb.linalg.qr(ah @ basis).Q).Q
    u, s, vh = fb.linalg.svd(_adjoint(basis) @ A, full_matrices=False)
    return basis @ u, s, _adjoint(vh)


@composite("pca_lowrank(Tensor A, int? q=None, bool center=True, int niter=2) -> (Tensor U, Tensor S, Tensor V)")
def pca_lowrank(A, q, center, niter):
    """Principal components of the rows of matrices, by random projection.

    Args:
        A: shape (..., m, n).
        q: number of components; min(6, m, n) if not given.
        center: whether the mean row is subtracted first.
        niter: rounds of refinement.

    Example:
        >>> fb.pca_lowrank(fb.tensor([[1., 0.], [-1., 0.]]), q=1).S
        tensor([1.4142])
    """
    q = min(6, *A.shape[-2:]) if q is None else q
    if not 0 <= q <= min(A.shape[-2:]):
        raise ArgumentError(f"pca_lowrank: q={q} must be from 0 to min(m, n) = {min(A.shape[-2:])}")
    return fb.svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)
