// The gradient of the weight of a convolution with few input channels, as first layers have: the taps of a row of the
// window lie side by side in a channels-last image, so each pixel of the gradient is multiplied with runs of numbers.
#pragma GCC optimize("fp-contract=fast")
#include <cstring>
#include <utility>
#include <vector>

#include "backend/cpu/convolution.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

constexpr int64_t wide = 8, longest = 9;  // output channels and taps that are summed together
typedef float V __attribute__((vector_size(wide * sizeof(float)), aligned(sizeof(float)), may_alias));

// sums[t] += g * x[t] over the pixels of a row.
template <int taps>
void add_row(float* sums, int64_t channels, const float* g, const float* x, int64_t step, int64_t pixels) {
    V sum[taps] = {};
    for (int64_t i = 0; i < pixels; i++, g += channels, x += step) {
        V slope = *reinterpret_cast<const V*>(g);
#pragma GCC unroll 9
        for (int t = 0; t < taps; t++) sum[t] += slope * x[t];
    }
#pragma GCC unroll 9
    for (int t = 0; t < taps; t++) *reinterpret_cast<V*>(sums + t * channels) += sum[t];
}
using AddRow = void (*)(float*, int64_t, const float*, const float*, int64_t, int64_t);
template <size_t... i>
AddRow pick(int64_t taps, std::index_sequence<i...>) {
    static constexpr AddRow table[] = {add_row<int(i) + 1>...};
    return table[taps - 1];
}

}  // namespace

bool few_channels_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x) {
    const int64_t in = s.in_channels, out = s.out_channels, across = s.kernel[2] * in, taps = s.kernel[1] * across;
    bool fits = s.groups == 1 && in <= 4 && out % wide == 0 && s.spatial == 2 && s.dilation[2] == 1 && s.out[2] >= 8;
    if (!fits) return false;
    // Bands of rows, cut where the shape says, have sums of their own.
    const int64_t rows = s.batch * s.out[1], bands = std::min<int64_t>(rows, 64);
    const int64_t width = (s.in[2] + 2 * s.padding[2]) * in, work = rows / bands * s.out[2] * taps * out / wide;
    Tensor table = empty({bands, taps, out}, DType::F32, cpu_device);
    parallel_for(bands, std::max<int64_t>(1, parallel_grain / work), [&](int64_t begin, int64_t end) {
        std::vector<float> line(static_cast<size_t>(width));  // a row of x with zeros before and after it
        for (int64_t band = begin; band < end; band++) {
            float* sums = table.data<float>() + band * taps * out;
            std::fill(sums, sums + taps * out, 0.0f);
            for (int64_t at = rows * band / bands; at < rows * (band + 1) / bands; at++) {
                const float* g = gy.data<float>() + at * s.out[2] * out;
                for (int64_t a = 0; a < s.kernel[1]; a++) {
                    int64_t row = at % s.out[1] * s.stride[1] - s.padding[1] + a * s.dilation[1];
                    if (row < 0 || row >= s.in[1]) continue;
                    std::memcpy(line.data() + s.padding[2] * in,
                                x.data<float>() + (at / s.out[1] * s.in[1] + row) * s.in[2] * in,
                                static_cast<size_t>(s.in[2] * in) * sizeof(float));
                    for (int64_t t = 0; t < across; t += longest) {
                        AddRow add = pick(std::min(longest, across - t), std::make_index_sequence<longest>());
                        for (int64_t o = 0; o < out; o += wide)
                            add(sums + (a * across + t) * out + o, out, g + o, line.data() + t, s.stride[2] * in,
                                s.out[2]);
                    }
                }
            }
        }
    });
    // (bands, rows, columns, in, out) to (out, in, rows, columns).
    for (int64_t t = 0; t < taps; t++) {
        int64_t channel = t % in, place = t / in;
        for (int64_t o = 0; o < out; o++) {
            double sum = 0;
            for (int64_t band = 0; band < bands; band++)
                sum += double(table.data<float>()[(band * taps + t) * out + o]);
            gweight.data<float>()[(o * in + channel) * s.kernel[1] * s.kernel[2] + place] = float(sum);
        }
    }
    return true;
}

}  // namespace fb::cpu
