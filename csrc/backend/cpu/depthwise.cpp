// The gradient of a depthwise weight: a sum over pixels for each tap and channel. Channels-last, sixteen channels (one
// cache line) at a time. A band of rows is copied to scratch memory with its padding first: lines whose distance is a
// power of two would evict each other from the cache. Each image is summed separately, so results do not depend on the
// number of threads.
#pragma GCC optimize("fp-contract=fast")
#include <vector>

#include "backend/cpu/convolution.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

constexpr int64_t lanes = 16, most_taps = 64;
constexpr int64_t wide = 8;
typedef float V __attribute__((vector_size(wide * sizeof(float)), aligned(sizeof(float)), may_alias));

// A rectangle of pixels, given by its first.
struct Pixels {
    const float* at;
    int64_t step, row;
};

// sums[a * taps_across + b] += g * x over rows × count pixels, for down × across taps whose inputs are `tap_row` and
// `tap` apart.
template <int down, int across>
void add_pixels(float (*sums)[lanes], int64_t taps_across, Pixels g, Pixels x, int64_t tap_row, int64_t tap,
                int64_t rows, int64_t count) {
    V sum[down][across] = {};
    for (int64_t r = 0; r < rows; r++, g.at += g.row, x.at += x.row) {
        const float *slopes = g.at, *from = x.at;
        for (int64_t i = 0; i < count; i++, slopes += g.step, from += x.step) {
            V slope = *reinterpret_cast<const V*>(slopes);
#pragma GCC unroll 3
            for (int a = 0; a < down; a++)
#pragma GCC unroll 3
                for (int b = 0; b < across; b++)
                    sum[a][b] += slope * *reinterpret_cast<const V*>(from + a * tap_row + b * tap);
        }
    }
#pragma GCC unroll 3
    for (int a = 0; a < down; a++)
#pragma GCC unroll 3
        for (int b = 0; b < across; b++) *reinterpret_cast<V*>(sums[a * taps_across + b]) += sum[a][b];
}
using Add = void (*)(float (*)[lanes], int64_t, Pixels, Pixels, int64_t, int64_t, int64_t, int64_t);
constexpr Add adders[3][3] = {{add_pixels<1, 1>, add_pixels<1, 2>, add_pixels<1, 3>},
                              {add_pixels<2, 1>, add_pixels<2, 2>, add_pixels<2, 3>},
                              {add_pixels<3, 1>, add_pixels<3, 2>, add_pixels<3, 3>}};

// Rows of the input that the windows of a band need, with their padding.
struct Band {
    const ConvShape& s;
    int64_t rows;   // of results
    int64_t pitch;  // pixels of a row
    std::vector<float> scratch;

    explicit Band(const ConvShape& s)
        : s(s), pitch((s.out[2] - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] + 1) {
        constexpr int64_t most = 512;  // lines, about what the first-level cache holds
        rows = std::clamp<int64_t>((most / pitch - (s.kernel[1] - 1) * s.dilation[1]) / s.stride[1], 1, s.out[1]);
        rows = std::max(rows, std::min(s.out[1], (s.kernel[1] - 1) * s.dilation[1]));
        scratch.resize(static_cast<size_t>(inputs(rows) * pitch * lanes));
    }
    int64_t inputs(int64_t count) const { return (count - 1) * s.stride[1] + (s.kernel[1] - 1) * s.dilation[1] + 1; }

    // Loads the input of `count` rows of results from row `top` on of the image at x.
    void load(const float* x, int64_t top, int64_t count) {
        int64_t left = std::min(s.padding[2], pitch), there = std::min(s.in[2], pitch - left);
        float* to = scratch.data();
        for (int64_t r = 0; r < inputs(count); r++, to += pitch * lanes) {
            int64_t row = top * s.stride[1] - s.padding[1] + r;
            if (row < 0 || row >= s.in[1]) {
                std::fill(to, to + pitch * lanes, 0.0f);
                continue;
            }
            std::fill(to, to + left * lanes, 0.0f);
            const float* from = x + row * s.in[2] * s.in_channels;
            int64_t next = row + rows * s.stride[1] < s.in[1] ? rows * s.stride[1] * s.in[2] * s.in_channels : 0;
            for (int64_t i = 0; i < there; i++, from += s.in_channels) {
                __builtin_prefetch(from + next, 0, 2);
                float* pixel = to + (left + i) * lanes;
                *reinterpret_cast<V*>(pixel) = *reinterpret_cast<const V*>(from);
                *reinterpret_cast<V*>(pixel + wide) = *reinterpret_cast<const V*>(from + wide);
            }
            std::fill(to + (left + there) * lanes, to + pitch * lanes, 0.0f);
        }
    }
};

// Rows of results [top, bottom) of an image, whose first pixel and channel are at x and g.
void add_band(const ConvShape& s, Band& band, const float* x, const float* g, int64_t top, int64_t bottom,
              float (*sums)[lanes]) {
    const int64_t channels = s.in_channels, down = s.kernel[1], across = s.kernel[2];
    const int64_t tap_row = s.dilation[1] * band.pitch * lanes, tap = s.dilation[2] * lanes;
    band.load(x, top, bottom - top);
    if (bottom + band.rows <= s.out[1]) {
        const float* next = g + bottom * s.out[2] * channels;
        for (int64_t i = 0; i < band.rows * s.out[2]; i++) __builtin_prefetch(next + i * channels, 0, 2);
    }
    for (int64_t half = 0; half < lanes; half += wide)
        for (int64_t a = 0; a < down; a += 3)
            for (int64_t b = 0; b < across; b += 3)
                adders[std::min<int64_t>(3, down - a) - 1][std::min<int64_t>(3, across - b) - 1](
                    reinterpret_cast<float(*)[lanes]>(sums[a * across + b] + half), across,
                    Pixels{g + top * s.out[2] * channels + half, channels, s.out[2] * channels},
                    Pixels{band.scratch.data() + a * tap_row + b * tap + half, s.stride[2] * lanes,
                           s.stride[1] * band.pitch * lanes},
                    tap_row, tap, bottom - top, s.out[2]);
}

}  // namespace

bool depthwise_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x) {
    int64_t channels = s.in_channels, taps = s.kernel[1] * s.kernel[2];
    bool fits = s.groups == channels && s.out_channels == channels && channels % lanes == 0 && s.spatial < 3 &&
                taps <= most_taps;
    if (!fits) return false;
    // A unit is an image and some adjacent lines of channels, which are loaded into the caches together.
    constexpr int64_t most = 8;
    int64_t groups = channels / lanes, blocks = (groups + most - 1) / most, pixels = s.out[1] * s.out[2];
    Tensor table = empty({s.batch, taps, channels}, DType::F32, cpu_device);
    float* sums = table.data<float>();
    int64_t grain = std::max<int64_t>(1, parallel_grain / (pixels * taps * 2));
    parallel_for(s.batch * blocks, grain, [&](int64_t begin, int64_t end) {
        Band band(s);
        for (int64_t unit = begin; unit < end; unit++) {
            int64_t image = unit / blocks, first = unit % blocks * most, last = std::min(first + most, groups);
            alignas(64) float own[most][most_taps][lanes] = {};
            const float* from = x.data<float>() + image * s.in[1] * s.in[2] * channels;
            const float* slopes = gy.data<float>() + image * pixels * channels;
            for (int64_t top = 0; top < s.out[1]; top += band.rows)
                for (int64_t k = first; k < last; k++)
                    add_band(s, band, from + k * lanes, slopes + k * lanes, top, std::min(top + band.rows, s.out[1]),
                             own[k - first]);
            for (int64_t k = first; k < last; k++)
                for (int64_t t = 0; t < taps; t++)
                    std::copy(own[k - first][t], own[k - first][t] + lanes,
                              sums + (image * taps + t) * channels + k * lanes);
        }
    });
    bool finite = true;  // padding is multiplied as well: zero times a non-finite value is NaN
    std::vector<double> all(static_cast<size_t>(channels));
    for (int64_t t = 0; t < taps; t++) {
        std::fill(all.begin(), all.end(), 0);
        for (int64_t image = 0; image < s.batch; image++)
            for (int64_t c = 0; c < channels; c++) all[c] += double(sums[(image * taps + t) * channels + c]);
        for (int64_t c = 0; c < channels; c++) {
            gweight.data<float>()[c * taps + t] = float(all[c]);
            finite = finite && all[c] - all[c] == 0;
        }
    }
    return finite;
}

}  // namespace fb::cpu
