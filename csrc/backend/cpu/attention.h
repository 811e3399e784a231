// Shared by the attention algorithms: the arguments, and operations on a tile of scores.
#pragma once
#include <cmath>
#include <limits>
#include <utility>

#include "backend/cpu/vector_exp.h"
#include "base/bool.h"
#include "base/parallel.h"
#include "device/attention.h"

namespace fb::cpu::attention {

constexpr int64_t key_tile = 256;

using device::Attention;

template <class T>
struct Matrix {
    T* data;
    int64_t row, col = 1;
    Matrix t() const { return {data, col, row}; }
    Matrix from(int64_t r) const { return {data + r * row, row, col}; }
};
template <class T>
Matrix<T> matrix(const Tensor& t, int64_t n, int64_t h) {
    return {t.data<T>() + n * t.strides()[0] + h * t.strides()[1], t.strides()[2], t.strides()[3]};
}

// Splits one allocation into buffers.
template <class T>
class Scratch {
  public:
    explicit Scratch(int64_t size) : all_(empty({size}, dtype_of<T>(), cpu_device)), next_(all_.template data<T>()) {}
    T* take(int64_t size) { return std::exchange(next_, next_ + size); }

  private:
    Tensor all_;
    T* next_;
};

// Sets the scores of queries [i, i + m) and keys [j, j + n) that are masked to -∞; adds an additive mask.
template <class T>
void hide(const Attention& p, int64_t b, int64_t h, int64_t i, int64_t m, int64_t j, int64_t n, T* scores,
          int64_t score_row) {
    constexpr T out = -std::numeric_limits<T>::infinity();
    for (int64_t r = 0; r < m; r++) {
        T* row = scores + r * score_row;
        if (p.causal) {
            for (int64_t s = std::max<int64_t>(0, i + r + 1 - j); s < n; s++) row[s] = out;
        }
        if (!p.mask) continue;
        const Dims& step = p.mask.strides();
        int64_t at = b * step[0] + h * step[1] + (i + r) * step[2] + j * step[3];
        if (p.mask.dtype() == DType::Bool) {
            const Bool* keep = p.mask.data<Bool>() + at;
            for (int64_t s = 0; s < n; s++) row[s] = keep[s * step[3]] ? row[s] : out;
        } else {
            const T* add = p.mask.data<T>() + at;
            for (int64_t s = 0; s < n; s++) row[s] += add[s * step[3]];
        }
    }
}

// Online softmax over consecutive tiles of keys: partial sums are rescaled when a higher score appears.
template <class T, int64_t most>
class Softmax {
  public:
    Softmax() { std::fill_n(top_, most, lowest); }

    // Replaces the scores of m queries and n keys by exponentials and rescales the partial sums of values in `output`.
    void add(T* scores, int64_t score_row, int64_t m, int64_t n, const Matrix<T>& output, int64_t width) {
        for (int64_t r = 0; r < m; r++) {
            T* __restrict row = scores + r * score_row;
            T highest = top_[r], sum = 0;
#pragma omp simd reduction(max : highest)
            for (int64_t s = 0; s < n; s++) highest = row[s] > highest ? row[s] : highest;
            T shift = highest == lowest ? T(0) : highest;
#pragma omp simd reduction(+ : sum)
            for (int64_t s = 0; s < n; s++) {
                T e = vector_exp(row[s] - shift);
                row[s] = e;
                sum += e;
            }
            T before = top_[r] == lowest ? T(0) : vector_exp(top_[r] - shift);
            if (top_[r] != lowest && before != 1) scale_row(output, r, width, before);
            total_[r] = total_[r] * before + sum;
            top_[r] = highest;
        }
    }

    // Divides by the sums; a query that attends to no key gets zeros.
    void finish(int64_t m, const Matrix<T>& output, int64_t width, T* logsumexp) {
        for (int64_t r = 0; r < m; r++) {
            scale_row(output, r, width, total_[r] == 0 ? T(0) : 1 / total_[r]);
            logsumexp[r] = total_[r] == 0 ? lowest : top_[r] + std::log(total_[r]);
        }
    }

  private:
    static constexpr T lowest = -std::numeric_limits<T>::infinity();
    static void scale_row(const Matrix<T>& output, int64_t r, int64_t width, T factor) {
        T* __restrict to = output.data + r * output.row;
#pragma omp simd
        for (int64_t e = 0; e < width; e++) to[e] *= factor;
    }
    T top_[most], total_[most] = {};
};

// For the gradient: the weights of a tile, from its scores and the saved results of the forward pass.
template <class T>
void weights_again(T* scores, int64_t score_row, int64_t m, int64_t n, const T* logsumexp) {
    for (int64_t r = 0; r < m; r++) {
        T* __restrict row = scores + r * score_row;
        T shift = logsumexp[r];
        if (shift == -std::numeric_limits<T>::infinity()) std::fill_n(row, n, T(0));
        else
#pragma omp simd
            for (int64_t s = 0; s < n; s++) row[s] = vector_exp(row[s] - shift);
    }
}

// The gradient of the scores from that of the weights.
template <class T>
void score_slopes(T* slopes, const T* weights, int64_t score_row, int64_t m, int64_t n, const T* dots) {
    for (int64_t r = 0; r < m; r++) {
        const T* __restrict w = weights + r * score_row;
        T* __restrict row = slopes + r * score_row;
        T dot = dots[r];
#pragma omp simd
        for (int64_t s = 0; s < n; s++) row[s] = w[s] * (row[s] - dot);
    }
}

// dots[i] = Σ a[i, e] b[i, e].
template <class T>
void row_dots(T* dots, const Matrix<T>& a, const Matrix<T>& b, int64_t rows, int64_t width) {
    for (int64_t i = 0; i < rows; i++) {
        T dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int64_t e = 0; e < width; e++) dot += a.data[i * a.row + e] * b.data[i * b.row + e];
        dots[i] = dot;
    }
}

// float32, more than a few queries, and heads of whole vectors: keys and values are packed for the product kernels once
// per head; scores are not packed.
bool fits_panels(const Attention& p);
void forward_panels(const Attention& p, const Tensor& output, const Tensor& logsumexp);
void backward_panels(const Attention& p, const Tensor& grad, const Tensor& output, const Tensor& logsumexp,
                     const Tensor& dq, const Tensor& dk, const Tensor& dv);

// For a few queries, of any floating dtype.
inline constexpr int64_t few_queries = 15;
bool fits_few(const Attention& p);
void forward_few(const Attention& p, const Tensor& output, const Tensor& logsumexp);

// float16 and bfloat16; unsupported shapes are computed as float32.
bool fits_half(const Attention& p);
void forward_half(const Attention& p, const Tensor& output, const Tensor& logsumexp);
void backward_half(const Attention& p, const Tensor& grad, const Tensor& output, const Tensor& logsumexp,
                   const Tensor& dq, const Tensor& dk, const Tensor& dv);

}  // namespace fb::cpu::attention
