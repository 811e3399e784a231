// Forward and the gradient of the input, in three steps: transform the inputs, 36 matrix products with the transformed
// weights, transform the results. Few weights are transformed once, and blocks of tiles small enough for a thread's
// caches go through all steps. Many weights would not stay in a cache: then the inputs of many tiles are transformed
// first, and the threads divide the output channels, transforming some of the weights when they need them.
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

// Sums along channels are split here: shorter sums are more accurate.
constexpr int64_t piece = 128;

// A forward convolution; the gradient of the input is one too, with the weight's channels swapped and its windows
// flipped.
struct Problem {
    Images in, out;
    int64_t pad_y, pad_x;
    const float *x, *weight, *bias;
    float* y;
    bool flipped;
    Tiling tiling{out};
    int64_t channels = in.channels, out_channels = out.channels;

    // Distance between the transformed weights of two products; not a power of two, to avoid cache conflicts.
    int64_t weight_step() const { return channels * out_channels + 48; }
    int64_t m_row() const { return out_channels + 16; }
};

// Channels [c, c + depth) and output channels [k, k + wide), at most a panel, for all products, `step` apart.
void transform_weights(const Problem& o, int64_t c, int64_t depth, int64_t k, int64_t wide, float* panel,
                       int64_t step) {
    constexpr int64_t taps = window * window, together = 16;
    alignas(64) float rows[together * taps * panel_wide];  // (channel, tap, output channel)
    for (int64_t first = c; first < c + depth; first += together) {
        if (o.flipped) {
            for (int64_t i = 0; i < together; i++)
                transpose_floats(rows + i * taps * wide, wide, o.weight + ((first + i) * o.out_channels + k) * taps,
                                 taps, wide, taps);
        } else {
            transpose_floats(rows, wide, o.weight + (k * o.channels + first) * taps, o.channels * taps, wide,
                             together * taps);
        }
        for (int64_t i = 0; i < together; i++) {
            for (int64_t v = 0; v < wide; v += lanes) {
                const float* from = rows + i * taps * wide + v;
                float* to = panel + (first - c + i) * wide + v;
                transform<Weight>(
                    [&](int y, int x) {
                        int64_t tap = y * window + x;
                        return *reinterpret_cast<const Vec*>(from + (o.flipped ? taps - 1 - tap : tap) * wide);
                    },
                    [&](int y, int x, Vec value) { *reinterpret_cast<Vec*>(to + (y * inputs + x) * step) = value; });
            }
        }
    }
}

// Layout of the transformed inputs of `tiles` tiles. Rows of tiles are panel_row apart, as the matrix product expects;
// with few channels several products share a row, with more than panel_depth they continue in another segment.
struct Inputs {
    int64_t row_step, segment, segments, product[products];
    Inputs(const Problem& o, int64_t tiles) : row_step(tiles * panel_row) {
        int64_t in_row = std::max<int64_t>(1, panel_depth / o.channels);
        for (int64_t i = 0; i < products; i++) product[i] = i / in_row * row_step + i % in_row * o.channels;
        segment = (products + in_row - 1) / in_row * row_step;
        segments = (o.channels + panel_depth - 1) / panel_depth;
    }
    int64_t size() const { return segments * segment; }
    int64_t channel(int64_t c) const { return c / panel_depth * segment + c % panel_depth; }
};

// Transforms one tile; pixels outside the image read `zeros`.
void transform_input(const Problem& o, const Inputs& in, Place at, const float* zeros, float* v) {
    const float* pixel[inputs][inputs];
    find_pixels(pixel, o.in, o.x, {at.image, at.top - o.pad_y, at.left - o.pad_x}, zeros);
    for (int64_t c = 0; c < o.channels; c += lanes) {
        float* to = v + in.channel(c);
        transform<Input>(
            [&](int i, int j) { return Vec(*reinterpret_cast<const LooseVec*>(pixel[i][j] + c)); },
            [&](int i, int j, Vec value) { *reinterpret_cast<Vec*>(to + in.product[i * inputs + j]) = value; });
    }
}

// Transforms one tile back, output channels [k, k + ks); outputs outside the image go to `sink`. Accumulates values
// that are not finite in `bad`.
void transform_output(const Problem& o, Place at, int64_t k, int64_t ks, const float* m, int64_t step, float* sink,
                      Vec& bad) {
    float* pixel[outputs][outputs];
    find_pixels(pixel, o.out, o.y + k, at, sink);
    for (int64_t i = 0; i < ks; i += lanes) {
        Vec bias = {};
        if (o.bias) bias = *reinterpret_cast<const LooseVec*>(o.bias + k + i);
        Vec sum = {};
        transform<Output>([&](int y, int x) { return *reinterpret_cast<const Vec*>(m + (y * inputs + x) * step + i); },
                          [&](int y, int x, Vec value) {
                              value += bias;
                              // the corners together include all 36 products
                              if (y % 3 == 0 && x % 3 == 0) sum += value;
                              *reinterpret_cast<LooseVec*>(pixel[y][x] + i) = value;
                          });
        bad += 0.0f * sum;
    }
}

// ---- few weights ----------------------------------------------------------------------------------------------------

// Tiles [begin, end), `together` at a time. False if a result is not finite.
bool run_tiles(const Problem& o, const float* u, int64_t begin, int64_t end, int64_t together,
               const std::atomic<bool>& stop) {
    Inputs in(o, together);
    int64_t spare = padded(std::max(o.channels, o.out_channels)), m_step = together * o.m_row() + 16;
    Tensor scratch = empty({2 * spare + in.size() + products * m_step}, DType::F32, cpu_device);
    float *zeros = scratch.data<float>(), *sink = zeros + spare, *v = sink + spare, *m = v + in.size();
    std::fill(zeros, zeros + spare, 0.0f);
    Vec bad = {};
    for (int64_t first = begin; first < end && !stop; first += together) {
        int64_t count = std::min(together, end - first);
        for (int64_t t = 0; t < count; t++) transform_input(o, in, o.tiling.place(first + t), zeros, v + t * panel_row);
        for (int64_t i = 0; i < products; i++) {
            for (int64_t c = 0; c < o.channels; c += piece)
                panel_gemm({count, o.out_channels, std::min(piece, o.channels - c), v + in.product[i] + in.channel(c),
                            u + i * o.weight_step() + c * o.out_channels, m + i * m_step, o.m_row(), c > 0});
        }
        for (int64_t t = 0; t < count; t++)
            transform_output(o, o.tiling.place(first + t), 0, o.out_channels, m + t * o.m_row(), m_step, sink, bad);
    }
    return all_zero(bad);
}

bool run_few(const Problem& o) {
    Tensor weights = empty({products * o.weight_step()}, DType::F32, cpu_device);
    float* u = weights.data<float>();
    int64_t panels = (o.out_channels + panel_wide - 1) / panel_wide, pieces = (o.channels + piece - 1) / piece;
    parallel_for(panels * pieces, 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; task++) {
            int64_t c = task % pieces * piece, depth = std::min(piece, o.channels - c);
            int64_t k = task / pieces * panel_wide, wide = std::min(panel_wide, o.out_channels - k);
            transform_weights(o, c, depth, k, wide, u + c * o.out_channels + k * depth, o.weight_step());
        }
    });
    // As many tiles at a time as a register block of the matrix product has rows: more would leave less cache for the
    // weights.
    constexpr int64_t most = lanes == 16 ? 14 : 12;
    int64_t tiles = o.tiling.count(), share = (tiles + num_threads() - 1) / num_threads();
    int64_t rounds = (share + most - 1) / most, together = (share + rounds - 1) / rounds;
    std::atomic<bool> stop{false};
    parallel_for((tiles + together - 1) / together, 1, [&](int64_t begin, int64_t end) {
        if (!run_tiles(o, u, begin * together, std::min(end * together, tiles), together, stop)) stop = true;
    });
    return !stop;
}

// ---- many weights ---------------------------------------------------------------------------------------------------

constexpr int64_t group = 64;  // output channels that a thread processes at a time
constexpr int64_t most_tiles = 256;

// Output channels [k, k + group) of `count` tiles from tile `first` on, whose transformed inputs are v.
void run_group(const Problem& o, const Inputs& in, const float* v, int64_t first, int64_t count, int64_t k,
               float* scratch, Vec& bad) {
    constexpr int64_t u_step = piece * group + 16, m_row = group + 16;
    int64_t ks = std::min(group, o.out_channels - k), m_step = count * m_row + 16;
    float *sink = scratch, *u = sink + group, *m = u + products * u_step;
    for (int64_t c = 0; c < o.channels; c += piece) {
        int64_t depth = std::min(piece, o.channels - c);
        for (int64_t j = 0; j < ks; j += panel_wide)
            transform_weights(o, c, depth, k + j, std::min(panel_wide, ks - j), u + j * depth, u_step);
        for (int64_t i = 0; i < products; i++)
            panel_gemm(
                {count, ks, depth, v + in.product[i] + in.channel(c), u + i * u_step, m + i * m_step, m_row, c > 0});
    }
    for (int64_t t = 0; t < count; t++)
        transform_output(o, o.tiling.place(first + t), k, ks, m + t * m_row, m_step, sink, bad);
}

bool run_many(const Problem& o) {
    int64_t tiles = o.tiling.count(), rounds = (tiles + most_tiles - 1) / most_tiles;
    int64_t together = (tiles + rounds - 1) / rounds, groups = (o.out_channels + group - 1) / group;
    int64_t threads = num_threads(), spare = padded(o.channels);
    Inputs in(o, together);
    Tensor inputs_scratch = empty({spare + in.size()}, DType::F32, cpu_device);
    float *zeros = inputs_scratch.data<float>(), *v = zeros + spare;
    std::fill(zeros, zeros + spare, 0.0f);
    std::atomic<bool> stop{false};
    for (int64_t first = 0; first < tiles && !stop; first += together) {
        int64_t count = std::min(together, tiles - first);
        // If the groups do not divide evenly among threads, the tiles are split.
        int64_t parts =
            groups % threads == 0 || groups >= 4 * threads ? 1 : std::clamp<int64_t>(count / 32, 1, threads);
        parallel_for(count, 1, [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; t++)
                transform_input(o, in, o.tiling.place(first + t), zeros, v + t * panel_row);
        });
        parallel_for(groups * parts, 1, [&](int64_t begin, int64_t end) {
            int64_t size = group + products * (piece * group + 16 + (count / parts + 1) * (group + 16) + 16);
            Tensor scratch = empty({size}, DType::F32, cpu_device);
            Vec bad = {};
            for (int64_t task = begin; task < end; task++) {
                int64_t part = task % parts, top = count * part / parts, bottom = count * (part + 1) / parts;
                run_group(o, in, v + top * panel_row, first + top, bottom - top, task / parts * group,
                          scratch.data<float>(), bad);
            }
            if (!all_zero(bad)) stop = true;
        });
    }
    return !stop;
}

bool convolve_tiles(const Problem& o) {
    constexpr int64_t few = 128 * 128;  // weights
    return o.channels * o.out_channels < few ? run_few(o) : run_many(o);
}

}  // namespace

// Opaque: with the bounds known, the compiler warns of loops that never run.
__attribute__((noipa)) void winograd::transpose_floats(float* to, int64_t to_row, const float* from, int64_t from_row,
                                                       int64_t rows, int64_t cols) {
    transpose_copy(to, to_row, from, from_row, rows, cols);
}

float* winograd::group_weights(const ConvShape& s, const Tensor& weight, int64_t group) {
    return weight.data<float>() + group * (weight.numel() / s.groups);
}

bool winograd::suits(const ConvShape& s, const Tiling& tiling) {
    if (mode == WinogradMode::Never) return false;
    if (s.spatial != 2 || s.per_group() % 16 || s.out_channels / s.groups % 16) return false;
    for (int i = 1; i < 3; i++) {
        if (s.kernel[i] != window || s.stride[i] != 1 || s.dilation[i] != 1 || s.padding[i] >= window) return false;
    }
    if (mode == WinogradMode::WherePossible) return true;
    // Tiles that cross the border waste work: less than half the products of the direct algorithm must be left. A
    // handful of tiles does not repay the transform of the weights, nor little work the synchronisation of the threads.
    int64_t tiles = tiling.count(), direct = s.batch * s.out[1] * s.out[2] * window * window;
    return tiles >= 16 && tiles * s.per_group() * s.out_channels >= 1 << 17 && 11 * products * tiles <= 5 * direct;
}

bool winograd_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
    Images in = inputs_of(s), out = outputs_of(s);
    if (!suits(s, Tiling(out))) return false;
    for (int64_t i = 0; i < s.groups; i++) {
        if (!convolve_tiles({in, out, s.padding[1], s.padding[2], x.data<float>() + i * in.channels,
                             group_weights(s, weight, i), bias ? bias.data<float>() + i * out.channels : nullptr,
                             y.data<float>() + i * out.channels, false}))
            return false;
    }
    return true;
}

bool winograd_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight) {
    Images in = outputs_of(s), out = inputs_of(s);
    if (!suits(s, Tiling(out))) return false;
    for (int64_t i = 0; i < s.groups; i++) {
        if (!convolve_tiles({in, out, window - 1 - s.padding[1], window - 1 - s.padding[2],
                             gy.data<float>() + i * in.channels, group_weights(s, weight, i), nullptr,
                             gx.data<float>() + i * out.channels, true}))
            return false;
    }
    return true;
}

WinogradMode winograd_mode() { return mode; }
void set_winograd_mode(WinogradMode chosen) { mode = chosen; }

}  // namespace fb::cpu
