// Singular values, eigenvalues and their vectors.
#include <cmath>

#include "backend/cpu/gemm.h"
#include "backend/cpu/lapack.h"
#include "backend/cpu/lapack_qr.h"
#include "backend/cpu/loops.h"
#include "base/parallel.h"
#include "ops/linear/linalg.h"

namespace fb {

namespace lapack = cpu::lapack;

namespace {

constexpr const char* no_convergence = "the algorithm did not converge (code #); is the input ill-conditioned?";

void set_identity(const Columns& c) {
    dispatch_lapack(c.tensor.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (int64_t i = 0; i < c.count; i++) {
            T* x = c.at<T>(i);
            std::fill(x, x + int64_t(c.rows) * c.cols, T(0));
            for (int d = 0; d < std::min(c.rows, c.cols); d++) x[d + int64_t(d) * c.rows] = T(1);
        }
    });
}

Tensor adjoint(const Tensor& t) {
    Tensor result = transpose(t, -1, -2);
    if (!is_complex(t.dtype())) return result;
    result = clone(result);
    dispatch<float, double>(real_of(t.dtype()), "a floating point dtype", [&](auto tag) {
        using R = typename decltype(tag)::type;
        R* x = reinterpret_cast<R*>(result.raw());
        for (int64_t i = 0; i < result.numel(); i++) x[2 * i + 1] = -x[2 * i + 1];
    });
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
    Tensor values = empty(with(batch, {n}), complex), info = zeros(batch, DType::I32);
    Columns v = empty_columns(batch, vectors ? n : 0, n, complex);
    cpu::prepare_blas();
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        using C = std::complex<lapack::Real<T>>;
        each_matrix(n ? c.count : 0, 20.0 * n * n * n, [&](int64_t i) {
            info.data<int>()[i] =
                lapack::geev(vectors, n, c.at<T>(i), c.ld(), values.data<C>() + i * n, vectors ? v.at<C>(i) : nullptr);
        });
    });
    check_info(info, no_convergence);
    return {values, v.tensor};
}

// Eigenvalues (into d, ascending) and eigenvectors of a tridiagonal matrix by divide and conquer, as stedc; the two
// halves at the same time. z is n × n zeros.
template <class T>
int tridiagonal_eigen(int n, T* d, T* e, T* z) {
    T most = 0;
    for (int i = 0; i < n; i++) most = std::max({most, std::abs(d[i]), i + 1 < n ? std::abs(e[i]) : T(0)});
    if (n < 64 || most == 0) return lapack::stedc(n, d, e, z, n);
    for (int i = 0; i < n; i++) d[i] /= most;
    for (int i = 0; i + 1 < n; i++) e[i] /= most;
    int cut = n / 2, infos[2];
    T between = e[cut - 1];
    d[cut - 1] -= std::abs(between);
    d[cut] -= std::abs(between);
    parallel_for(2, 1, [&](int64_t begin, int64_t end) {
        for (int64_t half = begin; half < end; half++) {
            int first = half ? cut : 0;
            infos[half] = lapack::stedc(half ? n - cut : cut, d + first, e + first, z + first * (int64_t(n) + 1), n);
        }
    });
    if (infos[0] || infos[1]) return infos[0] ? infos[0] : infos[1];
    std::vector<int> order(static_cast<size_t>(n));
    for (int i = 0; i < n; i++) order[i] = 1 + (i < cut ? i : i - cut);
    if (int info = lapack::laed1(n, d, z, n, order.data(), between, cut)) return info;
    std::vector<T> values(d, d + n), vectors(z, z + int64_t(n) * n);
    for (int i = 0; i < n; i++) {
        d[i] = values[order[i] - 1] * most;
        std::copy_n(vectors.data() + (order[i] - 1) * int64_t(n), n, z + i * int64_t(n));
    }
    return 0;
}

// Eigenvalues and eigenvectors of a real symmetric matrix, in place: LAPACK's syevd, with our own product at its end.
template <class T>
int symmetric_eigen(bool upper, int n, T* a, T* values) {
    int64_t size = n;
    if (upper) {
        for (int64_t col = 0; col < size; col++) {
            for (int64_t row = col + 1; row < size; row++) a[row + col * size] = a[col + row * size];
        }
    }
    T most = 0;
    for (int64_t col = 0; col < size; col++) {
        for (int64_t row = col; row < size; row++) most = std::max(most, std::abs(a[row + col * size]));
    }
    // Squares of very large or small entries would not fit: a power of two brings them near one.
    int exponent = 0;
    constexpr T tiny = sizeof(T) == 4 ? T(1e-15) : T(1e-140);
    if (most > 0 && (most < tiny || most > 1 / tiny)) {
        std::frexp(most, &exponent);
        for (int64_t i = 0; i < size * size; i++) a[i] = std::ldexp(a[i], -exponent);
    }
    std::vector<T> between(static_cast<size_t>(n)), factors(static_cast<size_t>(n)),
        z(static_cast<size_t>(size * size));
    if (int info = lapack::sytrd(n, a, n, values, between.data(), factors.data())) return info;
    if (int info = tridiagonal_eigen(n, values, between.data(), z.data())) return info;
    lapack::multiply_q<T>(size - 1, size, size - 1, a + 1, size, factors.data(), z.data() + 1, size);
    std::copy(z.begin(), z.end(), a);
    for (int i = 0; exponent != 0 && i < n; i++) values[i] = std::ldexp(values[i], exponent);
    return 0;
}

void check_driver(const Args& a, int i) { check(!a.given(i), "driver= is only for CUDA; leave it out"); }

}  // namespace

SVD svd(const Tensor& a, bool vectors, bool full) {
    check_matrices(a);
    check_finite(a);
    Dims batch = batch_of(a);
    int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
    DType real = real_of(a.dtype());
    Tensor s = empty(with(batch, {k}), real), info = zeros(batch, DType::I32);
    Columns u = empty_columns(batch, vectors ? m : 0, full ? m : k, a.dtype());
    Columns vh = empty_columns(batch, vectors ? (full ? n : k) : 0, n, a.dtype());
    if (k == 0) {
        if (vectors) {
            set_identity(u);
            set_identity(vh);
        }
        return {u.tensor, s, vh.tensor};
    }
    Columns c = to_columns(a);
    cpu::prepare_blas();
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        using R = lapack::Real<T>;
        char job = !vectors ? 'N' : full ? 'A' : 'S';
        each_matrix(c.count, 10.0 * double(m) * double(n) * double(k), [&](int64_t i) {
            info.data<int>()[i] =
                lapack::gesdd(job, c.rows, c.cols, c.at<T>(i), c.ld(), s.data<R>() + i * k,
                              vectors ? u.at<T>(i) : nullptr, u.ld(), vectors ? vh.at<T>(i) : nullptr, vh.ld());
        });
    });
    check_info(info, no_convergence);
    return {u.tensor, s, vh.tensor};
}

Eigen eigh(const Tensor& a, bool upper, bool vectors) {
    check_square(a);
    check_finite(a);
    Columns c = to_columns(a);
    Dims batch = batch_of(a);
    int n = c.rows;
    Tensor values = empty(with(batch, {n}), real_of(a.dtype())), info = zeros(batch, DType::I32);
    cpu::prepare_blas();
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        using R = lapack::Real<T>;
        each_matrix(n ? c.count : 0, 9.0 * n * n * n, [&](int64_t i) {
            R* to = values.data<R>() + i * n;
            int& code = info.data<int>()[i];
            if constexpr (!is_complex_type<T>) {
                if (vectors) {
                    code = symmetric_eigen<T>(upper, n, c.at<T>(i), to);
                    return;
                }
            }
            code = lapack::heevd(vectors ? 'V' : 'N', upper ? 'U' : 'L', n, c.at<T>(i), c.ld(), to);
        });
    });
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
    return std::vector<Tensor>{zeros(with(batch, {m, m}), input.dtype()), result.s,
                               zeros(with(batch, {n, n}), input.dtype())};
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
