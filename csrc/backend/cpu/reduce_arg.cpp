// Indices of extremes: argmax, argmin, and max/min along a dimension. The first of equal values wins; the first NaN
// wins over all.
#include <cmath>
#include <limits>

#include "backend/cpu/loops.h"
#include "backend/cpu/reduce.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

constexpr int64_t block = 1024;

// Small types are converted to a type as wide as an index lane.
DType arg_dtype(DType d) {
    switch (d) {
        case DType::F16:
        case DType::BF16:
            return DType::F32;
        case DType::U32:
            return DType::I64;
        case DType::Bool:
        case DType::U8:
        case DType::I8:
        case DType::U16:
        case DType::I16:
            return DType::I32;
        default:
            return d;
    }
}

template <class T, bool largest>
inline bool beats(T x, T best) {
    if constexpr (std::is_floating_point_v<T>) return (largest ? x > best : x < best) | ((x != x) & (best == best));
    else return largest ? x > best : x < best;
}

template <class T>
struct Best {
    T value;
    int64_t index;
};

// The best of a short contiguous run: lanes find the value, a second pass finds its index.
template <class T, bool largest>
void search(Best<T>& best, const T* __restrict x, int64_t n, int64_t offset) {
    if (n < 32) {
        for (int64_t i = 0; i < n; i++) {
            if (beats<T, largest>(x[i], best.value)) best = {x[i], offset + i};
        }
        return;
    }
    constexpr int64_t width = 32;
    T lanes[width];
    for (int64_t j = 0; j < width; j++) lanes[j] = x[j];
    int64_t i = width;
    for (; i + width <= n; i += width) {
#pragma omp simd
        for (int64_t j = 0; j < width; j++) lanes[j] = beats<T, largest>(x[i + j], lanes[j]) ? x[i + j] : lanes[j];
    }
    for (; i < n; i++) lanes[0] = beats<T, largest>(x[i], lanes[0]) ? x[i] : lanes[0];
    T top = lanes[0];
    for (int64_t j = 1; j < width; j++) top = beats<T, largest>(lanes[j], top) ? lanes[j] : top;
    if (!beats<T, largest>(top, best.value)) return;
    int64_t at = 0;
    if (top != top) {
        while (x[at] == x[at]) at++;
    } else {
        while (x[at] != top) at++;
    }
    best = {x[at], offset + at};
}

struct Layout {
    const char* in;
    DType dtype;
    int64_t size, stride;  // of the searched dimension, in bytes
};

template <class T, bool largest>
Best<T> best_of_row(const Layout& l, const char* p, int64_t first, int64_t last) {
    alignas(64) T tile[block];
    bool direct = l.dtype == dtype_of<T>() && (l.stride == static_cast<int64_t>(sizeof(T)));
    Best<T> best;
    for (int64_t i = first; i < last; i += block) {
        int64_t n = std::min(block, last - i);
        const T* x = reinterpret_cast<const T*>(p + i * l.stride);
        if (!direct) {
            copy_strided(reinterpret_cast<char*>(tile), dtype_of<T>(), sizeof(T), p + i * l.stride, l.dtype, l.stride,
                         n);
            x = tile;
        }
        if (i == first) best = {x[0], first};
        search<T, largest>(best, x, n, i);
    }
    return best;
}

// `cols` adjacent columns searched together; the index lane is as wide as the value.
template <class T, bool largest>
void best_of_columns(const Layout& l, const char* p, int64_t col_stride, int64_t cols, T* __restrict values,
                     int64_t* __restrict indices) {
    using I = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    alignas(64) T tile[block];
    alignas(64) I at[block];
    bool direct = l.dtype == dtype_of<T>() && (col_stride == static_cast<int64_t>(sizeof(T)) || cols == 1);
    for (int64_t r = 0; r < l.size; r++) {
        const T* __restrict x = reinterpret_cast<const T*>(p + r * l.stride);
        if (!direct) {
            copy_strided(reinterpret_cast<char*>(tile), dtype_of<T>(), sizeof(T), p + r * l.stride, l.dtype, col_stride,
                         cols);
            x = tile;
        }
        if (r == 0) {
            for (int64_t j = 0; j < cols; j++) {
                values[j] = x[j];
                at[j] = 0;
            }
            continue;
        }
        I row = static_cast<I>(r);
#pragma omp simd
        for (int64_t j = 0; j < cols; j++) {
            bool take = beats<T, largest>(x[j], values[j]);
            values[j] = take ? x[j] : values[j];
            at[j] = take ? row : at[j];
        }
    }
    for (int64_t j = 0; j < cols; j++) indices[j] = at[j];
}

// Few columns, contiguous rows: several rows are searched as one wide row, and the results merged afterwards.
template <class T, bool largest>
void best_of_narrow(const Layout& l, const char* p, int64_t cols, T* values, int64_t* indices) {
    int64_t k = 256 / cols, wide = k * cols;
    T best[256];
    int64_t at[256];
    Layout rows{p, l.dtype, l.size / k, wide * static_cast<int64_t>(sizeof(T))};
    best_of_columns<T, largest>(rows, p, sizeof(T), wide, best, at);
    for (int64_t c = 0; c < cols; c++) {
        values[c] = best[c];
        indices[c] = at[c] * k;
        for (int64_t j = 1; j < k; j++) {
            T x = best[j * cols + c];
            int64_t place = at[j * cols + c] * k + j;
            bool tie = x == values[c] || (x != x && values[c] != values[c]);
            if (beats<T, largest>(x, values[c]) || (tie && place < indices[c])) {
                values[c] = x;
                indices[c] = place;
            }
        }
        for (int64_t r = rows.size * k; r < l.size; r++) {
            T x = reinterpret_cast<const T*>(p)[r * cols + c];
            if (beats<T, largest>(x, values[c])) {
                values[c] = x;
                indices[c] = r;
            }
        }
    }
}

struct KeptAxis {
    int64_t size, in, values, indices;
};

template <class T, bool largest>
void extreme_along_dim(const Tensor& in, int64_t dim, const Tensor& values, const Tensor& indices) {
    Layout l{in.raw(), in.dtype(), in.dim() ? in.shape()[dim] : 1, in.dim() ? in.strides()[dim] * in.itemsize() : 0};
    // Kept dimensions, smallest input stride first.
    KeptAxis axes[max_dims];
    int n = 0;
    for (int64_t d = 0; d < in.dim(); d++) {
        if (d == dim || in.shape()[d] == 1) continue;
        int64_t own = indices.dim() == in.dim() || d < dim ? d : d - 1;
        KeptAxis a{in.shape()[d], in.strides()[d] * in.itemsize(),
                   values ? values.strides()[own] * values.itemsize() : 0, indices.strides()[own] * 8};
        int at = n++;
        while (at > 0 && std::abs(axes[at - 1].in) >= std::abs(a.in)) {
            axes[at] = axes[at - 1];
            at--;
        }
        axes[at] = a;
    }
    int merged = n ? 0 : -1;
    for (int i = 1; i < n; i++) {
        KeptAxis &a = axes[merged], &b = axes[i];
        if (b.in == a.in * a.size && b.values == a.values * a.size && b.indices == a.indices * a.size) a.size *= b.size;
        else axes[++merged] = b;
    }
    if (merged < 0) axes[++merged] = {1, 0, 0, 0};
    n = merged + 1;
    bool columns = axes[0].size > 1 && (std::abs(axes[0].in) < std::abs(l.stride) || l.size < 8) && l.size < INT32_MAX;
    bool narrow = columns && l.dtype == dtype_of<T>() && axes[0].in == static_cast<int64_t>(sizeof(T)) &&
                  axes[0].size <= 32 && l.stride == axes[0].size * static_cast<int64_t>(sizeof(T)) && l.size >= 1024;
    int64_t width = columns ? std::min(block, axes[0].size) : std::min<int64_t>(64, axes[0].size);
    int64_t per_axis = (axes[0].size + width - 1) / width, batches = per_axis;
    for (int d = 1; d < n; d++) batches *= axes[d].size;

    // One long row: blocks at fixed places; the first best block wins.
    constexpr int64_t piece = 16 * block;
    if (indices.numel() == 1 && l.size > 4 * piece) {
        int64_t pieces = (l.size + piece - 1) / piece;
        std::vector<Best<T>> found(static_cast<size_t>(pieces));
        parallel_for(pieces, 2, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; i++)
                found[static_cast<size_t>(i)] =
                    best_of_row<T, largest>(l, l.in, i * piece, std::min(l.size, (i + 1) * piece));
        });
        Best<T> best = found[0];
        for (const Best<T>& b : found) {
            if (beats<T, largest>(b.value, best.value)) best = b;
        }
        *indices.data<int64_t>() = best.index;
        if (values)
            copy_strided(values.raw(), values.dtype(), 0, reinterpret_cast<char*>(&best.value), dtype_of<T>(), 0, 1);
        return;
    }

    int64_t work = std::max<int64_t>(1, in.numel() / batches);
    parallel_for(batches, std::max<int64_t>(1, parallel_grain / work), [&](int64_t begin, int64_t end) {
        alignas(64) T best[block];
        alignas(64) int64_t at[block];
        for (int64_t b = begin; b < end; b++) {
            int64_t first = b % per_axis * width, rest = b / per_axis;
            int64_t cols = std::min(width, axes[0].size - first);
            const char* p = l.in + first * axes[0].in;
            int64_t vo = first * axes[0].values, io = first * axes[0].indices;
            for (int d = 1; d < n; d++) {
                int64_t i = rest % axes[d].size;
                rest /= axes[d].size;
                p += i * axes[d].in;
                vo += i * axes[d].values;
                io += i * axes[d].indices;
            }
            if (narrow) {
                best_of_narrow<T, largest>(l, p, cols, best, at);
            } else if (columns) {
                best_of_columns<T, largest>(l, p, axes[0].in, cols, best, at);
            } else {
                for (int64_t j = 0; j < cols; j++) {
                    Best<T> one = best_of_row<T, largest>(l, p + j * axes[0].in, 0, l.size);
                    best[j] = one.value;
                    at[j] = one.index;
                }
            }
            if (values)
                copy_strided(values.raw() + vo, values.dtype(), axes[0].values, reinterpret_cast<char*>(best),
                             dtype_of<T>(), sizeof(T), cols);
            copy_strided(indices.raw() + io, DType::I64, axes[0].indices, reinterpret_cast<char*>(at), DType::I64, 8,
                         cols);
        }
    });
}

}  // namespace

void extreme_along(const Tensor& in, int64_t dim, bool largest, const Tensor& values, const Tensor& indices) {
    if (indices.numel() == 0) return;
    dispatch<int32_t, int64_t, uint64_t, float, double>(arg_dtype(in.dtype()), "a real dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (largest) extreme_along_dim<T, true>(in, dim, values, indices);
        else extreme_along_dim<T, false>(in, dim, values, indices);
    });
}

}  // namespace fb::cpu
