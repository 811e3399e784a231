// amax, amin, aminmax: NaN wins.
#include "backend/cpu/reduce.h"
#include "backend/cpu/reduce_rows.h"

namespace fb::cpu {
namespace {

template <class X, bool largest>
using Extreme = RowOp<std::conditional_t<largest, row::Largest, row::Smallest>, X>;

// Both extremes: each block is read twice while it is in the cache.
template <class X>
struct MinMax {
    using Low = Extreme<X, false>;
    using High = Extreme<X, true>;
    using L = typename Low::L;
    using R = typename Low::R;
    struct Range {
        L low, high;
    };
    static void init(char* acc, int64_t n) {
        for (int64_t i = 0; i < n; i++) reinterpret_cast<Range*>(acc)[i] = {Low::unit(), High::unit()};
    }
    static void row(char* acc, const char* x, int64_t n) {
        Range& a = *reinterpret_cast<Range*>(acc);
        KernelOf<Low>::row(reinterpret_cast<char*>(&a.low), x, n);
        KernelOf<High>::row(reinterpret_cast<char*>(&a.high), x, n);
    }
    static void rows(char* acc, const char* x, int64_t stride, int64_t rows, int64_t cols) {
        constexpr int64_t width = 256;
        alignas(64) L low[width], high[width];
        Range* a = reinterpret_cast<Range*>(acc);
        for (int64_t first = 0; first < cols; first += width) {
            int64_t n = std::min(width, cols - first);
            for (int64_t j = 0; j < n; j++) {
                low[j] = a[first + j].low;
                high[j] = a[first + j].high;
            }
            gather_rows<Low>(low, x + first * static_cast<int64_t>(sizeof(X)), stride, rows, n);
            gather_rows<High>(high, x + first * static_cast<int64_t>(sizeof(X)), stride, rows, n);
            for (int64_t j = 0; j < n; j++) a[first + j] = {low[j], high[j]};
        }
    }
    static void merge(char* acc, const char* other, int64_t n) {
        Range* a = reinterpret_cast<Range*>(acc);
        const Range* b = reinterpret_cast<const Range*>(other);
        for (int64_t i = 0; i < n; i++) a[i] = {Low::join(a[i].low, b[i].low), High::join(a[i].high, b[i].high)};
    }
    static void finish(char* const* out, const char* acc, int64_t n, const void*) {
        const Range* a = reinterpret_cast<const Range*>(acc);
        for (int64_t i = 0; i < n; i++) {
            reinterpret_cast<R*>(out[0])[i] = static_cast<R>(a[i].low);
            reinterpret_cast<R*>(out[1])[i] = static_cast<R>(a[i].high);
        }
    }
};

DType as_read(DType d) { return d == DType::F16 ? DType::F32 : d; }

template <class F>
ReduceKernel dispatch_read(DType d, F&& f) {
    return dispatch<bool, FB_INTS, BFloat16, float, double>(as_read(d), "a real dtype", std::forward<F>(f));
}

}  // namespace

ReduceKernel extreme_kernel(DType d, bool largest) {
    return dispatch_read(d, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return largest ? KernelOf<Extreme<T, true>>::kernel() : KernelOf<Extreme<T, false>>::kernel();
    });
}

ReduceKernel aminmax_kernel(DType d) {
    return dispatch_read(d, [&](auto tag) {
        using T = typename decltype(tag)::type;
        using M = MinMax<T>;
        return ReduceKernel{
            dtype_of<T>(), dtype_of<typename M::R>(), sizeof(typename M::Range), 2, M::init, M::row, M::rows, M::merge,
            M::finish};
    });
}

}  // namespace fb::cpu
