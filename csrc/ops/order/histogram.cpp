// histc and bincount.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "ops/order/reduce.h"
#include "ops/table/common.h"

namespace fb {
namespace {

constexpr int64_t piece = 1 << 16;

// How far v lies between low and high, in bins. Neither the width of the range nor its product may overflow.
template <class T>
int64_t bin_between(T v, T low, T high, int64_t bins) {
    T width = high - low, scale = static_cast<T>(bins), part = (v - low) * scale / width;
    if (!std::isfinite(width * scale)) part = (v / 2 - low / 2) / (high / 2 - low / 2) * scale;
    return part >= 0 ? std::min(static_cast<int64_t>(part), bins - 1) : 0;
}

template <class T>
void count_in_bins(const T* x, int64_t n, int64_t bins, T low, T high, T* out) {
    int64_t pieces = (n + piece - 1) / piece;
    // One table per thread's share would do; one per piece keeps tables few and the sum the same.
    std::vector<int64_t> total(static_cast<size_t>(bins), 0);
    std::vector<std::vector<int64_t>> tables(
        static_cast<size_t>(std::max<int64_t>(1, std::min<int64_t>(pieces, num_threads()))));
    int64_t shares = static_cast<int64_t>(tables.size());
    parallel_for(shares, pieces > 1 ? 1 : shares, [&](int64_t begin, int64_t end) {
        for (int64_t s = begin; s < end; s++) {
            auto& table = tables[static_cast<size_t>(s)];
            table.assign(static_cast<size_t>(bins), 0);
            for (int64_t i = n * s / shares; i < n * (s + 1) / shares; i++) {
                T v = x[i];
                if (!(v >= low && v <= high)) continue;
                table[static_cast<size_t>(bin_between(v, low, high, bins))]++;
            }
        }
    });
    for (auto& table : tables) {
        for (int64_t b = 0; b < bins; b++) total[static_cast<size_t>(b)] += table[static_cast<size_t>(b)];
    }
    for (int64_t b = 0; b < bins; b++) out[b] = static_cast<T>(total[static_cast<size_t>(b)]);
}

// Bin of a value between the first and the last edge. Even edges: computed, then put right by at most a step or two.
template <class T>
int64_t bin_of(T v, const T* edges, int64_t bins, bool even) {
    if (!even) return std::min<int64_t>(std::upper_bound(edges, edges + bins + 1, v) - edges, bins) - 1;
    int64_t at = bin_between(v, edges[0], edges[bins], bins);
    while (at > 0 && v < edges[at]) at--;
    while (at < bins - 1 && v >= edges[at + 1]) at++;
    return at;
}

template <class T, class W>
void count_weighted(const T* x, int64_t n, const W* weights, W* out) {
    for (int64_t i = 0; i < n; i++) out[x[i]] += weights[i];
}

// Four tables side by side: neighbours that are equal do not wait for each other.
void count_plain(const int64_t* x, int64_t n, int64_t size, int64_t* out) {
    if (size > 4096 || n < 256) {
        for (int64_t i = 0; i < n; i++) out[x[i]]++;
        return;
    }
    std::vector<int64_t> table(static_cast<size_t>(4 * size), 0);
    int64_t *a = table.data(), *b = a + size, *c = b + size, *d = c + size;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        a[x[i]]++;
        b[x[i + 1]]++;
        c[x[i + 2]]++;
        d[x[i + 3]]++;
    }
    for (; i < n; i++) a[x[i]]++;
    for (int64_t k = 0; k < size; k++) out[k] = a[k] + b[k] + c[k] + d[k];
}

}  // namespace

OP("histc(Tensor input, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", COMMON,
   R"(Counts elements in bins of equal width.

Elements outside the range, and NaN, are not counted.

Args:
    input: a floating point tensor.
    bins: number of bins.
    min: lower end of the range.
    max: upper end, counted in the last bin. Both ends 0: smallest and largest element.

Example:
    >>> fb.histc(fb.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
)") {
    const Tensor& t = a.tensor(0);
    if (!is_floating(t.dtype())) fail_type("expected a floating point dtype, got ", t.dtype());
    int64_t bins = a.integer(1);
    check(bins > 0, "bins must be positive, got ", bins);
    double low = a.number(2), high = a.number(3);
    check(low <= high, "max must not be below min, got min ", low, " and max ", high);
    if (low == high && t.numel()) {
        auto [least, most] = aminmax(t);
        low = item(least).re;
        high = item(most).re;
    }
    check(std::isfinite(low) && std::isfinite(high), "the range [", low, ", ", high, "] is not finite");
    if (low == high) {
        low -= 1;
        high += 1;
    }
    DType compute = compute_dtype(t.dtype());
    Tensor in = contiguous(to_dtype(t, compute)), out = zeros({bins}, compute, t.device());
    dispatch<float, double>(compute, "a floating point dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        count_in_bins<T>(in.data<T>(), in.numel(), bins, static_cast<T>(low), static_cast<T>(high), out.data<T>());
    });
    return to_dtype(out, t.dtype());
}

OP("bincount(Tensor input, Tensor? weights=None, int minlength=0) -> Tensor", FUNCTION | METHOD,
   R"(How often each non-negative integer comes, or the sum of its weights.

Args:
    input: a 1-d tensor of non-negative integers.
    weights: a weight for each element.
    minlength: least size of the result.

Example:
    >>> fb.bincount(fb.tensor([0, 2, 2]))
    tensor([1, 0, 2])
)") {
    const Tensor& t = a.tensor(0);
    Tensor weights = a.tensor_or_none(1);
    int64_t least = a.integer(2);
    check(least >= 0, "minlength must not be negative, got ", least);
    if (!is_integral(t.dtype())) fail_type("only supports 1-d non-negative integral inputs, got ", t.dtype());
    check(t.dim() == 1 || t.numel() == 0, "only supports 1-d non-negative integral inputs, got shape ", t.shape());
    check(!weights || weights.shape() == t.shape(), "weights must have the shape of input, got ",
          weights ? weights.shape() : t.shape(), " and ", t.shape());
    int64_t size = least;
    Tensor x = contiguous(to_dtype(t, DType::I64));
    if (x.numel()) {
        auto [low, high] = aminmax(x);
        check(item(low).i >= 0, "only supports 1-d non-negative integral inputs, got ", item(low).i);
        check(item(high).i < INT64_MAX, "the value ", item(high).i, " is too large to count up to");
        size = std::max(size, item(high).i + 1);
    }
    if (!weights) {
        Tensor out = zeros({size}, DType::I64, t.device());
        count_plain(x.data<int64_t>(), x.numel(), size, out.data<int64_t>());
        return out;
    }
    if (is_complex(weights.dtype())) fail_type("weights must be real, got ", weights.dtype());
    bool single = weights.dtype() == DType::F32;
    Tensor w = contiguous(to_dtype(weights, single ? DType::F32 : DType::F64)),
           out = zeros({size}, w.dtype(), t.device());
    if (single) count_weighted(x.data<int64_t>(), x.numel(), w.data<float>(), out.data<float>());
    else count_weighted(x.data<int64_t>(), x.numel(), w.data<double>(), out.data<double>());
    return out;
}

OP("_bin_counts(Tensor input, Tensor edges, Tensor? weight=None, bool even=False) -> Tensor", FUNCTION,
   R"(Counts, or sums of weights, between ascending edges; the work behind histogram().

Args:
    input: a 1-d float32 or float64 tensor.
    edges: the edges, of the same dtype, at least two.
    weight: a weight for each element, of the same dtype.
    even: whether the edges lie at equal distances.
)") {
    Tensor x = contiguous(a.tensor(0)), edges = contiguous(a.tensor(1));
    Tensor weight = a.given(2) ? contiguous(a.tensor(2)) : Tensor();
    int64_t n = x.numel(), bins = edges.numel() - 1;
    check(bins >= 1 && edges.dtype() == x.dtype() && (!weight || (weight.numel() == n && weight.dtype() == x.dtype())),
          "expected at least two edges and as many weights as elements, all of one dtype");
    Tensor out = empty({bins}, x.dtype(), x.device());
    dispatch<float, double>(x.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T *v = x.data<T>(), *e = edges.data<T>(), *w = weight ? weight.data<T>() : nullptr;
        bool even = a.flag(3) && e[bins] > e[0];
        // Weights are added in order, by one thread; counts add up the same in any order.
        int64_t shares = w || n < piece ? 1 : num_threads();
        std::vector<std::vector<double>> tables(static_cast<size_t>(shares));
        parallel_for(shares, 1, [&](int64_t begin, int64_t end) {
            for (int64_t s = begin; s < end; s++) {
                auto& table = tables[static_cast<size_t>(s)];
                table.assign(static_cast<size_t>(bins), 0);
                for (int64_t i = n * s / shares; i < n * (s + 1) / shares; i++) {
                    if (!(v[i] >= e[0] && v[i] <= e[bins])) continue;
                    table[static_cast<size_t>(bin_of(v[i], e, bins, even))] += w ? static_cast<double>(w[i]) : 1.0;
                }
            }
        });
        for (int64_t b = 0; b < bins; b++) {
            double total = 0;
            for (auto& table : tables) total += table[static_cast<size_t>(b)];
            out.data<T>()[b] = static_cast<T>(total);
        }
    });
    return out;
}

}  // namespace fb
