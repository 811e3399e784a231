// Linear recurrences. Sums run in double for float32.
#include <algorithm>

#include "backend/cpu/around_dim.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

constexpr int64_t tile = 256;  // columns at a time

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, std::conditional_t<std::is_same_v<T, c64>, c128, T>>;

// `cols` adjacent recurrences, whose elements are `stride` apart.
template <class T>
void chains(const T* x, const T* f, T* y, int64_t n, int64_t stride, int64_t cols, bool reverse) {
    Wide<T> run[tile];
    for (int64_t j = 0; j < cols; j++) run[j] = Wide<T>(0);
    for (int64_t k = 0; k < n; k++) {
        int64_t i = reverse ? n - 1 - k : k;
        const T* __restrict from = x + i * stride;
        T* __restrict to = y + i * stride;
        if (f && k) {
            const T* __restrict factor = f + (reverse ? i + 1 : i) * stride;
            for (int64_t j = 0; j < cols; j++) run[j] = Wide<T>(from[j]) + Wide<T>(factor[j]) * run[j];
        } else {
            for (int64_t j = 0; j < cols; j++) run[j] += Wide<T>(from[j]);
        }
        for (int64_t j = 0; j < cols; j++) to[j] = static_cast<T>(run[j]);
    }
}

// `rows` recurrences of n elements each; several at once, because each step depends on the previous one.
constexpr int64_t together = 8;
template <class T, int64_t rows>
void rows_at_once(const T* __restrict x, const T* __restrict f, T* __restrict y, int64_t n, bool reverse) {
    Wide<T> run[rows] = {};
    int64_t step = reverse ? -1 : 1, i = reverse ? n - 1 : 0, behind = reverse ? 1 : 0;
    for (int64_t k = 0; k < n; k++, i += step) {
        bool factors = f && k;
        for (int64_t j = 0; j < rows; j++) {
            if (factors) run[j] *= Wide<T>(f[j * n + i + behind]);
            run[j] += Wide<T>(x[j * n + i]);
            y[j * n + i] = static_cast<T>(run[j]);
        }
    }
}
template <class T>
void row_chains(const T* x, const T* f, T* y, int64_t count, int64_t n, bool reverse) {
    int64_t groups = (count + together - 1) / together;
    parallel_for(groups, std::max<int64_t>(1, parallel_grain / (4 * n * together)), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin * together; row < std::min(count, end * together); row += together) {
            const T *from = x + row * n, *factor = f ? f + row * n : nullptr;
            if (count - row >= together) {
                rows_at_once<T, together>(from, factor, y + row * n, n, reverse);
                continue;
            }
            for (int64_t j = 0; j < count - row; j++)
                rows_at_once<T, 1>(from + j * n, factor ? factor + j * n : nullptr, y + (row + j) * n, n, reverse);
        }
    });
}

}  // namespace

void linear_scan(const Tensor& in, const Tensor& factor, const Tensor& out, int64_t dim, bool reverse) {
    if (in.numel() == 0) return;
    AroundDim s = around(in, dim);
    dispatch<float, double, c64, c128>(in.dtype(), "a floating point or complex dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T *x = in.data<T>(), *f = factor ? factor.data<T>() : nullptr;
        T* y = out.data<T>();
        if (s.inner == 1) return row_chains<T>(x, f, y, s.outer, s.size, reverse);
        each_column_tile(s, tile, 4, [&](int64_t at, int64_t cols) {
            chains<T>(x + at, f ? f + at : nullptr, y + at, s.size, s.inner, cols, reverse);
        });
    });
}

}  // namespace fb::cpu
