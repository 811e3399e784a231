// unique and unique_consecutive: of elements, or of slices along a dimension.
#include <numeric>

#include "base/parallel.h"
#include "ops/common.h"
#include "ops/sort_key.h"

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

// Groups of neighbours: place(i) is where the i-th in order stands, equal(i, j) compares two places.
template <class Place, class Equal>
std::vector<int64_t> group(int64_t n, Place place, Equal equal, int64_t* inverse) {
    std::vector<int64_t> starts;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = place(i);
        if (i == 0 || !equal(place(i - 1), at)) starts.push_back(i);
        if (inverse) inverse[at] = static_cast<int64_t>(starts.size()) - 1;
    }
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

// First elements of runs, without a branch on the data.
template <class T>
Tensor runs(const T* x, int64_t n, DType dtype) {
    int64_t changes = 0;
    for (int64_t i = 1; i < n; i++) changes += !same(x[i], x[i - 1]);
    Tensor values = empty({n ? changes + 1 : 0}, dtype);
    if (n == 0) return values;
    T* y = values.data<T>();
    *y = x[0];
    for (int64_t i = 1, at = 0; at < changes; i++) {
        bool change = !same(x[i], x[i - 1]);
        at += change;
        if (change) y[at] = x[i];
    }
    return values;
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
        if (!ordered && !inverse && !counts) {
            result.values = runs<T>(x, n, t.dtype());
            return;
        }
        SortScratch scratch;
        if (ordered && n) sort_order<T>(x, n, false, scratch, true);
        const uint64_t* a = scratch.a.data();
        auto place = [&](int64_t i) { return ordered ? static_cast<int64_t>(a[i] & 0xffffffffu) : i; };
        auto equal = [&](int64_t p, int64_t q) { return same(x[p], x[q]); };
        std::vector<int64_t> starts = group(n, place, equal, inverse ? result.inverse.data<int64_t>() : nullptr);
        int64_t u = static_cast<int64_t>(starts.size());
        result.values = empty({u}, t.dtype());
        for (int64_t i = 0; i < u; i++) result.values.data<T>()[i] = x[place(starts[static_cast<size_t>(i)])];
        if (counts) result.counts = counts_of(starts, n);
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
        std::vector<int64_t> starts = group(n, place, equal, inverse ? result.inverse.data<int64_t>() : nullptr);
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
