// Products of float16 and bfloat16 matrices with sums in float32. The summation order of an element depends on k and on
// the processor's level, never on the thread count.
#pragma once
#include "base/dtype.h"

namespace fb::cpu {

// c = alpha * a @ b + beta * c + bias. Strides in elements; each factor has one stride of 1.
struct HalfGemm {
    DType dtype;
    int64_t m, n, k;
    const char* a;
    int64_t a_row, a_col;
    const char* b;
    int64_t b_row, b_col;
    char* c;
    int64_t c_row;
    float alpha = 1, beta = 0;
    const char* bias = nullptr;  // one element per column, in the dtype of the factors
    bool wide = false;           // c is float32
};
// On several threads where that pays.
void half_gemm(const HalfGemm& g);

// The kernels below are compiled for AVX512_BF16: see Note [Processor levels]. A lane is a pair of neighbours along k,
// the operand format of the instruction.
inline constexpr int64_t pair_wide = 32, pair_depth = 256;  // columns and rows of a panel of lanes
struct PairPanels {
    int64_t m, n, lanes;
    const uint32_t* a;  // m rows a_step apart; or, transposed, `lanes` rows of m, a_step apart
    int64_t a_step;
    bool transposed;
    const uint32_t* b;  // panels of pair_wide columns; the last one may have half that width
    float* c;
    int64_t c_row;
    bool add;            // accumulates into c
    int64_t b_step = 0;  // distance between panels of b, if they are longer than the lanes
};
void pair_panels(const PairPanels& g);
// sums[i * n + j] of m rows of a and n ≤ rows_columns columns of b, both contiguous along k, without packing.
inline constexpr int64_t rows_columns = 64, rows_most = 64;
void bf16_rows(const BFloat16* a, int64_t a_row, int64_t m, const BFloat16* b, int64_t b_col, int64_t n, int64_t k,
               float* sums);
// The same on every processor, for a converted to float; b is float16 or bfloat16.
template <class H>
void half_rows(const float* a, int64_t a_row, int64_t m, const H* b, int64_t b_col, int64_t n, int64_t k, float* sums);

}  // namespace fb::cpu
