// Depthwise convolutions of row-major images with stride 1. A band of rows is copied to scratch memory with its
// padding; there every output is a sum over numbers at fixed distances, even across the ends of rows, so one loop over
// the band computes them all. The invalid outputs at the ends of rows are not copied back.
#pragma GCC optimize("fp-contract=fast", "no-tree-loop-distribute-patterns")
#include <vector>

#include "backend/cpu/convolution.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

template <class T>
struct Vectors {
    typedef T V __attribute__((vector_size(32), aligned(alignof(T)), may_alias));
    static constexpr int64_t lanes = 32 / sizeof(T);
};
constexpr int64_t vectors = 8;  // computed together: enough sums to keep the multipliers busy
constexpr int64_t step = 64;    // numbers that they hold at most

// Rows are short: a call to memcpy would take longer.
template <class T>
inline void copy_row(T* to, const T* from, int64_t n) {
    using V = typename Vectors<T>::V;
    constexpr int64_t lanes = Vectors<T>::lanes;
    if (n < lanes) {
        for (int64_t i = 0; i < n; i++) to[i] = from[i];
        return;
    }
    for (int64_t i = 0; i + lanes < n; i += lanes)
        *reinterpret_cast<V*>(to + i) = *reinterpret_cast<const V*>(from + i);
    *reinterpret_cast<V*>(to + n - lanes) = *reinterpret_cast<const V*>(from + n - lanes);
}

// Maps planes of in_rows × in_columns to planes of rows × columns, with this padding.
struct Planes {
    int64_t in_rows, in_columns, rows, columns, above, left;
    int64_t pitch, reach;  // a row with its padding; number of extra rows in a band
    int64_t band;
    std::vector<int64_t> taps;  // their offsets

    Planes(const ConvShape& s, bool backwards)
        : in_rows(backwards ? s.out[1] : s.in[1]),
          in_columns(backwards ? s.out[2] : s.in[2]),
          rows(backwards ? s.in[1] : s.out[1]),
          columns(backwards ? s.in[2] : s.out[2]),
          above(s.padding[1]),
          left(s.padding[2]),
          reach((s.kernel[1] - 1) * s.dilation[1]) {
        int64_t across = (s.kernel[2] - 1) * s.dilation[2];
        if (backwards) above = reach - above, left = across - left;
        pitch = columns + across;
        band = std::clamp<int64_t>(std::max(4096 / pitch, reach), 1, rows);  // for the first-level cache
        for (int64_t a = 0; a < s.kernel[1]; a++)
            for (int64_t b = 0; b < s.kernel[2]; b++) taps.push_back(a * s.dilation[1] * pitch + b * s.dilation[2]);
    }
    // Loops run over whole steps, and read up to the last tap.
    int64_t results() const { return (band * pitch + step - 1) / step * step; }
    int64_t inputs() const { return results() + reach * pitch + pitch; }

    // Copies inputs for `count` rows of results from row `first` on into memory whose margins are zero.
    template <class T>
    void load(const T* plane, int64_t first, int64_t count, T* to) const {
        for (int64_t r = 0; r < count + reach; r++, to += pitch) {
            int64_t row = first - above + r;
            if (row < 0 || row >= in_rows) std::fill(to, to + pitch, T(0));
            else copy_row(to + left, plane + row * in_columns, in_columns);
        }
    }
};

// y[i] = start + the sum of weight * x[i + tap].
template <class T>
void sum_taps(T* y, const T* x, const std::vector<int64_t>& taps, const T* weights, T start, int64_t n) {
    using V = typename Vectors<T>::V;
    constexpr int64_t lanes = Vectors<T>::lanes;
    const size_t count = taps.size();
    const int64_t* tap = taps.data();
    for (int64_t i = 0; i < n; i += vectors * lanes) {
        V sum[vectors];
        for (V& s : sum) s = V{} + start;
        for (size_t t = 0; t < count; t++) {
            const T* from = x + i + tap[t];
            T w = weights[t];
#pragma GCC unroll 8
            for (int64_t v = 0; v < vectors; v++) sum[v] += w * *reinterpret_cast<const V*>(from + v * lanes);
        }
#pragma GCC unroll 8
        for (int64_t v = 0; v < vectors; v++) *reinterpret_cast<V*>(y + i + v * lanes) = sum[v];
    }
}

// sums[t] += g[i] * x[i + tap[t]] for this many taps at a time.
constexpr size_t together = 5;
template <class T>
void add_products(double* sums, const T* g, const T* x, const int64_t* tap, int64_t n) {
    using V = typename Vectors<T>::V;
    constexpr int64_t lanes = Vectors<T>::lanes;
    V low[together] = {}, high[together] = {};
    for (int64_t i = 0; i < n; i += 2 * lanes) {
        V a = *reinterpret_cast<const V*>(g + i), b = *reinterpret_cast<const V*>(g + i + lanes);
#pragma GCC unroll 5
        for (size_t t = 0; t < together; t++) {
            low[t] += a * *reinterpret_cast<const V*>(x + i + tap[t]);
            high[t] += b * *reinterpret_cast<const V*>(x + i + tap[t] + lanes);
        }
    }
    for (size_t t = 0; t < together; t++) {
        V both = low[t] + high[t];
        for (int64_t l = 0; l < lanes; l++) sums[t] += double(both[l]);
    }
}

template <class T>
void convolve_planes(const ConvShape& s, const Tensor& to, const Tensor& from, const Tensor& weight, const Tensor& bias,
                     bool backwards) {
    const Planes p(s, backwards);
    const size_t count = p.taps.size();
    const int64_t work = p.rows * p.pitch * int64_t(count);
    parallel_for(
        s.batch * s.in_channels, std::max<int64_t>(1, 2 * parallel_grain / work), [&](int64_t begin, int64_t end) {
            std::vector<T> inputs(static_cast<size_t>(p.inputs())), results(static_cast<size_t>(p.results())), w(count);
            for (int64_t i = begin; i < end; i++) {
                int64_t channel = i % s.in_channels;
                const T* own = weight.data<T>() + channel * int64_t(count);
                for (size_t t = 0; t < count; t++) w[t] = own[backwards ? count - 1 - t : t];
                T start = bias ? bias.data<T>()[channel] : T(0);
                const T* plane = from.data<T>() + i * p.in_rows * p.in_columns;
                T* y = to.data<T>() + i * p.rows * p.columns;
                for (int64_t first = 0; first < p.rows; first += p.band) {
                    int64_t rows = std::min(p.band, p.rows - first);
                    p.load(plane, first, rows, inputs.data());
                    sum_taps(results.data(), inputs.data(), p.taps, w.data(), start, rows * p.pitch);
                    for (int64_t r = 0; r < rows; r++)
                        copy_row(y + (first + r) * p.columns, results.data() + r * p.pitch, p.columns);
                }
            }
        });
}

template <class T>
void sum_weight_gradient(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x) {
    Planes p(s, false);
    const int64_t count = int64_t(p.taps.size()), work = p.rows * p.pitch * count;
    while (p.taps.size() % together) p.taps.push_back(0);  // padding taps, whose sums are not used
    const int64_t sums_each = int64_t(p.taps.size());
    Tensor table = empty({s.batch * s.in_channels, sums_each}, DType::F64, cpu_device);
    parallel_for(
        s.batch * s.in_channels, std::max<int64_t>(1, 2 * parallel_grain / work), [&](int64_t begin, int64_t end) {
            std::vector<T> inputs(static_cast<size_t>(p.inputs())), slopes(static_cast<size_t>(p.results()));
            for (int64_t i = begin; i < end; i++) {
                double* sums = table.data<double>() + i * sums_each;
                std::fill(sums, sums + sums_each, 0.0);
                const T *plane = x.data<T>() + i * p.in_rows * p.in_columns, *g = gy.data<T>() + i * p.rows * p.columns;
                for (int64_t first = 0; first < p.rows; first += p.band) {
                    int64_t rows = std::min(p.band, p.rows - first);
                    p.load(plane, first, rows, inputs.data());
                    for (int64_t r = 0; r < rows; r++)
                        copy_row(slopes.data() + r * p.pitch, g + (first + r) * p.columns, p.columns);
                    std::fill(slopes.data() + rows * p.pitch, slopes.data() + slopes.size(), T(0));
                    for (int64_t t = 0; t < sums_each; t += together)
                        add_products(sums + t, slopes.data(), inputs.data(), p.taps.data() + t, rows * p.pitch);
                }
            }
        });
    for (int64_t c = 0; c < s.in_channels; c++)
        for (int64_t t = 0; t < count; t++) {
            double all = 0;
            for (int64_t n = 0; n < s.batch; n++) all += table.data<double>()[(n * s.in_channels + c) * sums_each + t];
            gweight.data<T>()[c * count + t] = T(all);
        }
}

// Padding is multiplied as well: zero times a non-finite value is NaN.
template <class T>
bool finite(const Tensor& weight) {
    T sum = 0;
    for (int64_t i = 0; i < weight.numel(); i++) sum += 0 * weight.data<T>()[i];
    return sum == 0;
}

}  // namespace

bool depthwise_planes_fit(const ConvShape& s, DType d) {
    bool fits = (d == DType::F32 || d == DType::F64) && s.spatial < 3 && s.groups == s.in_channels &&
                s.out_channels == s.in_channels;
    for (int i = 1; i < 3; i++) {
        int64_t reach = (s.kernel[i] - 1) * s.dilation[i];
        fits = fits && s.stride[i] == 1 && s.padding[i] <= reach && s.in[i] + 2 * s.padding[i] - reach == s.out[i];
    }
    return fits;
}
bool depthwise_planes_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight,
                              const Tensor& bias) {
    return dispatch<float, double>(x.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (!finite<T>(weight)) return false;
        convolve_planes<T>(s, y, x, weight, bias, false);
        return true;
    });
}
bool depthwise_planes_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight) {
    return dispatch<float, double>(gx.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (!finite<T>(weight)) return false;
        convolve_planes<T>(s, gx, gy, weight, Tensor(), true);
        return true;
    });
}
bool depthwise_planes_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x) {
    return dispatch<float, double>(x.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        sum_weight_gradient<T>(s, gweight, gy, x);
        return finite<T>(gweight);
    });
}

}  // namespace fb::cpu
