// QR decompositions, products of Householder reflections, and least squares.
#include <cmath>
#include <limits>

#include "backend/cpu/columns.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/lapack.h"
#include "backend/cpu/lapack_qr.h"

namespace fb::cpu {

using device::LeastSquares;

static double qr_work(const Columns& c) { return 2.0 * c.rows * c.cols * std::min(c.rows, c.cols); }

void qr(const Tensor& a, const Tensor& factors) {
    Columns c(a);
    int k = std::min(c.rows, c.cols);
    prepare_blas();
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_matrix(c.count, qr_work(c), [&](int64_t i) {
            T *x = c.at<T>(i), *tau = factors.data<T>() + i * k;
            if constexpr (is_complex_type<T>) lapack::geqrf(c.rows, c.cols, x, c.ld(), tau);
            else lapack::factor_qr<T>(c.rows, c.cols, x, c.ld(), tau);
        });
    });
}

void form_q(const Tensor& columns, const Tensor& factors) {
    Columns q(columns);
    int64_t k = factors.size(-1);
    prepare_blas();
    dispatch_lapack(columns.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_matrix(q.count, qr_work(q), [&](int64_t i) {
            const T* scales = factors.data<T>() + i * k;
            if constexpr (is_complex_type<T>)
                lapack::orgqr(q.rows, q.cols, static_cast<int>(k), q.at<T>(i), q.ld(), scales);
            else lapack::form_q<T>(q.rows, q.cols, k, q.at<T>(i), q.ld(), scales);
        });
    });
}

void multiply_q(const Tensor& a, const Tensor& factors, bool left, bool adjoint, const Tensor& other) {
    Columns q(a), c(other);
    int64_t k = factors.size(-1);
    prepare_blas();
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        char trans = adjoint ? (is_complex_type<T> ? 'C' : 'T') : 'N';
        each_matrix(c.count, 2.0 * c.rows * c.cols * double(k), [&](int64_t i) {
            lapack::ormqr(left ? 'L' : 'R', trans, c.rows, c.cols, static_cast<int>(k), q.at<T>(i), q.ld(),
                          factors.data<T>() + i * k, c.at<T>(i), c.ld());
        });
    });
}

void zero_below_diagonal(const Tensor& a) {
    Columns r(a);
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (int64_t i = 0; i < r.count; i++) {
            for (int c = 0; c < r.cols && c + 1 < r.rows; c++)
                std::fill(r.at<T>(i) + int64_t(c) * r.rows + c + 1, r.at<T>(i) + int64_t(c + 1) * r.rows, T(0));
        }
    });
}

void least_squares(LeastSquares routine, const Tensor& a, const Tensor& right, std::optional<double> rcond,
                   const Tensor& values, const Tensor& ranks, const Tensor& info) {
    Columns x(a), y(right);
    int64_t m = x.rows, n = x.cols;
    prepare_blas();
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        using R = lapack::Real<T>;
        R limit = rcond ? R(*rcond) : std::numeric_limits<R>::epsilon() * R(std::max(m, n));
        each_matrix(x.count, qr_work(x), [&](int64_t i) {
            T *p = x.at<T>(i), *q = y.at<T>(i);
            int found = 0, status;
            R* sigma = values ? values.data<R>() + i * std::min(m, n) : nullptr;
            if (routine == LeastSquares::Gels) status = lapack::gels(x.rows, x.cols, y.cols, p, x.ld(), q, y.ld());
            else if (routine == LeastSquares::Gelsy)
                status = lapack::gelsy(x.rows, x.cols, y.cols, p, x.ld(), q, y.ld(), limit, &found);
            else if (routine == LeastSquares::Gelsd)
                status = lapack::gelsd(x.rows, x.cols, y.cols, p, x.ld(), q, y.ld(), sigma, limit, &found);
            else status = lapack::gelss(x.rows, x.cols, y.cols, p, x.ld(), q, y.ld(), sigma, limit, &found);
            info.data<int>()[i] = status;
            if (ranks) ranks.data<int64_t>()[i] = found;
        });
    });
}

void sums_of_squares(const Tensor& right, int64_t n, int64_t m, const Tensor& residuals) {
    Columns y(right);
    int64_t k = y.cols;
    dispatch_lapack(right.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        using R = lapack::Real<T>;
        for (int64_t i = 0; i < y.count; i++) {
            for (int64_t c = 0; c < k; c++) {
                R sum = 0;
                for (int64_t r = n; r < m; r++) sum += std::norm(y.at<T>(i)[r + c * y.rows]);
                residuals.data<R>()[i * k + c] = sum;
            }
        }
    });
}

}  // namespace fb::cpu
