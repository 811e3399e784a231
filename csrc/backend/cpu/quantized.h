// Rows of quantized weights (Note [Quantized weights] in device/quantized.h) and of the activations they are multiplied
// with.
#pragma once
#include <cstdint>

namespace fb::cpu {

struct QuantRow {
    const uint8_t* data;
    const uint16_t *scale, *zero;  // bfloat16, if stored separately
    int shift;                     // one scale covers 32 << shift numbers
};

// Rows of int16 (Note [Activations as int16]): `parts` parts of 32 numbers each; four parts share a scale. The last
// four are padded with zeros. For int4 also as bytes: of 128 numbers first the high bytes of those multiplied by low
// nibbles of the weight's bytes, then of those multiplied by high nibbles, then the low bytes in the same order.
struct QuantLeft {
    const int16_t* values;
    const int8_t* bytes;
    int64_t stride, parts;
    const float *scale, *sum, *half_sum;   // of each part; sums of its 32 numbers, and of each 16 of them
    const float *group_scale, *group_sum;  // for int4, of each group of the weight; 4 values may be read from any place
};

// Rows of int8: rows of x are padded to steps of 64 bytes, those of w are k apart and have the sums w_sum.
struct QuantBytes {
    const int8_t* x;
    int64_t x_row;
    const int8_t* w;
    int64_t k;
    const int32_t* w_sum;
};

// int8 with one scale per row, int8 by groups, int4 by groups of 32, 64 and 128, and then as in QuantFormat.
inline constexpr int quant_kernels = 15;
struct QuantKernels {
    // At most four rows of the weight and four of x; out: four numbers per row of the weight.
    void (*dot[quant_kernels])(const QuantRow* row, int columns, int64_t k, const QuantLeft& x, int rows, float* out);
    void (*expand[quant_kernels])(const QuantRow& row, int64_t k, float* out);
    void (*bytes)(const QuantBytes& t, int rows, int columns, int32_t* out);  // out: four rows of four
};
const QuantKernels& quant_kernels_wide();  // AVX-512 with VNNI

}  // namespace fb::cpu
