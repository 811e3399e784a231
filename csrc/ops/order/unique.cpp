// unique and unique_consecutive: of elements, or of slices along a dimension.
#include <numeric>

#include "base/parallel.h"
#include "ops/order/sort_key.h"
#include "ops/table/common.h"

namespace fb {
namespace {

struct Unique {
    Tensor values, inverse, counts;
};

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

// Where each run of equal neighbours starts; differs(i) compares element i with the one before it. Filled from the back
// without a branch on the data, so that the last write to a run's slot is its first element.
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
    Tensor counts = empty({u}, DType::I64);
    for (int64_t i = 0; i < u; i++)
        counts.data<int64_t>()[i] =
            (i + 1 < u ? starts[static_cast<size_t>(i + 1)] : n) - starts[static_cast<size_t>(i)];
    return counts;
}

Unique unique_elements(const Tensor& t, bool ordered, bool inverse, bool counts) {
    Tensor flat = contiguous(t);
    int64_t n = t.numel();
    check(n < (int64_t(1) << 32), "more than 2^32 elements cannot be ordered, got ", n);
    Unique result;
    if (inverse) result.inverse = empty(t.shape(), DType::I64);
    dispatch_comparable(t.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* x = flat.data<T>();
        SortScratch scratch;
        // Gathered once, in parallel: comparing neighbours through their places would wait for memory twice per
        // element.
        Tensor in_order = flat;
        if (ordered && n) {
            sort_order<T>(x, n, false, scratch, true);
            in_order = empty({n}, t.dtype());
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
        result.values = empty({u}, t.dtype());
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

Unique unique_slices(const Tensor& t, int64_t dim, bool ordered, bool inverse, bool counts) {
    int64_t d = wrap_dim(dim, t.dim());
    check(t.dim() > 0, "a 0-d tensor has no dimension to look along");
    int64_t n = t.shape()[d];
    if (t.numel() == 0) {
        int64_t empty_dims = 0;
        for (int64_t size : t.shape()) empty_dims += size == 0;
        check(n == 0 && empty_dims == 1, "there are dimensions of size 0 that are not the one looked along, in shape ",
              t.shape());
    }
    Tensor front = contiguous(transpose(t, 0, d));
    int64_t m = n ? t.numel() / n : 0;
    Unique result;
    if (inverse) result.inverse = empty({n}, DType::I64);
    dispatch_comparable(t.dtype(), [&](auto tag) {
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
        Tensor values = empty(shape, t.dtype());
        for (int64_t i = 0; i < shape[0]; i++)
            std::copy_n(x + place(starts[static_cast<size_t>(i)]) * m, m, values.data<T>() + i * m);
        result.values = contiguous(transpose(values, 0, d));
        if (counts) result.counts = counts_of(starts, n);
    });
    return result;
}

Value run(const Tensor& given, bool ordered, bool inverse, bool counts, std::optional<int64_t> dim) {
    if (is_complex(given.dtype())) fail_type("complex numbers have no order, got ", given.dtype());
    bool truth = given.dtype() == DType::Bool;  // compared as the numbers 0 and 1
    Tensor t = truth ? to_dtype(given, DType::U8) : given;
    Unique u = dim ? unique_slices(t, *dim, ordered, inverse, counts) : unique_elements(t, ordered, inverse, counts);
    if (truth) u.values = reinterpret_view(u.values, DType::Bool, u.values.shape(), u.values.strides(), 0);
    if (!inverse && !counts) return u.values;
    std::vector<Tensor> results{u.values};
    if (inverse) results.push_back(u.inverse);
    if (counts) results.push_back(u.counts);
    return results;
}

}  // namespace

OP("unique(Tensor input, bool sorted=True, bool return_inverse=False, bool return_counts=False, int? dim=None) -> any",
   FUNCTION | METHOD, R"(The different elements, or the different slices along a dimension.

Args:
    input: a real tensor.
    sorted: whether the result is in ascending order; it always is here.
    return_inverse: give also, for each element, its index in the result.
    return_counts: give also how often each comes.
    dim: dimension along which slices are compared; elements when not given.

Returns:
    The values, or a tuple of values and what else was asked for.

Example:
    >>> fb.unique(fb.tensor([3, 1, 3, 2]))
    tensor([1, 2, 3])
    >>> fb.unique(fb.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
)") {
    return run(a.tensor(0), true, a.flag(2), a.flag(3), a.integer_or_none(4));
}

OP("unique_consecutive(Tensor input, bool return_inverse=False, bool return_counts=False, int? dim=None) -> any",
   FUNCTION | METHOD, R"(The elements, or slices along a dimension, with equal neighbours taken as one.

Args:
    input: a real tensor.
    return_inverse: give also, for each element, its index in the result.
    return_counts: give also how long each run is.
    dim: dimension along which slices are compared; elements of the flattened tensor when not given.

Returns:
    The values, or a tuple of values and what else was asked for.

Example:
    >>> fb.unique_consecutive(fb.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
)") {
    return run(a.tensor(0), false, a.flag(1), a.flag(2), a.integer_or_none(3));
}

}  // namespace fb
