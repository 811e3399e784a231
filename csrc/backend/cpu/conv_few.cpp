// Gradients of convolutions with few channels, as in first layers. Matrix products would pad their vectors with zeros
// or gather more than they multiply. Here the taps of a window's row are contiguous in a channels-last image, and a
// pixel of the result's gradient is multiplied by such runs.
#pragma GCC optimize("fp-contract=fast")
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/cpu/convolution.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

template <int lanes>
struct VectorOf {
    typedef float type __attribute__((vector_size(lanes * sizeof(float)), aligned(sizeof(float)), may_alias));
};
template <int lanes>
using Vector = typename VectorOf<lanes>::type;
#ifdef __AVX512F__
constexpr int widest = 16, longest = 24, sums_of_input = 24;  // lanes, taps and vectors that are summed in registers
#else
constexpr int widest = 8, longest = 12, sums_of_input = 12;
#endif

// A row of images: a pixel's channels side by side, and what the windows of its positions see.
struct Rows {
    const ConvShape& s;
    int64_t positions = s.out[0] * s.out[1], across = s.kernel[2] * s.in_channels;
    int64_t step = s.stride[2] * s.in_channels, margin = s.padding[2] * s.in_channels;
    int64_t source = s.in[2] * s.in_channels;
    // From the first tap of the first position to the last tap of the last one, or the end of the image.
    int64_t line = std::max(margin + source, (s.out[2] - 1) * step + across) + widest;

    // The row of the image that row (a, b) of the kernel sees from row `at` of an image's result, -1 outside.
    int64_t seen(int64_t at, int64_t a, int64_t b) const {
        int64_t z = at / s.out[1] * s.stride[0] - s.padding[0] + a * s.dilation[0];
        int64_t y = at % s.out[1] * s.stride[1] - s.padding[1] + b * s.dilation[1];
        return z >= 0 && z < s.in[0] && y >= 0 && y < s.in[1] ? z * s.in[1] + y : -1;
    }
};

// ---- weight --------------------------------------------------------------------------------------------------------

// sums[t] += g * x[t] over the pixels of a row, for as many channels of g as a vector has lanes.
template <int lanes, int taps>
void add_row(float* sums, int64_t channels, const float* g, const float* x, int64_t step, int64_t pixels) {
    using V = Vector<lanes>;
    V sum[taps] = {};
    for (int64_t i = 0; i < pixels; i++, g += channels, x += step) {
        V slope = *reinterpret_cast<const V*>(g);
#pragma GCC unroll 24
        for (int t = 0; t < taps; t++) sum[t] += slope * x[t];
    }
#pragma GCC unroll 24
    for (int t = 0; t < taps; t++) *reinterpret_cast<V*>(sums + t * channels) += sum[t];
}
using AddRow = void (*)(float*, int64_t, const float*, const float*, int64_t, int64_t);
template <int lanes, size_t... i>
AddRow pick_row(int64_t taps, std::index_sequence<i...>) {
    static constexpr AddRow table[] = {add_row<lanes, int(i) + 1>...};
    return table[taps - 1];
}

}  // namespace

bool few_channels_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x) {
    const int64_t in = s.in_channels, out = s.out_channels;
    bool fits = s.groups == 1 && (in <= 4 || (in <= 32 && out <= 32)) && out % 8 == 0 && s.dilation[2] == 1 &&
                s.kernel[2] > 1 && s.out[2] >= 8;
    if (!fits) return false;
    const Rows all{s};
    const int64_t kernel_rows = s.kernel[0] * s.kernel[1], taps = kernel_rows * all.across;
    const int lanes = out % widest == 0 ? widest : 8;
    AddRow add[longest + 1] = {};
    for (int t = 1; t <= longest; t++)
        add[t] = lanes == widest ? pick_row<widest>(t, std::make_index_sequence<longest>())
                                 : pick_row<8>(t, std::make_index_sequence<longest>());
    // Bands of rows, split at places that depend on the shape only, have separate sums.
    const int64_t rows = s.batch * all.positions, pieces = (all.across + longest - 1) / longest;
    const int64_t bands = std::clamp<int64_t>((int64_t(1) << 20) / (taps * out), 1, std::min<int64_t>(rows, 64));
    const int64_t work = rows / bands * s.out[2] * taps * out / lanes;
    Tensor table = empty({bands, taps, out}, DType::F32, cpu_device);
    parallel_for(bands, std::max<int64_t>(1, parallel_grain / work), [&](int64_t begin, int64_t end) {
        std::vector<float> line(static_cast<size_t>(all.line));  // a row of x with zeros before and after it
        for (int64_t band = begin; band < end; band++) {
            float* sums = table.data<float>() + band * taps * out;
            std::fill(sums, sums + taps * out, 0.0f);
            for (int64_t at = rows * band / bands; at < rows * (band + 1) / bands; at++) {
                const float* g = gy.data<float>() + at * s.out[2] * out;
                const float* image = x.data<float>() + at / all.positions * s.in[0] * s.in[1] * all.source;
                for (int64_t r = 0; r < kernel_rows; r++) {
                    int64_t row = all.seen(at % all.positions, r / s.kernel[1], r % s.kernel[1]);
                    if (row < 0) continue;
                    std::memcpy(line.data() + all.margin, image + row * all.source,
                                static_cast<size_t>(all.source) * sizeof(float));
                    for (int64_t piece = 0; piece < pieces; piece++) {
                        int64_t t = all.across * piece / pieces, next = all.across * (piece + 1) / pieces;
                        for (int64_t o = 0; o < out; o += lanes)
                            add[next - t](sums + (r * all.across + t) * out + o, out, g + o, line.data() + t, all.step,
                                          s.out[2]);
                    }
                }
            }
        }
    });
    // (bands, rows, columns, in, out) to (out, in, rows, columns).
    std::atomic<bool> finite{true};
    parallel_for(taps, std::max<int64_t>(1, parallel_grain / (bands * out)), [&](int64_t begin, int64_t end) {
        std::vector<double> sums(static_cast<size_t>(out));
        double bad = 0;
        for (int64_t t = begin; t < end; t++) {
            std::fill(sums.begin(), sums.end(), 0.0);
            for (int64_t band = 0; band < bands; band++)
                for (int64_t o = 0; o < out; o++)
                    sums[static_cast<size_t>(o)] += double(table.data<float>()[(band * taps + t) * out + o]);
            float* to = gweight.data<float>() + t % in * s.taps() + t / in;
            for (int64_t o = 0; o < out; o++) to[o * in * s.taps()] = float(sums[static_cast<size_t>(o)]);
            for (double sum : sums) bad += 0 * sum;
        }
        if (bad != 0) finite = false;
    });
    // Zeros beside the image make NaN of slopes that are not finite.
    return finite || s.padding[2] == 0;
}

// ---- input ---------------------------------------------------------------------------------------------------------

namespace {

// line[i * step …] += the sum over the channels of g at pixel i times their runs of weights, of `across` numbers in
// vectors. What vectors have beyond them is dropped: it would be NaN where a channel of g is infinite.
template <int vectors>
void spread_row(float* line, int64_t step, const float* g, int64_t channels, const float* weight, int64_t across,
                int64_t pixels) {
    using V = Vector<widest>;
    constexpr int together = std::max(1, sums_of_input / vectors);
    const int64_t rest = across - (vectors - 1) * widest;
    auto some = [&]<int count>(std::integral_constant<int, count>, int64_t i) {
        V sum[count][vectors] = {};
        const float* w = weight;
        for (int64_t o = 0; o < channels; o++, w += vectors * widest) {
            V row[vectors];
            std::memcpy(row, w, sizeof row);
#pragma GCC unroll 24
            for (int p = 0; p < count; p++)
#pragma GCC unroll 8
                for (int v = 0; v < vectors; v++) sum[p][v] += row[v] * g[(i + p) * channels + o];
        }
#pragma GCC unroll 24
        for (int p = 0; p < count; p++) {
            float* to = line + (i + p) * step;
#pragma GCC unroll 8
            for (int v = 0; v + 1 < vectors; v++) *reinterpret_cast<V*>(to + v * widest) += sum[p][v];
            float last[widest];
            std::memcpy(last, &sum[p][vectors - 1], sizeof last);
            for (int64_t k = 0; k < rest; k++) to[(vectors - 1) * widest + k] += last[k];
        }
    };
    int64_t i = 0;
    for (; i + together <= pixels; i += together) some(std::integral_constant<int, together>(), i);
    for (; i < pixels; i++) some(std::integral_constant<int, 1>(), i);
}
using SpreadRow = void (*)(float*, int64_t, const float*, int64_t, const float*, int64_t, int64_t);
constexpr SpreadRow spread[] = {spread_row<1>, spread_row<2>, spread_row<3>,
                                spread_row<4>, spread_row<5>, spread_row<6>};

}  // namespace

bool few_channels_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight) {
    const int64_t in = s.in_channels, out = s.out_channels;
    const Rows all{s};
    const int64_t vectors = (all.across + widest - 1) / widest, run = vectors * widest;
    bool fits = s.groups == 1 && in <= 4 && s.dilation[2] == 1 && s.kernel[2] > 1 && s.out[2] >= 8 &&
                vectors <= static_cast<int64_t>(std::size(spread)) && 2 * all.across > run;
    if (!fits) return false;
    // Runs of weights: (rows of the kernel, out, columns and channels).
    const int64_t kernel_rows = s.kernel[0] * s.kernel[1];
    Tensor packed = empty({kernel_rows, out, run}, DType::F32, cpu_device);
    std::fill_n(packed.data<float>(), packed.numel(), 0.0f);
    for (int64_t o = 0; o < out; o++)
        for (int64_t c = 0; c < in; c++)
            for (int64_t t = 0; t < s.taps(); t++)
                packed.data<float>()[(t / s.kernel[2] * out + o) * run + t % s.kernel[2] * in + c] =
                    weight.data<float>()[(o * in + c) * s.taps() + t];
    // Every row of the input collects what reaches it.
    const int64_t image_rows = s.in[0] * s.in[1], work = s.out[2] * kernel_rows * out * vectors;
    parallel_for(s.batch * image_rows, std::max<int64_t>(1, parallel_grain / work), [&](int64_t begin, int64_t end) {
        std::vector<float> line(static_cast<size_t>(all.line));
        for (int64_t at = begin; at < end; at++) {
            std::fill(line.begin(), line.end(), 0.0f);
            int64_t image = at / image_rows, z = at % image_rows / s.in[1], y = at % s.in[1];
            for (int64_t r = 0; r < kernel_rows; r++) {
                int64_t from_z = z + s.padding[0] - r / s.kernel[1] * s.dilation[0];
                int64_t from_y = y + s.padding[1] - r % s.kernel[1] * s.dilation[1];
                if (from_z < 0 || from_y < 0 || from_z % s.stride[0] != 0 || from_y % s.stride[1] != 0) continue;
                from_z /= s.stride[0], from_y /= s.stride[1];
                if (from_z >= s.out[0] || from_y >= s.out[1]) continue;
                int64_t row = (image * s.out[0] + from_z) * s.out[1] + from_y;
                spread[vectors - 1](line.data(), all.step, gy.data<float>() + row * s.out[2] * out, out,
                                    packed.data<float>() + r * out * run, all.across, s.out[2]);
            }
            std::memcpy(gx.data<float>() + at * all.source, line.data() + all.margin,
                        static_cast<size_t>(all.source) * sizeof(float));
        }
    });
    return true;
}

}  // namespace fb::cpu
