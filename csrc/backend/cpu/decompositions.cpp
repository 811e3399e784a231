// Cholesky and LDL decompositions, triangular systems, and helpers shared by all decompositions of device::Decomposing.
#include <cmath>

#include "backend/cpu/columns.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/lapack.h"
#include "backend/cpu/lapack_batch.h"
#include "backend/cpu/loops.h"

namespace fb::cpu {
namespace {

bool all_finite(const Tensor& values) {
    bool good = true;
    dispatch<float, double>(real_of(values.dtype()), "a floating point dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        int64_t n = values.numel() * (is_complex(values.dtype()) ? 2 : 1);
        const T* x = reinterpret_cast<const T*>(values.raw());
        T sum = 0;  // stays zero unless a value is not finite
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++) sum += x[i] * T(0);
        good = sum == 0;
    });
    return good;
}

int64_t first_code(const Tensor& info, int& code) {
    const int* codes = info.data<int>();
    for (int64_t i = 0; i < info.numel(); i++) {
        if ((code = codes[i]) != 0) return i;
    }
    return -1;
}

void conjugate(const Tensor& t) {
    dispatch<float, double>(real_of(t.dtype()), "a floating point dtype", [&](auto tag) {
        using R = typename decltype(tag)::type;
        R* x = reinterpret_cast<R*>(t.raw());
        for (int64_t i = 0; i < t.numel(); i++) x[2 * i + 1] = -x[2 * i + 1];
    });
}

bool all_ranks(const Tensor& ranks, int64_t full) {
    bool all = true;
    for (int64_t i = 0; i < ranks.numel(); i++) all &= ranks.data<int64_t>()[i] == full;
    return all;
}

// ---- Cholesky -------------------------------------------------------------------------------------------------------

// A = L Lᴴ, lower triangle: panels by LAPACK, the rest by our own parallel product, split at fixed places.
template <class T>
int blocked_potrf(int n, T* a, int lda, const Tensor& holder) {
    constexpr int width = 128;
    if (n <= 2 * width) return lapack::potrf('L', n, a, lda);
    int64_t base = a - holder.data<T>();
    auto part = [&](int row, int col, int rows, int cols) {
        return view_of(holder, {rows, cols}, {1, lda}, holder.offset() + base + row + int64_t(col) * lda);
    };
    for (int j = 0; j < n; j += width) {
        int w = std::min(width, n - j), below = n - j - w;
        if (int info = lapack::potrf('L', w, a + j + int64_t(j) * lda, lda)) return info + j;
        if (below == 0) break;
        int64_t groups = (below + 63) / 64;
        parallel_for(groups, 1, [&](int64_t begin, int64_t end) {
            for (int64_t g = begin; g < end; g++) {
                int first = static_cast<int>(g) * 64, rows = std::min(64, below - first);
                lapack::trsm('R', 'L', 'C', 'N', rows, w, a + j + int64_t(j) * lda, lda,
                             a + j + w + first + int64_t(j) * lda, lda);
            }
        });
        // Only the lower triangle is needed: block rows of the trailing matrix, each up to its diagonal.
        Tensor left = part(j + w, j, below, w), right = transpose(left, 0, 1);
        if constexpr (is_complex_type<T>) {
            Tensor conjugate = empty({w, below}, holder.dtype(), holder.device());
            const T* from = a + j + w + int64_t(j) * lda;
            for (int c = 0; c < w; c++) {
                for (int r = 0; r < below; r++)
                    conjugate.data<T>()[int64_t(c) * below + r] = std::conj(from[r + int64_t(c) * lda]);
            }
            right = conjugate;
        }
        for (int r = 0; r < below; r += 2 * width) {
            int rows = std::min(2 * width, below - r), cols = r + rows;
            gemm(part(j + w + r, j + w, rows, cols), narrow(left, 0, r, rows), narrow(right, 1, 0, cols), Scalar(-1),
                 Scalar(1));
        }
    }
    return 0;
}

// Many small real matrices, one per vector lane.
void cholesky_small(const Tensor& to, const Tensor& from, const Tensor& info) {
    Tensor rows = from;
    if (!from.is_contiguous()) copy(rows = empty(from.shape(), from.dtype(), from.device()), from);
    int64_t n = rows.size(-1);
    Columns c(to);
    dispatch<float, double>(rows.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        lapack::cholesky_batch<T>(c.at<T>(0), rows.data<T>(), c.count, n, info.data<int>());
    });
}

void cholesky(const Tensor& a, const Tensor& from, const Tensor& info) {
    int64_t n = from.size(-1);
    if (n <= lapack::batch_most && from.numel() >= 4 * n * n && !is_complex(from.dtype()))
        return cholesky_small(a, from, info);
    copy(a, from);
    Columns c(a);
    prepare_blas();
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        bool large = c.count < 4;
        auto one = [&](int64_t i) {
            T* data = c.at<T>(i);
            info.data<int>()[i] =
                large ? blocked_potrf<T>(c.rows, data, c.ld(), c.tensor) : lapack::potrf('L', c.rows, data, c.ld());
            for (int col = 1; col < c.cols; col++)
                std::fill(data + int64_t(col) * c.rows, data + int64_t(col) * c.rows + col, T(0));
        };
        if (c.rows == 0) return;
        if (large) {
            for (int64_t i = 0; i < c.count; i++) one(i);
        } else {
            each_matrix(c.count, double(c.rows) * c.rows * c.rows / 3, one);
        }
    });
}

void cholesky_solve(const Tensor& triangle, bool upper, const std::vector<int64_t>& map, const Tensor& b) {
    Columns factor(triangle), x(b);
    prepare_blas();
    dispatch_lapack(b.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_matrix(x.count, double(x.rows) * x.rows * x.cols, [&](int64_t i) {
            lapack::potrs(upper ? 'U' : 'L', x.rows, x.cols, factor.at<T>(map[i]), factor.ld(), x.at<T>(i), x.ld());
        });
    });
}

void cholesky_invert(const Tensor& l, bool upper, const Tensor& info) {
    Columns c(l);
    prepare_blas();
    dispatch_lapack(l.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_matrix(c.rows ? c.count : 0, double(c.rows) * c.rows * c.rows, [&](int64_t i) {
            T* x = c.at<T>(i);
            info.data<int>()[i] = lapack::potri(upper ? 'U' : 'L', c.rows, x, c.ld());
            for (int col = 0; col < c.cols; col++) {  // LAPACK fills one triangle
                for (int row = 0; row < col; row++) {
                    T &high = x[row + int64_t(col) * c.rows], &low = x[col + int64_t(row) * c.rows];
                    T value = upper ? high : low;
                    T other = value;
                    if constexpr (is_complex_type<T>) other = std::conj(value);
                    (upper ? low : high) = other;
                }
            }
        });
    });
}

void triangular_solve(const Tensor& a, bool upper, bool left, bool unit, char trans, const std::vector<int64_t>& map,
                      const Tensor& b) {
    Columns factor(a), x(b);
    int64_t n = factor.rows;
    prepare_blas();
    dispatch_lapack(b.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        // Fixed groups of right-hand sides, so that results do not depend on the number of threads.
        int free = left ? x.cols : x.rows, groups = (free + 63) / 64;
        each_matrix(x.count * groups, double(n) * n * std::min(free, 64), [&](int64_t t) {
            int64_t i = t / groups;
            int first = static_cast<int>(t % groups) * 64, size = std::min(64, free - first);
            T* at = x.at<T>(i) + (left ? int64_t(first) * x.rows : first);
            lapack::trsm(left ? 'L' : 'R', upper ? 'U' : 'L', trans, unit ? 'U' : 'N', left ? x.rows : size,
                         left ? size : x.cols, factor.at<T>(map[i]), factor.ld(), at, x.ld());
        });
    });
}

// ---- LDL ------------------------------------------------------------------------------------------------------------

void ldl(const Tensor& a, bool hermitian, const Tensor& pivots, const Tensor& info) {
    Columns c(a);
    prepare_blas();
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_matrix(c.rows ? c.count : 0, double(c.rows) * c.rows * c.rows / 3, [&](int64_t i) {
            info.data<int>()[i] =
                lapack::sytrf('L', hermitian, c.rows, c.at<T>(i), c.ld(), pivots.data<int>() + i * c.rows);
        });
    });
    // The part above the diagonal is not used; PyTorch returns zeros there.
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (int64_t i = 0; i < c.count; i++) {
            for (int col = 1; col < c.cols; col++) std::fill_n(c.at<T>(i) + int64_t(col) * c.rows, col, T(0));
        }
    });
}

void ldl_solve(const Tensor& ld, const Tensor& order, bool hermitian, const std::vector<int64_t>& map,
               const Tensor& b) {
    Columns factor(ld), x(b);
    int64_t n = factor.rows;
    for (int64_t i = 0; i < order.numel(); i++) {
        int64_t p = std::abs(int64_t(order.data<int>()[i]));  // also correct for the smallest int
        check(p >= 1 && p <= n, "pivot ", order.data<int>()[i], " is out of range for matrices of size ", n);
    }
    // A pair of equal negative pivots marks a 2 × 2 block; a single one would make LAPACK read out of bounds.
    for (int64_t i = 0; i < order.numel(); i += n) {
        for (int64_t k = 0; k < n; k++) {
            if (order.data<int>()[i + k] > 0) continue;
            check(k + 1 < n && order.data<int>()[i + k + 1] < 0, "negative pivots must come in pairs");
            k++;
        }
        if (n == 0) break;
    }
    if (x.rows == 0 || x.cols == 0) return;
    prepare_blas();
    dispatch_lapack(b.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_matrix(x.count, double(n) * n * x.cols, [&](int64_t i) {
            lapack::sytrs('L', hermitian, x.rows, x.cols, factor.at<T>(map[i]), factor.ld(),
                          order.data<int>() + map[i] * n, x.at<T>(i), x.ld());
        });
    });
}

const device::Provide<device::Decomposing> provided(DeviceType::CPU, {.all_finite = all_finite,
                                                                      .first_code = first_code,
                                                                      .lu = lu,
                                                                      .lu_solve = lu_solve,
                                                                      .lu_invert = lu_invert,
                                                                      .lu_determinant = lu_determinant,
                                                                      .lu_log_determinant = lu_log_determinant,
                                                                      .lu_permutation = lu_permutation,
                                                                      .lu_parts = lu_parts,
                                                                      .check_pivots = check_pivots,
                                                                      .cholesky = cholesky,
                                                                      .cholesky_solve = cholesky_solve,
                                                                      .cholesky_invert = cholesky_invert,
                                                                      .triangular_solve = triangular_solve,
                                                                      .ldl = ldl,
                                                                      .ldl_solve = ldl_solve,
                                                                      .qr = qr,
                                                                      .form_q = form_q,
                                                                      .multiply_q = multiply_q,
                                                                      .zero_below_diagonal = zero_below_diagonal,
                                                                      .least_squares = least_squares,
                                                                      .sums_of_squares = sums_of_squares,
                                                                      .all_ranks = all_ranks,
                                                                      .svd = singular_values,
                                                                      .eig = eigenvalues,
                                                                      .eigh = symmetric_eigenvalues,
                                                                      .conjugate = conjugate,
                                                                      .identity = set_identity});

}  // namespace
}  // namespace fb::cpu
