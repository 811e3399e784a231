// The transforms of Winograd's convolution F(4 × 4, 3 × 3), on vectors of channels.
//
// A window of three slides over six numbers: this is the product of two polynomials, determined by its values at the
// points 0, ±p, ±q and infinity. In matrices: y = Aᵀ[(G g) ⊙ (Bᵀ d)], in two dimensions the same along rows and
// columns. All factors 1 / Π(difference of points) are in G. The points were chosen for accuracy: for 512 channels they
// have a third of the error of the usual ±1, ±2 (whose powers spread wider); their powers are exact in float32.
#pragma once
#include "backend/cpu/convolution.h"

namespace fb::cpu::winograd {

#ifdef __AVX512F__
inline constexpr int vector_bytes = 64;
#else
inline constexpr int vector_bytes = 32;
#endif
typedef float Vec __attribute__((vector_size(vector_bytes), may_alias));
typedef float LooseVec __attribute__((vector_size(vector_bytes), aligned(4), may_alias));
inline constexpr int64_t lanes = vector_bytes / 4;

inline constexpr int window = 3, outputs = 4, inputs = 6, products = inputs * inputs;

inline constexpr float p = 11.0f / 16, p2 = p * p, p3 = p2 * p;
inline constexpr float q = 3.0f / 2, q2 = q * q, q3 = q2 * q;
inline constexpr float at_0 = 1 / (p2 * q2), at_p = 1 / (2 * p2 * (p2 - q2)), at_q = 1 / (2 * q2 * (q2 - p2));

// Bᵀ: six inputs to six values.
struct Input {
    static constexpr int from = inputs, to = inputs;
    static void apply(const Vec* d, Vec* v) {
        v[0] = d[4] - (p2 + q2) * d[2] + (p2 * q2) * d[0];
        Vec even = d[4] - q2 * d[2], odd = d[3] - q2 * d[1];
        v[1] = even + p * odd;
        v[2] = even - p * odd;
        even = d[4] - p2 * d[2], odd = d[3] - p2 * d[1];
        v[3] = even + q * odd;
        v[4] = even - q * odd;
        v[5] = d[5] - (p2 + q2) * d[3] + (p2 * q2) * d[1];
    }
};

// G: three weights to six values.
struct Weight {
    static constexpr int from = window, to = inputs;
    static void apply(const Vec* g, Vec* u) {
        u[0] = at_0 * g[0];
        Vec even = at_p * g[0] + (at_p * p2) * g[2], odd = (at_p * p) * g[1];
        u[1] = even + odd;
        u[2] = even - odd;
        even = at_q * g[0] + (at_q * q2) * g[2], odd = (at_q * q) * g[1];
        u[3] = even + odd;
        u[4] = even - odd;
        u[5] = g[2];
    }
};

// Aᵀ: six products to four outputs.
struct Output {
    static constexpr int from = inputs, to = outputs;
    static void apply(const Vec* m, Vec* y) {
        Vec s = m[1] + m[2], d = m[1] - m[2], t = m[3] + m[4], e = m[3] - m[4];
        y[0] = m[0] + s + t;
        y[1] = p * d + q * e;
        y[2] = p2 * s + q2 * t;
        y[3] = p3 * d + q3 * e + m[5];
    }
};

// A: four gradients of outputs to six values.
struct OutputGradient {
    static constexpr int from = outputs, to = inputs;
    static void apply(const Vec* y, Vec* m) {
        m[0] = y[0];
        Vec even = y[0] + p2 * y[2], odd = p * y[1] + p3 * y[3];
        m[1] = even + odd;
        m[2] = even - odd;
        even = y[0] + q2 * y[2], odd = q * y[1] + q3 * y[3];
        m[3] = even + odd;
        m[4] = even - odd;
        m[5] = y[3];
    }
};

// Gᵀ: six sums to the gradients of three weights.
struct WeightGradient {
    static constexpr int from = inputs, to = window;
    static void apply(const Vec* u, Vec* g) {
        Vec s = at_p * (u[1] + u[2]), d = at_p * (u[1] - u[2]), t = at_q * (u[3] + u[4]), e = at_q * (u[3] - u[4]);
        g[0] = at_0 * u[0] + s + t;
        g[1] = p * d + q * e;
        g[2] = p2 * s + q2 * t + u[5];
    }
};

// Applies a transform along both dimensions: load(i, j) returns a vector of the square, store(i, j, v) stores one of
// the result.
template <class Step, class Load, class Store>
__attribute__((always_inline)) inline void transform(Load load, Store store) {
    Vec half[Step::to][Step::from];
#pragma GCC unroll 6
    for (int j = 0; j < Step::from; j++) {
        Vec in[Step::from], out[Step::to];
#pragma GCC unroll 6
        for (int i = 0; i < Step::from; i++) in[i] = load(i, j);
        Step::apply(in, out);
#pragma GCC unroll 6
        for (int i = 0; i < Step::to; i++) half[i][j] = out[i];
    }
#pragma GCC unroll 6
    for (int i = 0; i < Step::to; i++) {
        Vec out[Step::to];
        Step::apply(half[i], out);
#pragma GCC unroll 6
        for (int j = 0; j < Step::to; j++) store(i, j, out[j]);
    }
}

// Images in channels-last order, and the positions of their output tiles. May be a group of channels, whose pixels are
// as far apart as those of all channels.
struct Images {
    int64_t batch, height, width, channels, all_channels;
};
inline Images inputs_of(const ConvShape& s) { return {s.batch, s.in[1], s.in[2], s.per_group(), s.in_channels}; }
inline Images outputs_of(const ConvShape& s) {
    return {s.batch, s.out[1], s.out[2], s.out_channels / s.groups, s.out_channels};
}
struct Place {
    int64_t image, top, left;
};
struct Tiling {
    int64_t batch, down, across;
    explicit Tiling(const Images& out)
        : batch(out.batch), down((out.height + outputs - 1) / outputs), across((out.width + outputs - 1) / outputs) {}
    int64_t count() const { return batch * down * across; }
    Place place(int64_t tile) const {
        return {tile / across / down, tile / across % down * outputs, tile % across * outputs};
    }
};

// The pixels of a square of side `n` at a position; pixels outside the image read `outside`.
template <int n, class T>
void find_pixels(T* (&pixel)[n][n], const Images& o, T* data, Place at, T* outside) {
    for (int i = 0; i < n; i++) {
        int64_t y = at.top + i, row = ((at.image * o.height + y) * o.width + at.left) * o.all_channels;
        for (int j = 0; j < n; j++) {
            int64_t x = at.left + j;
            bool inside = y >= 0 && y < o.height && x >= 0 && x < o.width;
            pixel[i][j] = inside ? data + (row + j * o.all_channels) : outside;
        }
    }
}

inline bool all_zero(const Vec& v) {
    bool zero = true;
    for (int64_t l = 0; l < lanes; l++) zero &= v[l] == 0;
    return zero;
}

// Rounds up a number of floats so that what follows stays aligned.
inline int64_t padded(int64_t floats) { return (floats + 63) / 64 * 64; }

// to[j * to_row + p] = from[p * from_row + j]
void transpose_floats(float* to, int64_t to_row, const float* from, int64_t from_row, int64_t rows, int64_t cols);

float* group_weights(const ConvShape& s, const Tensor& weight, int64_t group);

// Whether the kernels support the shape (3 × 3 windows with stride 1 in two dimensions, channels in whole vectors) and,
// unless forced, whether they are faster than the direct algorithm.
bool suits(const ConvShape& s, const Tiling& tiling);

}  // namespace fb::cpu::winograd
