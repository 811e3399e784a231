// Singular values, eigenvalues and eigenvectors.
#include "device/linalg.h"
#include "ops/linear/linalg.h"

namespace fb {

namespace {

constexpr const char* no_convergence = "the algorithm did not converge (code #); is the input ill-conditioned?";

Tensor adjoint(const Tensor& t) {
    Tensor result = transpose(t, -1, -2);
    if (!is_complex(t.dtype())) return result;
    result = clone(result);
    device::decomposing(result).conjugate(result);
    return result;
}

bool upper_of(const std::string& text) {
    check(text.size() == 1 && std::string("LlUu").find(text[0]) != std::string::npos, "UPLO must be 'L' or 'U', got '",
          text, "'");
    return text[0] == 'U' || text[0] == 'u';
}

Eigen eig(const Tensor& a, bool vectors) {
    check_square(a);
    check_finite(a);
    Columns c = to_columns(a);
    DType complex = complex_of(real_of(a.dtype()));
    Dims batch = batch_of(a);
    int n = c.rows;
    Tensor values = empty(with(batch, {n}), complex, a.device()), info = zeros(batch, DType::I32, a.device());
    Columns v = empty_columns(batch, vectors ? n : 0, n, complex, a.device());
    device::decomposing(a).eig(c.tensor, values, v.tensor, info);
    check_info(info, no_convergence);
    return {values, v.tensor};
}

void check_driver(const Args& a, int i) { check(!a.given(i), "driver= is only for CUDA; leave it out"); }

}  // namespace

SVD svd(const Tensor& a, bool vectors, bool full) {
    check_matrices(a);
    check_finite(a);
    Dims batch = batch_of(a);
    int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
    DType real = real_of(a.dtype());
    Tensor s = empty(with(batch, {k}), real, a.device()), info = zeros(batch, DType::I32, a.device());
    Columns u = empty_columns(batch, vectors ? m : 0, full ? m : k, a.dtype(), a.device());
    Columns vh = empty_columns(batch, vectors ? (full ? n : k) : 0, n, a.dtype(), a.device());
    if (k == 0) {
        if (vectors) {
            device::decomposing(a).identity(u.tensor);
            device::decomposing(a).identity(vh.tensor);
        }
        return {u.tensor, s, vh.tensor};
    }
    Columns c = to_columns(a);
    device::decomposing(a).svd(c.tensor, u.tensor, s, vh.tensor, full, info);
    check_info(info, no_convergence);
    return {u.tensor, s, vh.tensor};
}

Eigen eigh(const Tensor& a, bool upper, bool vectors) {
    check_square(a);
    check_finite(a);
    Columns c = to_columns(a);
    Dims batch = batch_of(a);
    int n = c.rows;
    Tensor values = empty(with(batch, {n}), real_of(a.dtype()), a.device()),
           info = zeros(batch, DType::I32, a.device());
    device::decomposing(a).eigh(c.tensor, upper, vectors, values, info);
    check_info(info, no_convergence);
    return {values, c.tensor};
}

OP("linalg.svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
   FUNCTION | OUT,
   R"(Singular value decomposition A = U diag(S) Vh.

Args:
    A: shape (..., m, n).
    full_matrices: whether U and Vh are square; otherwise they have min(m, n) columns and rows.
    driver: must be left out on the CPU.

Returns:
    U, the singular values in descending order, and the conjugate transpose of V.

Example:
    >>> fb.linalg.svd(fb.tensor([[3., 0.], [0., 4.]])).S
    tensor([4., 3.])
)") {
    check_driver(a, 2);
    SVD result = svd(a.tensor(0), true, a.flag(1));
    return std::vector<Tensor>{result.u, result.s, result.vh};
}

OP("linalg.svdvals(Tensor A, *, str? driver=None) -> Tensor", FUNCTION | OUT, R"(Singular values in descending order.

Args:
    A: shape (..., m, n).
    driver: must be left out on the CPU.

Example:
    >>> fb.linalg.svdvals(fb.tensor([[3., 0.], [0., 4.]]))
    tensor([4., 3.])
)") {
    check_driver(a, 1);
    return svd(a.tensor(0), false, false).s;
}

OP("svd(Tensor input, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)", COMMON,
   R"(Singular value decomposition input = U diag(S) Vᴴ; :func:`flambeau.linalg.svd` is newer.

Args:
    input: shape (..., m, n).
    some: whether U and V are reduced to min(m, n) columns.
    compute_uv: with False, U and V are square zero matrices.

Example:
    >>> fb.svd(fb.tensor([[3., 0.], [0., 4.]])).S
    tensor([4., 3.])
)") {
    const Tensor& input = a.tensor(0);
    SVD result = svd(input, a.flag(2), !a.flag(1));
    if (a.flag(2)) return std::vector<Tensor>{result.u, result.s, adjoint(result.vh)};
    Dims batch = batch_of(input);
    int64_t m = input.size(-2), n = input.size(-1);
    return std::vector<Tensor>{zeros(with(batch, {m, m}), input.dtype(), input.device()), result.s,
                               zeros(with(batch, {n, n}), input.dtype(), input.device())};
}

OP("linalg.eigh(Tensor A, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)", FUNCTION | OUT,
   R"(Eigenvalues and eigenvectors of symmetric or Hermitian matrices.

Args:
    A: shape (..., n, n); one triangle is read.
    UPLO: which triangle, 'L' or 'U'.

Returns:
    Real eigenvalues in ascending order, and orthonormal eigenvectors in columns.

Example:
    >>> fb.linalg.eigh(fb.tensor([[4., 0.], [0., 3.]])).eigenvalues
    tensor([3., 4.])
)") {
    Eigen result = eigh(a.tensor(0), upper_of(a.text(1)), true);
    return std::vector<Tensor>{result.values, result.vectors};
}

OP("linalg.eigvalsh(Tensor A, str UPLO='L') -> Tensor", FUNCTION | OUT,
   R"(Eigenvalues of symmetric or Hermitian matrices, in ascending order.

Args:
    A: shape (..., n, n); one triangle is read.
    UPLO: which triangle, 'L' or 'U'.

Example:
    >>> fb.linalg.eigvalsh(fb.tensor([[4., 0.], [0., 3.]]))
    tensor([3., 4.])
)") {
    return eigh(a.tensor(0), upper_of(a.text(1)), false).values;
}

OP("linalg.eig(Tensor A) -> (Tensor eigenvalues, Tensor eigenvectors)", FUNCTION | OUT | WIDER,
   R"(Eigenvalues and eigenvectors of square matrices, as complex numbers.

Args:
    A: shape (..., n, n).

Returns:
    Eigenvalues in no particular order, and eigenvectors of norm one in columns.

Example:
    >>> fb.linalg.eig(fb.tensor([[2.]])).eigenvalues
    tensor([2.+0.j])
)") {
    Eigen result = eig(a.tensor(0), true);
    return std::vector<Tensor>{result.values, result.vectors};
}

OP("linalg.eigvals(Tensor A) -> Tensor", FUNCTION | OUT, R"(Eigenvalues of square matrices, as complex numbers.

Args:
    A: shape (..., n, n).

Example:
    >>> fb.linalg.eigvals(fb.tensor([[2.]]))
    tensor([2.+0.j])
)") {
    return eig(a.tensor(0), false).values;
}

}  // namespace fb
