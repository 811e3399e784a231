// Ops based on the LU decomposition: determinants, inverses, linear systems.
#include "device/linalg.h"
#include "ops/linear/linalg.h"

namespace fb {

namespace {

constexpr const char* singular =
    "The solver failed because the input matrix is singular: diagonal element # of U is zero";
constexpr const char* divides_by_zero =
    "U[#,#] is zero and using it on lu_solve would result in a division by zero; linalg.lu_factor_ex() and linalg.lu() "
    "factorize all the same";
constexpr const char* no_inverse =
    "The diagonal element # is zero, the inversion could not be completed because the input matrix is singular";
bool vector_right_side(const Tensor& a, const Tensor& b) {
    if (b.dim() == 1) return true;
    return a.dim() - 1 == b.dim() && std::equal(b.shape().begin(), b.shape().end(), a.shape().begin());
}

// The result in B's order of rows and columns, from its solved columns or, for X A = B, from the transposed ones.
Tensor solve_factored(const LU& lu, const Dims& own, const Tensor& b, bool left, char trans) {
    Dims batch = broadcast_shapes(own, batch_of(b));
    Tensor right = left ? b : transpose(b, -1, -2);
    Columns x = to_columns(right, batch);
    std::vector<int64_t> map = batch_map(batch, own);
    device::decomposing(b).lu_solve(lu.factors.tensor, lu.pivots, map, x.tensor, trans);
    return left ? x.tensor : transpose(x.tensor, -1, -2);
}

void check_solve(const Tensor& a, const Tensor& b, bool left, bool vector) {
    check_square(a);
    check(a.dtype() == b.dtype(), "A and B must have the same dtype, got ", a.dtype(), " and ", b.dtype());
    check(b.dim() >= 1, "B must have at least 1 dimension, got a 0-d tensor");
    check(left || !vector, "left=False needs matrices as right sides, got B of shape ", b.shape());
    int64_t n = a.size(-1), have = vector ? b.size(-1) : left ? b.size(-2) : b.size(-1);
    check(n == have, "shapes of A ", a.shape(), " and B ", b.shape(), " do not fit: sizes ", n, " and ", have,
          " differ");
}

// Sign (a unit complex number) and logarithm of the absolute value, from the factors.
std::vector<Tensor> slogdet(const LU& lu, const Dims& batch) {
    const Columns& c = lu.factors;
    DType dtype = c.tensor.dtype();
    Device device = c.tensor.device();
    Tensor sign = empty(batch, dtype, device), log = empty(batch, real_of(dtype), device);
    device::decomposing(sign).lu_log_determinant(c.tensor, lu.pivots, sign, log);
    return {sign, log};
}

Tensor det(const Tensor& a) {
    check_square(a);
    LU lu = lu_factor(a);
    const Columns& c = lu.factors;
    Tensor out = empty(batch_of(a), a.dtype(), a.device());
    device::decomposing(a).lu_determinant(c.tensor, lu.pivots, out);
    return out;
}

std::vector<Tensor> inv_ex(const Tensor& a) {
    check_square(a);
    LU lu = lu_factor(a);
    Columns& c = lu.factors;
    if (c.count == 0 || c.rows == 0) return {c.tensor, lu.info};
    if (c.count < 4 && c.rows >= 128) {
        Tensor eye = zeros({c.rows, c.rows}, a.dtype(), a.device());
        Tensor diagonal = view_of(eye, {c.rows}, {c.rows + 1}, eye.offset());
        fill(diagonal, Scalar(1));
        return {solve_factored(lu, batch_of(a), expand(eye, a.shape()), true, 'N'), lu.info};
    }
    device::decomposing(a).lu_invert(c.tensor, lu.pivots, lu.info);
    return {c.tensor, lu.info};
}

void check_pivot(bool pivot) { check(pivot, "LU without pivoting is not implemented on the CPU; leave pivot=True"); }

std::vector<Tensor> unpack(const Tensor& lu, const Tensor& pivots, bool data, bool permutations) {
    Dims batch = batch_of(lu);
    int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
    DType dtype = lu.dtype();
    Device device = lu.device();
    Tensor p = empty({0}, dtype, device), l = empty({0}, dtype, device), u = empty({0}, dtype, device);
    if (permutations) {
        check(pivots.dtype() == DType::I32, "pivots must be int32, as lu_factor returns them, got ", pivots.dtype());
        check(pivots.shape() == with(batch, {k}), "pivots must have shape ", with(batch, {k}), ", got ",
              pivots.shape());
        p = zeros(with(batch, {m, m}), dtype, device);
        device::decomposing(lu).lu_permutation(contiguous(pivots), p);
    }
    if (data) {
        Tensor source = contiguous(lu);
        l = zeros(with(batch, {m, k}), dtype, device);
        u = zeros(with(batch, {k, n}), dtype, device);
        device::decomposing(lu).lu_parts(source, l, u);
    }
    return {p, l, u};
}

Tensor lu_solve_packed(const Tensor& packed, const Tensor& pivots, const Tensor& b, bool left, bool adjoint) {
    check_square(packed, "LU");
    check_matrices(b, "B");
    check(packed.dtype() == b.dtype(), "LU and B must have the same dtype, got ", packed.dtype(), " and ", b.dtype());
    int64_t n = packed.size(-1), have = left ? b.size(-2) : b.size(-1);
    check(n == have, "shapes of LU ", packed.shape(), " and B ", b.shape(), " do not fit: sizes ", n, " and ", have,
          " differ");
    check(pivots.dtype() == DType::I32, "pivots must be int32, as lu_factor returns them, got ", pivots.dtype());
    Dims own = batch_of(packed);
    check(pivots.shape() == with(own, {n}), "pivots must have shape ", with(own, {n}), ", got ", pivots.shape());
    LU lu{to_columns(packed), contiguous(pivots), Tensor()};
    device::decomposing(packed).check_pivots(lu.pivots, n);
    // X A = B is Aᵀ Xᵀ = Bᵀ; with the adjoint, Aᴴ conjugated gives conj(A) there.
    if (left) return solve_factored(lu, own, b, true, adjoint ? 'C' : 'N');
    if (!adjoint) return solve_factored(lu, own, b, false, 'T');
    return conjugated(solve_factored(lu, own, conjugated(b), false, 'N'));
}

}  // namespace

Solved lu_solve(const Tensor& a, const Tensor& b, bool left) {
    bool vector = vector_right_side(a, b);
    check_solve(a, b, left, vector);
    Solved solved;
    solved.lu = lu_factor(a);
    Tensor right = vector ? unsqueeze(b, -1) : b;
    solved.result = solve_factored(solved.lu, batch_of(a), right, left, left ? 'N' : 'T');
    if (vector) solved.result = squeeze(solved.result, -1);
    return solved;
}

OP("linalg.det(Tensor A) -> Tensor", FUNCTION | OUT, R"(Determinant of square matrices.

Args:
    A: shape (..., n, n).

Example:
    >>> fb.linalg.det(fb.tensor([[2., 1.], [1., 3.]]))
    tensor(5.)
)") {
    return det(a.tensor(0));
}

OP("det(Tensor input) -> Tensor", FUNCTION | METHOD,
   R"(Determinant of square matrices; the same as :func:`flambeau.linalg.det`.

Args:
    input: shape (..., n, n).

Example:
    >>> fb.det(fb.tensor([[2., 1.], [1., 3.]]))
    tensor(5.)
)") {
    return det(a.tensor(0));
}

OP("linalg.slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", FUNCTION | OUT,
   R"(Sign and logarithm of the absolute value of the determinant.

Args:
    A: shape (..., n, n).

Example:
    >>> fb.linalg.slogdet(fb.tensor([[2., 1.], [1., 3.]])).sign
    tensor(1.)
)") {
    check_square(a.tensor(0));
    return slogdet(lu_factor(a.tensor(0)), batch_of(a.tensor(0)));
}
OP("slogdet(Tensor input) -> (Tensor sign, Tensor logabsdet)", FUNCTION | METHOD | OUT,
   R"(Sign and logarithm of the absolute value of the determinant.

Args:
    input: shape (..., n, n).

Example:
    >>> fb.slogdet(fb.tensor([[2., 1.], [1., 3.]])).sign
    tensor(1.)
)") {
    check_square(a.tensor(0), "input");
    return slogdet(lu_factor(a.tensor(0)), batch_of(a.tensor(0)));
}

OP("linalg.inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)", FUNCTION | OUT,
   R"(Inverse of square matrices, with a code instead of an error.

Args:
    A: shape (..., n, n).
    check_errors: whether a singular matrix is an error after all.

Returns:
    The inverses and an int32 code per matrix: 0, or the place of a zero on U's diagonal.

Example:
    >>> fb.linalg.inv_ex(fb.tensor([[0.]])).info
    tensor(1, dtype=flambeau.int32)
)") {
    std::vector<Tensor> result = inv_ex(a.tensor(0));
    if (a.flag(1)) check_info(result[1], no_inverse);
    return result;
}

OP("linalg.inv(Tensor A) -> Tensor", FUNCTION | OUT, R"(Inverse of square matrices.

Args:
    A: shape (..., n, n).

Example:
    >>> fb.linalg.inv(fb.tensor([[2., 1.], [1., 1.]]))
    tensor([[ 1., -1.],
            [-1.,  2.]])
)") {
    std::vector<Tensor> result = inv_ex(a.tensor(0));
    check_info(result[1], no_inverse);
    return result[0];
}
OP("inverse(Tensor input) -> Tensor", COMMON, R"(Inverse of square matrices; the same as :func:`flambeau.linalg.inv`.

Args:
    input: shape (..., n, n).

Example:
    >>> fb.inverse(fb.tensor([[2., 1.], [1., 1.]]))
    tensor([[ 1., -1.],
            [-1.,  2.]])
)") {
    std::vector<Tensor> result = inv_ex(a.tensor(0));
    check_info(result[1], no_inverse);
    return result[0];
}

OP("linalg.solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", FUNCTION | OUT,
   R"(Solution X of the linear systems A X = B.

Args:
    A: square matrices, of shape (..., n, n).
    B: right sides: vectors of shape (..., n) or matrices of shape (..., n, k).
    left: with False, X A = B is solved.

Example:
    >>> fb.linalg.solve(fb.tensor([[2., 0.], [0., 4.]]), fb.tensor([2., 8.]))
    tensor([1., 2.])
)") {
    Solved solved = lu_solve(a.tensor(0), a.tensor(1), a.flag(2));
    check_info(solved.lu.info, singular);
    return solved.result;
}

OP("linalg.solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)",
   FUNCTION | OUT, R"(Solution of linear systems, with a code instead of an error.

Args:
    A: square matrices, of shape (..., n, n).
    B: right sides: vectors of shape (..., n) or matrices of shape (..., n, k).
    left: with False, X A = B is solved.
    check_errors: whether a singular matrix is an error after all.

Example:
    >>> fb.linalg.solve_ex(fb.tensor([[2.]]), fb.tensor([4.])).result
    tensor([2.])
)") {
    Solved solved = lu_solve(a.tensor(0), a.tensor(1), a.flag(2));
    if (a.flag(3)) check_info(solved.lu.info, singular);
    return std::vector<Tensor>{solved.result, solved.lu.info};
}

OP("linalg.lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor "
   "info)",
   FUNCTION | OUT,
   R"(LU decomposition in its packed form, with a code instead of an error.

Args:
    A: shape (..., m, n).
    pivot: must be True.
    check_errors: whether a zero on U's diagonal is an error.

Example:
    >>> fb.linalg.lu_factor_ex(fb.tensor([[0.]])).info
    tensor(1, dtype=flambeau.int32)
)") {
    check_matrices(a.tensor(0));
    check_pivot(a.flag(1));
    LU lu = lu_factor(a.tensor(0));
    if (a.flag(2)) check_info(lu.info, divides_by_zero);
    return std::vector<Tensor>{lu.factors.tensor, lu.pivots, lu.info};
}

OP("linalg.lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)", FUNCTION | OUT,
   R"(LU decomposition in its packed form, for lu_solve.

Args:
    A: shape (..., m, n).
    pivot: must be True.

Returns:
    L (below the diagonal) and U in one tensor, and the row exchanges (from 1).

Example:
    >>> fb.linalg.lu_factor(fb.tensor([[1., 2.], [2., 2.]])).pivots
    tensor([2, 2], dtype=flambeau.int32)
)") {
    check_matrices(a.tensor(0));
    check_pivot(a.flag(1));
    LU lu = lu_factor(a.tensor(0));
    check_info(lu.info, divides_by_zero);
    return std::vector<Tensor>{lu.factors.tensor, lu.pivots};
}

OP("linalg.lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)", FUNCTION | OUT,
   R"(LU decomposition A = P L U.

Args:
    A: shape (..., m, n).
    pivot: must be True.

Example:
    >>> fb.linalg.lu(fb.tensor([[1., 2.], [2., 2.]])).U
    tensor([[2., 2.],
            [0., 1.]])
)") {
    check_matrices(a.tensor(0));
    check_pivot(a.flag(1));
    LU lu = lu_factor(a.tensor(0));
    return unpack(lu.factors.tensor, lu.pivots, true, true);
}

OP("lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor "
   "L, Tensor U)",
   FUNCTION | OUT,
   R"(The matrices P, L and U out of a packed LU decomposition.

Args:
    LU_data: packed factors from lu_factor.
    LU_pivots: its pivots.
    unpack_data: whether L and U are wanted; empty tensors otherwise.
    unpack_pivots: whether P is wanted.

Example:
    >>> fb.lu_unpack(*fb.linalg.lu_factor(fb.tensor([[1., 2.], [2., 2.]]))).U
    tensor([[2., 2.],
            [0., 1.]])
)") {
    check_matrices(a.tensor(0), "LU_data");
    return unpack(a.tensor(0), a.tensor(1), a.flag(2), a.flag(3));
}

OP("linalg.lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
   FUNCTION | OUT,
   R"(Solution of linear systems from a packed LU decomposition.

Args:
    LU: packed factors from lu_factor.
    pivots: its pivots.
    B: right sides, of shape (..., n, k).
    left: with False, X A = B is solved.
    adjoint: with True, A is replaced by its conjugate transpose.

Example:
    >>> fb.linalg.lu_solve(*fb.linalg.lu_factor(fb.tensor([[2.]])), fb.tensor([[4.]]))
    tensor([[2.]])
)") {
    return lu_solve_packed(a.tensor(0), a.tensor(1), a.tensor(2), a.flag(3), a.flag(4));
}

OP("lu_solve(Tensor input, Tensor LU_data, Tensor LU_pivots) -> Tensor", COMMON,
   R"(Solution of linear systems from a packed LU decomposition.

Args:
    input: right sides, of shape (..., n, k).
    LU_data: packed factors from lu_factor.
    LU_pivots: its pivots.

Example:
    >>> fb.lu_solve(fb.tensor([[4.]]), *fb.linalg.lu_factor(fb.tensor([[2.]])))
    tensor([[2.]])
)") {
    return lu_solve_packed(a.tensor(1), a.tensor(2), a.tensor(0), true, false);
}

}  // namespace fb
