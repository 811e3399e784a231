// Cholesky, triangular systems and symmetric indefinite (LDL) factorisations.
#include "device/linalg.h"
#include "ops/linear/linalg.h"

namespace fb {

namespace {

constexpr const char* not_positive =
    "The factorization could not be completed because the input is not positive-definite (the leading minor of order # "
    "is not positive-definite)";

// Aᴴ as a new tensor, column-major if A is row-major.
Tensor adjoint(const Tensor& a) {
    Tensor t = clone(transpose(a, -1, -2));
    if (is_complex(a.dtype())) device::decomposing(t).conjugate(t);
    return t;
}

// The upper factor is the adjoint of the lower one, computed from the upper triangle viewed as a lower one.
std::vector<Tensor> cholesky_ex(const Tensor& a, bool upper) {
    check_square(a);
    Tensor info = zeros(batch_of(a), DType::I32, a.device());
    if (!upper) return {cholesky_lower(a, info), info};
    return {adjoint(cholesky_lower(adjoint(a), info)), info};
}

void check_pair(const Tensor& a, const Tensor& b, const char* first, const char* second) {
    check_square(a, first);
    check_matrices(b, second);
    check(a.dtype() == b.dtype(), first, " and ", second, " must have the same dtype, got ", a.dtype(), " and ",
          b.dtype());
}

Tensor cholesky_solve(const Tensor& b, const Tensor& l, bool upper) {
    check_pair(l, b, "the factor", "the right side");
    check(l.size(-1) == b.size(-2), "shapes of the right side ", b.shape(), " and the factor ", l.shape(),
          " do not fit");
    Dims own = batch_of(l), batch = broadcast_shapes(own, batch_of(b));
    Columns factor = to_columns(l), x = to_columns(b, batch);
    std::vector<int64_t> map = batch_map(batch, own);
    if (x.rows == 0 || x.cols == 0) return x.tensor;
    device::decomposing(x.tensor).cholesky_solve(factor.tensor, upper, map, x.tensor);
    return x.tensor;
}

Tensor cholesky_inverse(const Tensor& l, bool upper) {
    check_square(l, "the factor");
    Columns c = to_columns(l);
    Tensor info = zeros(batch_of(l), DType::I32, l.device());
    device::decomposing(l).cholesky_invert(c.tensor, upper, info);
    check_info(info,
               "The diagonal element # is zero, the inversion could not be completed because the factor is singular");
    return c.tensor;
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left, bool unit, char trans) {
    check_pair(a, b, "A", "B");
    int64_t n = a.size(-1), have = left ? b.size(-2) : b.size(-1);
    check(n == have, "shapes of A ", a.shape(), " and B ", b.shape(), " do not fit: sizes ", n, " and ", have,
          " differ");
    Dims own = batch_of(a), batch = broadcast_shapes(own, batch_of(b));
    Columns factor = to_columns(a), x = to_columns(b, batch);
    std::vector<int64_t> map = batch_map(batch, own);
    if (x.rows == 0 || x.cols == 0) return x.tensor;
    device::decomposing(x.tensor).triangular_solve(factor.tensor, upper, left, unit, trans, map, x.tensor);
    return x.tensor;
}

std::vector<Tensor> ldl_factor(const Tensor& a, bool hermitian) {
    check_square(a);
    Columns c = to_columns(a);
    Tensor pivots = empty(with(batch_of(a), {c.rows}), DType::I32, a.device()),
           info = zeros(batch_of(a), DType::I32, a.device());
    device::decomposing(a).ldl(c.tensor, hermitian, pivots, info);
    return {c.tensor, pivots, info};
}

Tensor ldl_solve(const Tensor& ld, const Tensor& pivots, const Tensor& b, bool hermitian) {
    check_pair(ld, b, "LD", "B");
    check(ld.size(-1) == b.size(-2), "shapes of LD ", ld.shape(), " and B ", b.shape(), " do not fit");
    int64_t n = ld.size(-1);
    Dims own = batch_of(ld), batch = broadcast_shapes(own, batch_of(b));
    check(pivots.dtype() == DType::I32, "pivots must be int32, as ldl_factor returns them, got ", pivots.dtype());
    check(pivots.shape() == with(own, {n}), "pivots must have shape ", with(own, {n}), ", got ", pivots.shape());
    Tensor order = contiguous(pivots);
    Columns factor = to_columns(ld), x = to_columns(b, batch);
    std::vector<int64_t> map = batch_map(batch, own);
    device::decomposing(x.tensor).ldl_solve(factor.tensor, order, hermitian, map, x.tensor);
    return x.tensor;
}

}  // namespace

OP("linalg.cholesky_ex(Tensor A, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
   FUNCTION | OUT,
   R"(Cholesky decomposition, with a code instead of an error.

Args:
    A: symmetric (Hermitian) positive-definite matrices, of shape (..., n, n); one triangle is read.
    upper: whether the upper factor is wanted.
    check_errors: whether a matrix that is not positive-definite is an error after all.

Example:
    >>> fb.linalg.cholesky_ex(fb.tensor([[-1.]])).info
    tensor(1, dtype=flambeau.int32)
)") {
    std::vector<Tensor> result = cholesky_ex(a.tensor(0), a.flag(1));
    if (a.flag(2)) check_info(result[1], not_positive);
    return result;
}

OP("linalg.cholesky(Tensor A, *, bool upper=False) -> Tensor", FUNCTION | OUT, R"(Cholesky decomposition A = L Lᴴ.

Args:
    A: symmetric (Hermitian) positive-definite matrices, of shape (..., n, n); one triangle is read.
    upper: whether the upper factor U with A = Uᴴ U is wanted.

Example:
    >>> fb.linalg.cholesky(fb.tensor([[4., 2.], [2., 10.]]))
    tensor([[2., 0.],
            [1., 3.]])
)") {
    std::vector<Tensor> result = cholesky_ex(a.tensor(0), a.flag(1));
    check_info(result[1], not_positive);
    return result[0];
}
OP("cholesky(Tensor input, bool upper=False) -> Tensor", COMMON,
   R"(Cholesky decomposition; see :func:`flambeau.linalg.cholesky`.

Args:
    input: symmetric (Hermitian) positive-definite matrices, of shape (..., n, n).
    upper: whether the upper factor is wanted.

Example:
    >>> fb.cholesky(fb.tensor([[4., 2.], [2., 10.]]))
    tensor([[2., 0.],
            [1., 3.]])
)") {
    std::vector<Tensor> result = cholesky_ex(a.tensor(0), a.flag(1));
    check_info(result[1], not_positive);
    return result[0];
}

OP("cholesky_solve(Tensor input, Tensor input2, bool upper=False) -> Tensor", COMMON,
   R"(Solution of linear systems from a Cholesky factor.

Args:
    input: right sides, of shape (..., n, k).
    input2: the factor, of shape (..., n, n).
    upper: whether it is the upper one.

Example:
    >>> fb.cholesky_solve(fb.tensor([[8.]]), fb.tensor([[2.]]))
    tensor([[2.]])
)") {
    return cholesky_solve(a.tensor(0), a.tensor(1), a.flag(2));
}

OP("cholesky_inverse(Tensor input, bool upper=False) -> Tensor", COMMON,
   R"(Inverse of a matrix from its Cholesky factor.

Args:
    input: the factor, of shape (..., n, n).
    upper: whether it is the upper one.

Example:
    >>> fb.cholesky_inverse(fb.tensor([[2.]]))
    tensor([[0.2500]])
)") {
    return cholesky_inverse(a.tensor(0), a.flag(1));
}

OP("linalg.solve_triangular(Tensor A, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
   FUNCTION | OUT,
   R"(Solution of triangular systems A X = B.

Args:
    A: triangular matrices, of shape (..., n, n); the other triangle is not read.
    B: right sides, of shape (..., n, k).
    upper: whether the upper triangle is meant.
    left: with False, X A = B is solved.
    unitriangular: whether the diagonal is taken as ones.

Example:
    >>> fb.linalg.solve_triangular(fb.tensor([[2., 0.], [1., 1.]]), fb.tensor([[2.], [3.]]), upper=False)
    tensor([[1.],
            [2.]])
)") {
    return solve_triangular(a.tensor(0), a.tensor(1), a.flag(2), a.flag(3), a.flag(4), 'N');
}

OP("triangular_solve(Tensor input, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> "
   "(Tensor solution, Tensor cloned_coefficient)",
   COMMON, R"(Solution of triangular systems; :func:`flambeau.linalg.solve_triangular` is newer.

Args:
    input: right sides, of shape (..., n, k).
    A: triangular matrices, of shape (..., n, n).
    upper: whether the upper triangle is meant.
    transpose: whether A is transposed.
    unitriangular: whether the diagonal is taken as ones.

Example:
    >>> fb.triangular_solve(fb.tensor([[2.]]), fb.tensor([[4.]])).solution
    tensor([[0.5000]])
)") {
    Tensor x = solve_triangular(a.tensor(1), a.tensor(0), a.flag(2), true, a.flag(4), a.flag(3) ? 'T' : 'N');
    Dims batch = batch_of(x);
    int64_t n = a.tensor(1).size(-1);
    return std::vector<Tensor>{x, clone(expand(a.tensor(1), with(batch, {n, n})))};
}

OP("linalg.ldl_factor_ex(Tensor A, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor pivots, "
   "Tensor info)",
   FUNCTION | OUT,
   R"(LDL factorisation of symmetric matrices in packed form, with a code instead of an error.

Args:
    A: symmetric (or Hermitian) matrices, of shape (..., n, n); the lower triangle is read.
    hermitian: whether complex matrices are Hermitian rather than symmetric.
    check_errors: whether a failure is an error after all.

Example:
    >>> fb.linalg.ldl_factor_ex(fb.tensor([[2.]])).LD
    tensor([[2.]])
)") {
    std::vector<Tensor> result = ldl_factor(a.tensor(0), a.flag(1));
    if (a.flag(2)) check_info(result[2], "The factorization could not be completed: diagonal element # of D is zero");
    return result;
}
OP("linalg.ldl_factor(Tensor A, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)", FUNCTION | OUT,
   R"(LDL factorisation of symmetric matrices in packed form, for ldl_solve.

Args:
    A: symmetric (or Hermitian) matrices, of shape (..., n, n); the lower triangle is read.
    hermitian: whether complex matrices are Hermitian rather than symmetric.

Example:
    >>> fb.linalg.ldl_factor(fb.tensor([[2.]])).LD
    tensor([[2.]])
)") {
    std::vector<Tensor> result = ldl_factor(a.tensor(0), a.flag(1));
    check_info(result[2], "The factorization could not be completed: diagonal element # of D is zero");
    return std::vector<Tensor>{result[0], result[1]};
}
OP("linalg.ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor", FUNCTION | OUT,
   R"(Solution of linear systems from an LDL factorisation.

Args:
    LD: packed factors from ldl_factor.
    pivots: its pivots.
    B: right sides, of shape (..., n, k).
    hermitian: as given to ldl_factor.

Example:
    >>> fb.linalg.ldl_solve(*fb.linalg.ldl_factor(fb.tensor([[2.]])), fb.tensor([[4.]]))
    tensor([[2.]])
)") {
    return ldl_solve(a.tensor(0), a.tensor(1), a.tensor(2), a.flag(3));
}

}  // namespace fb
