// Singular values, eigenvalues and eigenvectors.
#include <cmath>
#include <vector>

#include "backend/cpu/columns.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/lapack.h"
#include "backend/cpu/lapack_qr.h"

namespace fb::cpu {
namespace {

// Eigenvalues (into d, ascending) and eigenvectors of a tridiagonal matrix by divide and conquer, like stedc; both
// halves run concurrently. z is n × n zeros.
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
    // Squares of very large or small entries would overflow or underflow: a power of two scales them near one.
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

}  // namespace

void set_identity(const Tensor& a) {
    Columns c(a);
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (int64_t i = 0; i < c.count; i++) {
            T* x = c.at<T>(i);
            std::fill(x, x + int64_t(c.rows) * c.cols, T(0));
            for (int d = 0; d < std::min(c.rows, c.cols); d++) x[d + int64_t(d) * c.rows] = T(1);
        }
    });
}

void eigenvalues(const Tensor& a, const Tensor& values, const Tensor& eigenvectors, const Tensor& info) {
    Columns c(a), v(eigenvectors);
    bool vectors = v.rows == c.rows;
    int n = c.rows;
    prepare_blas();
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        using C = std::complex<lapack::Real<T>>;
        each_matrix(n ? c.count : 0, 20.0 * n * n * n, [&](int64_t i) {
            info.data<int>()[i] =
                lapack::geev(vectors, n, c.at<T>(i), c.ld(), values.data<C>() + i * n, vectors ? v.at<C>(i) : nullptr);
        });
    });
}

void symmetric_eigenvalues(const Tensor& a, bool upper, bool vectors, const Tensor& values, const Tensor& info) {
    Columns c(a);
    int n = c.rows;
    prepare_blas();
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
}

void singular_values(const Tensor& a, const Tensor& left, const Tensor& s, const Tensor& right, bool full,
                     const Tensor& info) {
    Columns c(a), u(left), vh(right);
    bool vectors = u.rows == c.rows;
    int64_t m = c.rows, n = c.cols, k = std::min(m, n);
    prepare_blas();
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
}

}  // namespace fb::cpu
