// Histograms.
#include "device/count.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"

namespace fb::cpu {
namespace {

constexpr int64_t piece = 1 << 16;

// The position of v between low and high, in bins. Neither the width of the range nor the product may overflow.
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

// The bin of a value between the first and the last edge. For even edges it is computed, then corrected by at most a
// step or two.
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

// Four tables at a time: equal neighbours do not wait for each other.
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

void bins(const Tensor& in, double low, double high, const Tensor& out) {
    dispatch<float, double>(in.dtype(), "a floating point dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        count_in_bins<T>(in.data<T>(), in.numel(), out.numel(), static_cast<T>(low), static_cast<T>(high),
                         out.data<T>());
    });
}

void integers(const Tensor& in, const Tensor& weights, const Tensor& out) {
    const int64_t* x = in.data<int64_t>();
    if (!weights) count_plain(x, in.numel(), out.numel(), out.data<int64_t>());
    else if (weights.dtype() == DType::F32) count_weighted(x, in.numel(), weights.data<float>(), out.data<float>());
    else count_weighted(x, in.numel(), weights.data<double>(), out.data<double>());
}

void between(const Tensor& x, const Tensor& edges, const Tensor& weight, bool evenly, const Tensor& out) {
    int64_t n = x.numel(), bins = out.numel();
    dispatch<float, double>(x.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T *v = x.data<T>(), *e = edges.data<T>(), *w = weight ? weight.data<T>() : nullptr;
        bool even = evenly && e[bins] > e[0];
        // Weights are summed in order, by one thread; counts can be added in any order.
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
}

const device::Provide<device::Counting> provided(DeviceType::CPU,
                                                 {.bins = bins, .integers = integers, .between = between});

}  // namespace
}  // namespace fb::cpu
