// The distinct elements, or slices along the first dimension.
#include <numeric>

#include "backend/cpu/search.h"
#include "backend/cpu/sort_key.h"
#include "base/parallel.h"

namespace fb::cpu {

using device::Distinct;

namespace {

template <class F>
void dispatch_comparable(DType d, F&& f) {
    dispatch<uint8_t, uint16_t, uint32_t, uint64_t, int8_t, int16_t, int32_t, int64_t, Half, BFloat16, float, double>(
        d == DType::Bool ? DType::U8 : d, "a real dtype", std::forward<F>(f));
}

template <class T>
bool same(T a, T b) {
    if constexpr (is_half_type<T>) return float(a) == float(b);
    else return a == b;
}

// The start of each run of equal neighbours; differs(i) compares element i with the one before it. Filled from the back
// without a data-dependent branch, so that the last write to a run's slot is its first element.
template <class Differs>
std::vector<int64_t> run_starts(int64_t n, Differs differs) {
    int64_t last = 0;
    for (int64_t i = 1; i < n; i++) last += differs(i);
    std::vector<int64_t> starts(static_cast<size_t>(n ? last + 1 : 0));
    for (int64_t i = n - 1; i > 0; i--) {
        starts[static_cast<size_t>(last)] = i;
        last -= differs(i);
    }
    if (n) starts[0] = 0;
    return starts;
}

Tensor counts_of(const std::vector<int64_t>& starts, int64_t n) {
    int64_t u = static_cast<int64_t>(starts.size());
    Tensor counts = empty({u}, DType::I64, cpu_device);
    for (int64_t i = 0; i < u; i++)
        counts.data<int64_t>()[i] =
            (i + 1 < u ? starts[static_cast<size_t>(i + 1)] : n) - starts[static_cast<size_t>(i)];
    return counts;
}

}  // namespace

Distinct distinct(const Tensor& t, bool ordered, bool inverse, bool counts) {
    int64_t n = t.numel();
    check(n < (int64_t(1) << 32), "more than 2^32 elements cannot be ordered, got ", n);
    Distinct result;
    if (inverse) result.inverse = empty(t.shape(), DType::I64, cpu_device);
    dispatch_comparable(t.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* x = t.data<T>();
        SortScratch scratch;
        // Gathered once, in parallel: comparing neighbours through their indices would miss the cache twice per
        // element.
        Tensor in_order = t;
        if (ordered && n) {
            sort_order<T>(x, n, false, scratch, true);
            in_order = empty({n}, t.dtype(), t.device());
            const uint64_t* order = scratch.a.data();
            T* y = in_order.data<T>();
            parallel_for(n, parallel_grain, [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; i++) y[i] = x[order[i] & 0xffffffffu];
            });
        }
        const T* y = in_order.data<T>();
        auto differs = [&](int64_t i) { return !same(y[i], y[i - 1]); };
        std::vector<int64_t> starts = run_starts(n, differs);
        int64_t u = static_cast<int64_t>(starts.size());
        result.values = empty({u}, t.dtype(), t.device());
        T* values = result.values.data<T>();
        for (int64_t i = 0; i < u; i++) values[i] = y[starts[static_cast<size_t>(i)]];
        if (counts) result.counts = counts_of(starts, n);
        if (inverse) {
            int64_t* to = result.inverse.data<int64_t>();
            const uint64_t* order = ordered && n ? scratch.a.data() : nullptr;
            for (int64_t i = 0, run = 0; i < n; i++) {
                run += i > 0 && differs(i);
                to[order ? static_cast<int64_t>(order[i] & 0xffffffffu) : i] = run;
            }
        }
    });
    return result;
}

Distinct distinct_slices(const Tensor& front, bool ordered, bool inverse, bool counts) {
    int64_t n = front.shape()[0], m = n ? front.numel() / n : 0;
    Distinct result;
    if (inverse) result.inverse = empty({n}, DType::I64, cpu_device);
    dispatch_comparable(front.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* x = front.data<T>();
        std::vector<int64_t> order(static_cast<size_t>(n));
        std::iota(order.begin(), order.end(), 0);
        if (ordered) {
            std::stable_sort(order.begin(), order.end(), [&](int64_t p, int64_t q) {
                for (int64_t i = 0; i < m; i++) {
                    auto kp = sort_key(x[p * m + i]), kq = sort_key(x[q * m + i]);
                    if (kp != kq) return kp < kq;
                }
                return false;
            });
        }
        auto place = [&](int64_t i) { return order[static_cast<size_t>(i)]; };
        auto equal = [&](int64_t p, int64_t q) {
            for (int64_t i = 0; i < m; i++) {
                if (!same(x[p * m + i], x[q * m + i])) return false;
            }
            return true;
        };
        auto differs = [&](int64_t i) { return !equal(place(i - 1), place(i)); };
        std::vector<int64_t> starts = run_starts(n, differs);
        if (inverse) {
            for (int64_t i = 0, run = 0; i < n; i++) {
                run += i > 0 && differs(i);
                result.inverse.data<int64_t>()[place(i)] = run;
            }
        }
        Dims shape = front.shape();
        shape[0] = static_cast<int64_t>(starts.size());
        Tensor values = empty(shape, front.dtype(), front.device());
        for (int64_t i = 0; i < shape[0]; i++)
            std::copy_n(x + place(starts[static_cast<size_t>(i)]) * m, m, values.data<T>() + i * m);
        result.values = values;
        if (counts) result.counts = counts_of(starts, n);
    });
    return result;
}

}  // namespace fb::cpu
