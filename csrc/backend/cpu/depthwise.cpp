// The gradient of a depthwise weight: a sum over pixels for each tap and channel. Channels-last, sixteen channels (one
// line of memory) at a time. Each image is summed by itself, so threads change no bit.
#pragma GCC optimize("fp-contract=fast")
#include <utility>
#include <vector>

#include "backend/cpu/onednn.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

constexpr int64_t lanes = 16, most_taps = 64;
constexpr int64_t wide = 8;
typedef float V __attribute__((vector_size(wide * sizeof(float)), aligned(sizeof(float)), may_alias));

// A rectangle of pixels, seen from the first.
struct Pixels {
    const float* at;
    int64_t step, row;
};

// sums[t] += g * x over rows × count pixels, for `taps` taps whose inputs lie `tap` apart.
template <int taps>
void add_pixels(float (*sums)[lanes], Pixels g, Pixels x, int64_t tap, int64_t rows, int64_t count) {
    V low[taps] = {}, high[taps] = {};
    for (int64_t r = 0; r < rows; r++, g.at += g.row, x.at += x.row) {
        const float *slopes = g.at, *from = x.at;
        for (int64_t i = 0; i < count; i++, slopes += g.step, from += x.step) {
            V slope = *reinterpret_cast<const V*>(slopes), other = *reinterpret_cast<const V*>(slopes + wide);
#pragma GCC unroll 3
            for (int t = 0; t < taps; t++) {
                low[t] += slope * *reinterpret_cast<const V*>(from + t * tap);
                high[t] += other * *reinterpret_cast<const V*>(from + t * tap + wide);
            }
        }
    }
#pragma GCC unroll 3
    for (int t = 0; t < taps; t++) {
        *reinterpret_cast<V*>(sums[t]) += low[t];
        *reinterpret_cast<V*>(sums[t] + wide) += high[t];
    }
}

// The outputs whose window puts tap `k` inside the input: [first, last).
struct Range {
    int64_t first, last;
    Range(const ConvShape& s, int d, int64_t k) {
        int64_t shift = s.padding[d] - k * s.dilation[d];  // input = output * stride - shift
        auto up = [&](int64_t n) { return n <= 0 ? 0 : (n + s.stride[d] - 1) / s.stride[d]; };
        first = std::min(up(shift), s.out[d]);
        last = std::clamp(up(shift + s.in[d]), first, s.out[d]);
    }
};

// One image: x and g at its first pixel and channel. A few rows at a time: they stay in the first-level cache while
// all taps pass, and sums are short.
void add_image(const ConvShape& s, const float* x, const float* g, float (*sums)[lanes]) {
    const int64_t channels = s.in_channels, taps_across = s.kernel[2];
    const int64_t band = std::max<int64_t>(1, 128 / std::max<int64_t>(1, s.out[2]));
    for (int64_t top = 0; top < s.out[1]; top += band) {
        for (int64_t a = 0; a < s.kernel[1]; a++) {
            Range inside(s, 1, a);
            int64_t first = std::max(top, inside.first), rows = std::min(top + band, inside.last) - first;
            if (rows <= 0) continue;
            int64_t row = first * s.stride[1] - s.padding[1] + a * s.dilation[1];
            // The taps from k on, over outputs [from, to) of every row.
            auto add = [&](auto run, int64_t k, int64_t from, int64_t to) {
                if (from >= to) return;
                int64_t column = from * s.stride[2] - s.padding[2] + k * s.dilation[2];
                run(sums + a * taps_across + k,
                    Pixels{g + (first * s.out[2] + from) * channels, channels, s.out[2] * channels},
                    Pixels{x + (row * s.in[2] + column) * channels, s.stride[2] * channels,
                           s.stride[1] * s.in[2] * channels},
                    s.dilation[2] * channels, rows, to - from);
            };
            for (int64_t k = 0; k < taps_across; k += 3) {
                int64_t taps = std::min<int64_t>(3, taps_across - k), from = 0, to = s.out[2];
                for (int64_t t = k; t < k + taps; t++) {
                    Range own(s, 2, t);
                    from = std::max(from, own.first), to = std::min(to, own.last);
                }
                to = std::max(from, to);
                add(taps == 3 ? add_pixels<3> : taps == 2 ? add_pixels<2> : add_pixels<1>, k, from, to);
                for (int64_t t = k; t < k + taps; t++) {  // where not all of them are inside
                    Range own(s, 2, t);
                    add(add_pixels<1>, t, own.first, std::min(own.last, from));
                    add(add_pixels<1>, t, std::max(own.first, to), own.last);
                }
            }
        }
    }
}

}  // namespace

bool depthwise_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x) {
    int64_t channels = s.in_channels, taps = s.kernel[1] * s.kernel[2];
    bool fits = s.groups == channels && s.out_channels == channels && channels % lanes == 0 && s.spatial < 3 &&
                taps <= most_taps;
    if (!fits) return false;
    int64_t groups = channels / lanes, pixels = s.out[1] * s.out[2];
    Tensor table = empty({s.batch, taps, channels}, DType::F32);
    float* sums = table.data<float>();
    int64_t grain = std::max<int64_t>(1, parallel_grain / (pixels * taps * 2));
    parallel_for(s.batch * groups, grain, [&](int64_t begin, int64_t end) {
        for (int64_t unit = begin; unit < end; unit++) {
            int64_t image = unit / groups, first = unit % groups * lanes;
            alignas(64) float own[most_taps][lanes] = {};
            add_image(s, x.data<float>() + image * s.in[1] * s.in[2] * channels + first,
                      gy.data<float>() + image * pixels * channels + first, own);
            for (int64_t t = 0; t < taps; t++)
                std::copy(own[t], own[t] + lanes, sums + (image * taps + t) * channels + first);
        }
    });
    std::vector<double> all(static_cast<size_t>(channels));
    for (int64_t t = 0; t < taps; t++) {
        std::fill(all.begin(), all.end(), 0);
        for (int64_t image = 0; image < s.batch; image++)
            for (int64_t c = 0; c < channels; c++) all[c] += double(sums[(image * taps + t) * channels + c]);
        for (int64_t c = 0; c < channels; c++) gweight.data<float>()[c * taps + t] = float(all[c]);
    }
    return true;
}

}  // namespace fb::cpu
