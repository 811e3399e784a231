// Builds a ReduceKernel from a small description of an operation:
//   T        element type, L  lane that accumulates elements, A  accumulator that combines lanes
//   unit()   neutral lane, step(lane, x), fold(lane, lane), neutral() accumulator, join(acc, acc), widen(lane),
//   result(acc, context)
#pragma once
#include "backend/cpu/reduce_driver.h"
#include "base/bool.h"

namespace fb::cpu {

// Total bytes of the lanes that accumulate a long row: enough to keep the adders busy, few enough to read memory in
// order.
#ifdef __AVX512F__
inline constexpr int64_t row_lanes = 512;
#else
inline constexpr int64_t row_lanes = 256;
#endif

// Accumulates rows × cols elements into cols lanes.
template <class Op>
inline void gather_rows(typename Op::L* __restrict lanes, const char* x, int64_t stride, int64_t rows, int64_t cols) {
    using S = Stored<typename Op::T>;
    using L = typename Op::L;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const S* __restrict a = reinterpret_cast<const S*>(x + r * stride);
        const S* __restrict b = reinterpret_cast<const S*>(x + (r + 1) * stride);
        const S* __restrict c = reinterpret_cast<const S*>(x + (r + 2) * stride);
        const S* __restrict d = reinterpret_cast<const S*>(x + (r + 3) * stride);
#pragma omp simd
        for (int64_t j = 0; j < cols; j++) {
            L l = Op::step(lanes[j], a[j]);
            l = Op::step(l, b[j]);
            l = Op::step(l, c[j]);
            lanes[j] = Op::step(l, d[j]);
        }
    }
    for (; r < rows; r++) {
        const S* __restrict a = reinterpret_cast<const S*>(x + r * stride);
#pragma omp simd
        for (int64_t j = 0; j < cols; j++) lanes[j] = Op::step(lanes[j], a[j]);
    }
}

// Folds the halves of the lanes together, until `left` are left.
template <class Op, int64_t width, int64_t left>
inline void fold_halves(typename Op::L* lanes) {
    if constexpr (width > left) {
#pragma omp simd
        for (int64_t j = 0; j < width / 2; j++) lanes[j] = Op::fold(lanes[j], lanes[j + width / 2]);
        fold_halves<Op, width / 2, left>(lanes);
    }
}

// Accumulates n contiguous elements, one lane per element of a short row, then folds them into the first `left` lanes.
template <class Op, int64_t width, int64_t left>
inline void gather_row(typename Op::L* to, const Stored<typename Op::T>* x, int64_t n) {
    alignas(64) typename Op::L lanes[width];
    for (int64_t j = 0; j < width; j++) lanes[j] = Op::unit();
    int64_t rows = n / width;
    gather_rows<Op>(lanes, reinterpret_cast<const char*>(x), width * static_cast<int64_t>(sizeof(*x)), rows, width);
    const Stored<typename Op::T>* rest = x + rows * width;
    int64_t tail = n - rows * width;
#pragma omp simd
    for (int64_t j = 0; j < tail; j++) lanes[j] = Op::step(lanes[j], rest[j]);
    fold_halves<Op, width, left>(lanes);
    for (int64_t j = 0; j < left; j++) to[j] = lanes[j];
}

// Note [Lines of reductions]: the same for one of many rows, which may begin at any address. Vectors of 32 bytes cross
// half as many cache lines as those of 64 bytes, and few lanes leave room to read ahead: float32 rows of 2051 elements
// in the last-level cache 185 -> 155 us, rows of 2048 182 -> 146 us (AMD Zen 4, one thread).
template <class Op, int64_t lanes, int64_t left>
inline void gather_line(typename Op::L* to, const Stored<typename Op::T>* __restrict x, int64_t n) {
    // Halves take half the space of their lanes.
    constexpr int vector = (sizeof(*x) < sizeof(typename Op::L) ? 64 : 32) / sizeof(typename Op::L);
    alignas(64) typename Op::L sums[lanes];
    for (int64_t j = 0; j < lanes; j++) sums[j] = Op::unit();
    int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
#pragma omp simd simdlen(vector)
        for (int64_t j = 0; j < lanes; j++) {
            typename Op::L l = Op::step(sums[j], x[i + j]);
            l = Op::step(l, x[i + lanes + j]);
            l = Op::step(l, x[i + 2 * lanes + j]);
            sums[j] = Op::step(l, x[i + 3 * lanes + j]);
        }
    }
    for (; i < n; i += lanes) {
        int64_t some = std::min(lanes, n - i);
#pragma omp simd simdlen(vector)
        for (int64_t j = 0; j < some; j++) sums[j] = Op::step(sums[j], x[i + j]);
    }
    fold_halves<Op, lanes, left>(sums);
    for (int64_t j = 0; j < left; j++) to[j] = sums[j];
}

// Folds adjacent lanes together, n lanes to n / 2, until `left` are left.
template <class Op, int64_t n, int64_t left>
inline void fold_neighbours(const typename Op::L* __restrict from, typename Op::L* __restrict to) {
    if constexpr (n == 2 * left) {
        for (int64_t i = 0; i < left; i++) to[i] = Op::fold(from[2 * i], from[2 * i + 1]);
    } else {
        alignas(64) typename Op::L half[n / 2];
#pragma omp simd
        for (int64_t i = 0; i < n / 2; i++) half[i] = Op::fold(from[2 * i], from[2 * i + 1]);
        fold_neighbours<Op, n / 2, left>(half, to);
    }
}

template <class Op>
struct KernelOf {
    using T = typename Op::T;
    using S = Stored<T>;
    using L = typename Op::L;
    using A = typename Op::A;
    using R = typename Op::R;

    static void init(char* acc, int64_t n) {
        A* a = reinterpret_cast<A*>(acc);
        for (int64_t i = 0; i < n; i++) a[i] = Op::neutral();
    }
    static constexpr int64_t width = row_lanes / static_cast<int64_t>(sizeof(L));

    static void row(char* acc, const char* p, int64_t n) {
        A& a = *reinterpret_cast<A*>(acc);
        const S* x = reinterpret_cast<const S*>(p);
        L lane = Op::unit();
        if (n >= 16 * width) gather_row<Op, width, 1>(&lane, x, n);
        else if (n >= width) gather_row<Op, width / 2, 1>(&lane, x, n);
        else if (n >= 16) gather_row<Op, 16, 1>(&lane, x, n);
        else
            for (int64_t i = 0; i < n; i++) lane = Op::step(lane, x[i]);
        a = Op::join(a, Op::widen(lane));
    }
    // Sixteen rows at a time with sixteen lanes each; then all lanes are folded together.
    static void lines(char* acc, const char* x, int64_t stride, int64_t count, int64_t n) {
        constexpr int64_t group = 16, few = 16;
        int64_t whole = n >= few ? count / group * group : 0;
        for (int64_t first = 0; first < whole; first += group) {
            alignas(64) L lanes[group * few], folded[group];
            for (int64_t r = 0; r < group; r++) {
                const S* __restrict p = reinterpret_cast<const S*>(x + (first + r) * stride);
                L* __restrict to = lanes + r * few;
                if (n > 16 * few) {
                    gather_line<Op, std::max<int64_t>((sizeof(S) < sizeof(L) ? 256 : 128) / sizeof(L), few), few>(to, p,
                                                                                                                  n);
                    continue;
                }
#pragma omp simd
                for (int64_t j = 0; j < few; j++) to[j] = Op::step(Op::unit(), p[j]);
                int64_t i = few;
                for (; i + few <= n; i += few) {
#pragma omp simd
                    for (int64_t j = 0; j < few; j++) to[j] = Op::step(to[j], p[i + j]);
                }
                for (int64_t j = 0; i + j < n; j++) to[j] = Op::step(to[j], p[i + j]);
            }
            fold_neighbours<Op, group * few, group>(lanes, folded);
            A* a = reinterpret_cast<A*>(acc) + first;
            for (int64_t r = 0; r < group; r++) a[r] = Op::join(a[r], Op::widen(folded[r]));
        }
        for (int64_t i = whole; i < count; i++) row(acc + i * static_cast<int64_t>(sizeof(A)), x + i * stride, n);
    }
    static void rows(char* acc, const char* x, int64_t stride, int64_t rows, int64_t cols) {
        A* __restrict a = reinterpret_cast<A*>(acc);
        if constexpr (std::is_same_v<A, L>) {
            gather_rows<Op>(a, x, stride, rows, cols);
        } else {
            constexpr int64_t width = 512;
            alignas(64) L lanes[width];
            for (int64_t first = 0; first < cols; first += width) {
                int64_t n = std::min(width, cols - first);
                for (int64_t j = 0; j < n; j++) lanes[j] = Op::unit();
                gather_rows<Op>(lanes, x + first * static_cast<int64_t>(sizeof(T)), stride, rows, n);
#pragma omp simd
                for (int64_t j = 0; j < n; j++) a[first + j] = Op::join(a[first + j], Op::widen(lanes[j]));
            }
        }
    }
    static void merge(char* acc, const char* other, int64_t n) {
        A* __restrict a = reinterpret_cast<A*>(acc);
        const A* __restrict b = reinterpret_cast<const A*>(other);
        for (int64_t i = 0; i < n; i++) a[i] = Op::join(a[i], b[i]);
    }
    static void finish(char* const* out, const char* acc, int64_t n, const void* context) {
        R* __restrict y = reinterpret_cast<R*>(out[0]);
        const A* __restrict a = reinterpret_cast<const A*>(acc);
        for (int64_t i = 0; i < n; i++) y[i] = Op::result(a[i], context);
    }
    static constexpr ReduceKernel kernel() {
        return {dtype_of<T>(), dtype_of<R>(), sizeof(A), 1, init, row, rows, merge, finish, nullptr, lines};
    }
};

}  // namespace fb::cpu
