#include "ops/linear/linalg.h"

#include <cmath>
#include <limits>
#include <string_view>

#include "backend/cpu/gemm.h"
#include "backend/cpu/lapack.h"
#include "backend/cpu/lapack_batch.h"
#include "backend/cpu/lapack_own.h"
#include "backend/cpu/loops.h"
#include "base/wording.h"

namespace fb {

namespace lapack = cpu::lapack;

Dims batch_of(const Tensor& a) { return Dims(a.shape().begin(), a.shape().begin() + (a.dim() - 2)); }
Dims with(Dims dims, std::initializer_list<int64_t> more) {
    for (int64_t size : more) dims.push_back(size);
    return dims;
}

void check_matrices(const Tensor& a, const char* name) {
    bool plain = std::string_view(name) == "input";
    check(a.dim() >= 2, plain ? "" : "The input tensor ", name,
          " must have at least 2 dimensions. Expected a matrix or a batch of matrices, got shape ", a.shape());
    if (a.dtype() == DType::F32 || a.dtype() == DType::F64 || is_complex(a.dtype())) return;
    fail_value(is_floating(a.dtype()) ? "Low precision dtypes not supported. Got "
                                      : "Expected a floating point or complex tensor as input. Got ",
               scalar_type(a.dtype()), ": ", name,
               " must be float32, float64, complex64 or complex128; convert it with .to(dtype)");
}
void check_square(const Tensor& a, const char* name) {
    check_matrices(a, name);
    check(a.shape()[a.dim() - 1] == a.shape()[a.dim() - 2], name, " must be batches of square matrices, but they are ",
          a.size(-2), " by ", a.size(-1), " matrices");
}

void check_finite(const Tensor& a, const char* name) {
    Tensor flat = is_complex(a.dtype()) ? contiguous(a) : a;
    bool good = true;
    dispatch<float, double>(real_of(a.dtype()), "a floating point dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        Tensor values = contiguous(flat);
        int64_t n = values.numel() * (is_complex(a.dtype()) ? 2 : 1);
        const T* x = reinterpret_cast<const T*>(values.raw());
        T sum = 0;  // stays zero unless something is not finite
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++) sum += x[i] * T(0);
        good = sum == 0;
    });
    if (!good)
        fail(ErrorKind::LinAlg, "input tensor should not contain infs or NaNs: with those that ", name,
             " has the algorithm would not converge");
}

Columns empty_columns(const Dims& batch, int64_t rows, int64_t cols, DType dtype) {
    constexpr int64_t most = std::numeric_limits<int>::max();
    check(rows <= most && cols <= most, "matrices of ", rows, " × ", cols, " are too large for LAPACK");
    Columns c;
    Dims shape = with(batch, {cols, rows});
    c.count = checked_numel(batch);
    if (is_complex(dtype)) {
        // OpenBLAS scales complex vectors (cscal, which QR and LU call) with a look at the element after the last.
        Tensor room = empty({checked_numel(shape) + 1}, dtype);
        c.tensor = transpose(make_view(room.storage_ref(), dtype, shape, contiguous_strides(shape), 0), -1, -2);
    } else {
        c.tensor = transpose(empty(shape, dtype), -1, -2);
    }
    c.rows = static_cast<int>(rows);
    c.cols = static_cast<int>(cols);
    return c;
}
Columns to_columns(const Tensor& a, const Dims& batch) {
    Columns c = empty_columns(batch, a.size(-2), a.size(-1), a.dtype());
    cpu::copy(c.tensor, expand(a, c.tensor.shape()));
    return c;
}
Columns to_columns(const Tensor& a) { return to_columns(a, batch_of(a)); }

std::vector<int64_t> batch_map(const Dims& batch, const Dims& own) {
    std::vector<int64_t> map(static_cast<size_t>(checked_numel(batch)));
    Dims strides = contiguous_strides(own);
    int64_t extra = batch.size() - own.size();
    for (size_t i = 0; i < map.size(); i++) {
        int64_t rest = static_cast<int64_t>(i), at = 0;
        for (int64_t d = batch.size() - 1; d >= 0; d--) {
            int64_t index = rest % batch[d];
            rest /= batch[d];
            if (d >= extra && own[d - extra] != 1) at += index * strides[d - extra];
        }
        map[i] = at;
    }
    return map;
}

void check_info(const Tensor& info, const char* what) {
    const int* codes = info.data<int>();
    for (int64_t i = 0; i < info.numel(); i++) {
        if (codes[i] == 0) continue;
        std::string where = info.dim() ? "(Batch element " + std::to_string(i) + "): " : "";
        if (codes[i] < 0)
            fail(ErrorKind::LinAlg, where, "LAPACK refused argument ", -codes[i], "; are all values finite?");
        std::string text = what;
        for (size_t at; (at = text.find('#')) != std::string::npos;) text.replace(at, 1, std::to_string(codes[i]));
        fail(ErrorKind::LinAlg, where, text);
    }
}

namespace {

template <class T>
int getrf(int m, int n, T* a, int lda, int* pivots) {
    if constexpr (is_complex_type<T>) return lapack::getrf(m, n, a, lda, pivots);
    else return lapack::factor_lu<T>(m, n, a, lda, pivots);
}

// A = L Lᴴ, lower triangle: panels by LAPACK, the rest by our own parallel product, cut at fixed places.
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
            Tensor conjugate = empty({w, below}, holder.dtype());
            const T* from = a + j + w + int64_t(j) * lda;
            for (int c = 0; c < w; c++) {
                for (int r = 0; r < below; r++)
                    conjugate.data<T>()[int64_t(c) * below + r] = std::conj(from[r + int64_t(c) * lda]);
            }
            right = conjugate;
        }
        for (int r = 0; r < below; r += 2 * width) {
            int rows = std::min(2 * width, below - r), cols = r + rows;
            cpu::gemm(part(j + w + r, j + w, rows, cols), narrow(left, 0, r, rows), narrow(right, 1, 0, cols),
                      Scalar(-1), Scalar(1));
        }
    }
    return 0;
}

}  // namespace

LU lu_factor(const Tensor& a) {
    LU lu;
    lu.factors = to_columns(a);
    Columns& c = lu.factors;
    int small = std::min(c.rows, c.cols);
    Dims batch = batch_of(a);
    lu.pivots = empty(with(batch, {small}), DType::I32);
    lu.info = zeros(batch, DType::I32);
    if (small == 0) return lu;
    cpu::prepare_blas();
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto one = [&](int64_t i) { return std::pair(c.at<T>(i), lu.pivots.data<int>() + i * small); };
        if (c.count < 4) {
            for (int64_t i = 0; i < c.count; i++) {
                auto [data, pivots] = one(i);
                lu.info.data<int>()[i] = getrf<T>(c.rows, c.cols, data, c.ld(), pivots);
            }
            return;
        }
        each_matrix(c.count, double(c.rows) * c.cols * small, [&](int64_t i) {
            auto [data, pivots] = one(i);
            lu.info.data<int>()[i] = getrf<T>(c.rows, c.cols, data, c.ld(), pivots);
        });
    });
    return lu;
}

Tensor cholesky_lower(const Tensor& a, const Tensor& info) {
    if (int64_t n = a.size(-1); n <= lapack::batch_most && a.numel() >= 4 * n * n && !is_complex(a.dtype())) {
        Tensor rows = contiguous(a);
        Columns c = empty_columns(batch_of(a), n, n, a.dtype());
        dispatch<float, double>(a.dtype(), "float32 or float64", [&](auto tag) {
            using T = typename decltype(tag)::type;
            lapack::cholesky_batch<T>(c.at<T>(0), rows.data<T>(), c.count, n, info.data<int>());
        });
        return c.tensor;
    }
    Columns c = to_columns(a);
    cpu::prepare_blas();
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
    return c.tensor;
}

}  // namespace fb
