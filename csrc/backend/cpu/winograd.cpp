// Forward and the gradient of the input. Blocks of tiles go through three steps on one thread, in scratch memory that
// stays in its caches: transform the inputs, 36 matrix products with the transformed weights, transform the results.
#pragma GCC optimize("fp-contract=fast")
#include "backend/cpu/winograd.h"

#include <atomic>

#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_pack.h"
#include "backend/cpu/winograd_transform.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

using namespace winograd;

std::atomic<WinogradMode> mode{WinogradMode::WhereFaster};

// Sums along channels are cut here: shorter sums lose fewer digits.
constexpr int64_t piece = 128;

// Fewer do not repay the transform of the weights.
constexpr int64_t least_tiles = 96;

// A forward convolution; the gradient of the input is one too, with the channels of the weight swapped and its windows
// turned around.
struct Problem {
    Images in, out;
    int64_t pad_y, pad_x;
    const float *x, *weight, *bias;
    float* y;
    bool turned;
    Tiling tiling{out};
    int64_t channels = in.channels, out_channels = out.channels;

    // Distance between the transformed weights of two products; not a power of two, which caches do not like.
    int64_t weight_step() const { return channels * out_channels + 48; }
    int64_t m_row() const { return out_channels + 16; }
};

// Weights of all products as panels of piece after piece (see panel_gemm).
void transform_weights(const Problem& o, float* u) {
    int64_t panels = (o.out_channels + panel_wide - 1) / panel_wide, pieces = (o.channels + piece - 1) / piece;
    parallel_for(panels * pieces, 1, [&](int64_t begin, int64_t end) {
        constexpr int64_t taps = window * window, together = 16;
        alignas(64) float rows[together * taps * panel_wide];
        for (int64_t task = begin; task < end; task++) {
            int64_t first = task % pieces * piece, depth = std::min(piece, o.channels - first);
            int64_t k = task / pieces * panel_wide, wide = std::min(panel_wide, o.out_channels - k);
            float* panel = u + first * o.out_channels + k * depth;
            for (int64_t c = 0; c < depth; c += together) {
                // rows: (channel, tap, output channel)
                if (o.turned) {
                    for (int64_t i = 0; i < together; i++)
                        turn(rows + i * taps * wide, wide, o.weight + ((first + c + i) * o.out_channels + k) * taps,
                             taps, wide, taps);
                } else {
                    turn(rows, wide, o.weight + (k * o.channels + first + c) * taps, o.channels * taps, wide,
                         together * taps);
                }
                for (int64_t i = 0; i < together; i++) {
                    for (int64_t v = 0; v < wide; v += lanes) {
                        const float* from = rows + i * taps * wide + v;
                        float* to = panel + (c + i) * wide + v;
                        transform<Weight>(
                            [&](int y, int x) {
                                int64_t tap = y * window + x;
                                return *reinterpret_cast<const Vec*>(from + (o.turned ? taps - 1 - tap : tap) * wide);
                            },
                            [&](int y, int x, Vec value) {
                                *reinterpret_cast<Vec*>(to + (y * inputs + x) * o.weight_step()) = value;
                            });
                    }
                }
            }
        }
    });
}

// One tile: v[product][channel], products `step` apart, channels in segments of panel_depth, `segment` apart. Outside
// of the image `zeros` is read.
void transform_input(const Problem& o, Place at, const float* zeros, float* v, int64_t step, int64_t segment) {
    const float* pixel[inputs][inputs];
    find_pixels(pixel, o.in, o.x, {at.image, at.top - o.pad_y, at.left - o.pad_x}, zeros);
    for (int64_t c = 0; c < o.channels; c += lanes) {
        float* to = v + c / panel_depth * segment + c % panel_depth;
        transform<Input>(
            [&](int i, int j) { return Vec(*reinterpret_cast<const LooseVec*>(pixel[i][j] + c)); },
            [&](int i, int j, Vec value) { *reinterpret_cast<Vec*>(to + (i * inputs + j) * step) = value; });
    }
}

// One tile back: outputs outside of the image go to `sink`. Adds to `bad` what is not finite.
void transform_output(const Problem& o, Place at, const float* m, int64_t step, float* sink, Vec& bad) {
    float* pixel[outputs][outputs];
    find_pixels(pixel, o.out, o.y, at, sink);
    for (int64_t k = 0; k < o.out_channels; k += lanes) {
        Vec bias = {};
        if (o.bias) bias = *reinterpret_cast<const LooseVec*>(o.bias + k);
        Vec sum = {};
        transform<Output>([&](int i, int j) { return *reinterpret_cast<const Vec*>(m + (i * inputs + j) * step + k); },
                          [&](int i, int j, Vec value) {
                              value += bias;
                              if (i % 3 == 0 && j % 3 == 0) sum += value;  // the corners together hold all 36 products
                              *reinterpret_cast<LooseVec*>(pixel[i][j] + k) = value;
                          });
        bad += 0.0f * sum;
    }
}

// Tiles [begin, end); `together` at a time. False when a result is not finite.
bool run_tiles(const Problem& o, const float* u, int64_t begin, int64_t end, int64_t together,
               const std::atomic<bool>& stop) {
    int64_t segments = (o.channels + panel_depth - 1) / panel_depth,
            spare = padded(std::max(o.channels, o.out_channels));
    int64_t v_step = together * panel_row, segment = v_step * products, m_step = together * o.m_row() + 16;
    Tensor scratch = empty({2 * spare + segments * segment + products * m_step}, DType::F32);
    float *zeros = scratch.data<float>(), *sink = zeros + spare, *v = sink + spare, *m = v + segments * segment;
    std::fill(zeros, zeros + spare, 0.0f);
    Vec bad = {};
    for (int64_t first = begin; first < end && !stop; first += together) {
        int64_t count = std::min(together, end - first);
        for (int64_t t = 0; t < count; t++)
            transform_input(o, o.tiling.place(first + t), zeros, v + t * panel_row, v_step, segment);
        for (int64_t i = 0; i < products; i++) {
            for (int64_t c = 0; c < o.channels; c += piece) {
                const float* a = v + c / panel_depth * segment + i * v_step + c % panel_depth;
                panel_gemm({count, o.out_channels, std::min(piece, o.channels - c), a,
                            u + i * o.weight_step() + c * o.out_channels, m + i * m_step, o.m_row(), c > 0});
            }
        }
        for (int64_t t = 0; t < count; t++)
            transform_output(o, o.tiling.place(first + t), m + t * o.m_row(), m_step, sink, bad);
    }
    return all_zero(bad);
}

// How many tiles go together: the transformed inputs and results should fit the second-level cache, but each pass over
// the weights must serve enough of them.
int64_t choose_together(const Problem& o) {
    constexpr int64_t budget = int64_t(5) << 18, least = 28, most = 56;
    int64_t fit = budget / (products * 4 * (o.channels + o.out_channels));
    int64_t together = std::clamp(fit / 14 * 14, least, most), threads = num_threads(), tiles = o.tiling.count();
    int64_t rounds = (tiles + together * threads - 1) / (together * threads);
    return (tiles + rounds * threads - 1) / (rounds * threads);
}

bool run(const Problem& o) {
    Tensor weights = empty({products * o.weight_step()}, DType::F32);
    float* u = weights.data<float>();
    transform_weights(o, u);
    int64_t together = choose_together(o), blocks = (o.tiling.count() + together - 1) / together;
    std::atomic<bool> stop{false};
    parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
        if (!run_tiles(o, u, begin * together, std::min(end * together, o.tiling.count()), together, stop)) stop = true;
    });
    return !stop;
}

}  // namespace

// Opaque: with the bounds known, the compiler warns of loops that never run.
__attribute__((noipa)) void winograd::turn(float* to, int64_t to_row, const float* from, int64_t from_row, int64_t rows,
                                           int64_t cols) {
    transpose_copy(to, to_row, from, from_row, rows, cols);
}

bool winograd::suits(const ConvShape& s, const Tiling& tiling, int64_t least_tiles) {
    if (mode == WinogradMode::Never) return false;
    if (s.spatial != 2 || s.groups != 1 || s.in_channels % 16 || s.out_channels % 16) return false;
    for (int i = 1; i < 3; i++) {
        if (s.kernel[i] != window || s.stride[i] != 1 || s.dilation[i] != 1 || s.padding[i] >= window) return false;
    }
    if (mode == WinogradMode::WherePossible) return true;
    // Tiles that reach beyond the image do work for nothing: a quarter of the direct way's products at best, no more
    // than 0.4 of them here. The transforms cost little only where there are many channels.
    int64_t direct = s.batch * s.out[1] * s.out[2] * window * window;
    return std::min(s.in_channels, s.out_channels) >= 32 && tiling.count() >= least_tiles &&
           5 * products * tiling.count() <= 2 * direct;
}

bool winograd_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
    Images in{s.batch, s.in[1], s.in[2], s.in_channels}, out{s.batch, s.out[1], s.out[2], s.out_channels};
    if (!suits(s, Tiling(out), least_tiles)) return false;
    return run({in, out, s.padding[1], s.padding[2], x.data<float>(), weight.data<float>(),
                bias ? bias.data<float>() : nullptr, y.data<float>(), false});
}

bool winograd_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight) {
    Images in{s.batch, s.out[1], s.out[2], s.out_channels}, out{s.batch, s.in[1], s.in[2], s.in_channels};
    if (!suits(s, Tiling(out), least_tiles)) return false;
    return run({in, out, window - 1 - s.padding[1], window - 1 - s.padding[2], gy.data<float>(), weight.data<float>(),
                nullptr, gx.data<float>(), true});
}

WinogradMode winograd_mode() { return mode; }
void set_winograd_mode(WinogradMode chosen) { mode = chosen; }

}  // namespace fb::cpu
