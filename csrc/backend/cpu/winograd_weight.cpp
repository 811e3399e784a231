// The gradient of the weight: the transposed steps of the forward pass. 36 products (channels × tiles) by (tiles ×
// output channels) are summed over all tiles, then transformed to 3 × 3. A task is a block of channels by a block of
// output channels, and a share of the tiles if there are too few blocks; each transforms what it needs, in scratch
// memory that stays in its caches. The shares depend only on the shape and are added in order.
#pragma GCC optimize("fp-contract=fast")
#include <atomic>

#include "backend/cpu/gemm.h"
#include "backend/cpu/winograd.h"
#include "backend/cpu/winograd_transform.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

using namespace winograd;

constexpr int64_t block_in = 64, block_out = 128;  // channels
constexpr int64_t together = 64;                   // tiles
constexpr int64_t least_tasks = 8;
constexpr int64_t v_row = block_in + 16, v_step = together * v_row + 16;
constexpr int64_t m_step = together * block_out + 16;

struct Problem {
    Images in, out;
    int64_t pad_y, pad_x;
    const float *x, *gy;
    float* gweight;
    Tiling tiling{out};
    int64_t blocks_in = (in.channels + block_in - 1) / block_in,
            blocks_out = (out.channels + block_out - 1) / block_out;
    // Strides of the sums of a block.
    int64_t sum_row = std::min(block_out, out.channels) + 16, sum_step = std::min(block_in, in.channels) * sum_row + 16;
    int64_t sum_size = products * sum_step;
    // The number of shares of the tiles.
    int64_t shares = std::clamp<int64_t>(least_tasks / (blocks_in * blocks_out), 1, (tiling.count() + 127) / 128);
};

// A block of channels and output channels.
struct Block {
    int64_t c, cs, k, ks;
    Block(const Problem& o, int64_t index)
        : c(index / o.blocks_out * block_in),
          cs(std::min(block_in, o.in.channels - c)),
          k(index % o.blocks_out * block_out),
          ks(std::min(block_out, o.out.channels - k)) {}
};

// v[product][tile][channel]
void transform_input(const Problem& o, const Block& b, Place at, const float* zeros, float* v) {
    const float* pixel[inputs][inputs];
    find_pixels(pixel, o.in, o.x + b.c, {at.image, at.top - o.pad_y, at.left - o.pad_x}, zeros);
    for (int64_t c = 0; c < b.cs; c += lanes)
        transform<Input>(
            [&](int i, int j) { return Vec(*reinterpret_cast<const LooseVec*>(pixel[i][j] + c)); },
            [&](int i, int j, Vec value) { *reinterpret_cast<Vec*>(v + (i * inputs + j) * v_step + c) = value; });
}

// m[product][panel][tile of `count`][output channel]
void transform_gradient(const Problem& o, const Block& b, Place at, const float* zeros, float* m, int64_t t,
                        int64_t count) {
    const float* pixel[outputs][outputs];
    find_pixels(pixel, o.out, o.gy + b.k, at, zeros);
    for (int64_t k = 0; k < b.ks; k += lanes) {
        int64_t panel = k / panel_wide * panel_wide, wide = std::min(panel_wide, b.ks - panel);
        float* to = m + panel * count + t * wide + k - panel;
        transform<OutputGradient>(
            [&](int i, int j) { return Vec(*reinterpret_cast<const LooseVec*>(pixel[i][j] + k)); },
            [&](int i, int j, Vec value) { *reinterpret_cast<Vec*>(to + (i * inputs + j) * m_step) = value; });
    }
}

// Sums over one share of the tiles.
void add_tiles(const Problem& o, const Block& b, int64_t share, float* sums, float* scratch, const float* zeros) {
    float *v = scratch, *m = v + products * v_step;
    int64_t tiles = o.tiling.count(), begin = tiles * share / o.shares, end = tiles * (share + 1) / o.shares;
    for (int64_t first = begin; first < end; first += together) {
        int64_t count = std::min(together, end - first);
        for (int64_t t = 0; t < count; t++) {
            Place at = o.tiling.place(first + t);
            transform_input(o, b, at, zeros, v + t * v_row);
            transform_gradient(o, b, at, zeros, m, t, count);
        }
        for (int64_t i = 0; i < products; i++)
            panel_gemm_transposed(
                {b.cs, b.ks, count, v + i * v_step, m + i * m_step, sums + i * o.sum_step, o.sum_row, first > begin},
                v_row);
    }
}

// The weights of a block from its sums, `shares` of them.
void finish(const Problem& o, const Block& b, const float* sums, Vec& bad) {
    constexpr int64_t taps = window * window;
    alignas(64) float rows[block_in * taps * lanes];
    for (int64_t k = 0; k < b.ks; k += lanes) {
        for (int64_t c = 0; c < b.cs; c++) {
            const float* from = sums + c * o.sum_row + k;
            Vec all = {};
            transform<WeightGradient>(
                [&](int i, int j) {
                    const float* at = from + (i * inputs + j) * o.sum_step;
                    Vec sum = *reinterpret_cast<const Vec*>(at);
                    for (int64_t s = 1; s < o.shares; s++) sum += *reinterpret_cast<const Vec*>(at + s * o.sum_size);
                    return sum;
                },
                [&](int i, int j, Vec value) {
                    all += value;
                    *reinterpret_cast<Vec*>(rows + (c * taps + i * window + j) * lanes) = value;
                });
            bad += 0.0f * all;
        }
        transpose_floats(o.gweight + ((b.k + k) * o.in.channels + b.c) * taps, o.in.channels * taps, rows, lanes,
                         b.cs * taps, lanes);
    }
}

bool sum_tiles(const Problem& o) {
    int64_t blocks = o.blocks_in * o.blocks_out;
    bool shared = o.shares > 1;
    Tensor partial;
    if (shared) partial = empty({blocks * o.shares * o.sum_size}, DType::F32, cpu_device);
    std::atomic<bool> spoilt{false};
    parallel_for(blocks * o.shares, 1, [&](int64_t begin, int64_t end) {
        int64_t zero_size = std::max(block_in, block_out), work = products * (v_step + m_step);
        Tensor scratch = empty({zero_size + work + (shared ? 0 : o.sum_size)}, DType::F32, cpu_device);
        float *zeros = scratch.data<float>(), *own = zeros + zero_size + work;
        std::fill(zeros, zeros + zero_size, 0.0f);
        Vec bad = {};
        for (int64_t task = begin; task < end && !spoilt; task++) {
            Block block(o, task / o.shares);
            float* sums = shared ? partial.data<float>() + task * o.sum_size : own;
            add_tiles(o, block, task % o.shares, sums, zeros + zero_size, zeros);
            if (!shared) finish(o, block, sums, bad);
        }
        if (!all_zero(bad)) spoilt = true;
    });
    if (shared) {
        parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
            Vec bad = {};
            for (int64_t i = begin; i < end; i++)
                finish(o, Block(o, i), partial.data<float>() + i * o.shares * o.sum_size, bad);
            if (!all_zero(bad)) spoilt = true;
        });
    }
    return !spoilt;
}

}  // namespace

bool winograd_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x) {
    Images in = inputs_of(s), out = outputs_of(s);
    if (!suits(s, Tiling(out))) return false;
    for (int64_t i = 0; i < s.groups; i++) {
        if (!sum_tiles({in, out, s.padding[1], s.padding[2], x.data<float>() + i * in.channels,
                        gy.data<float>() + i * out.channels, group_weights(s, gweight, i)}))
            return false;
    }
    return true;
}

}  // namespace fb::cpu
