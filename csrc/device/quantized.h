// Products with matrices whose weights are stored as small integers with scales.
//
// Note [Quantized weights]: a weight of n rows and k columns is a tensor of bytes, one row after the other, in one of
// the formats below. w = d * q - m for each integer q of a group, where d and m are stored
// - for int8 and int4, in tensors of their own: `scale` (n, k / group) and for int4 `zero`, both bfloat16; int8 with
//   group 0 has one float32 per row. In the bytes of 64 int4 numbers (32 with groups of 32), the low nibbles are the
//   first half of the numbers;
// - for the formats of GGUF files, among the integers, in blocks of 32 or 256 numbers.
// The layout of each format is written once, in backend/cpu/quantized_formats.h.
#pragma once
#include <string>

#include "device/table.h"

namespace fb::device {

enum class QuantFormat : uint8_t { Int8, Int4, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K };
inline constexpr int quant_formats = 12;

struct QuantInfo {
    const char* name;
    int64_t block, bytes;  // numbers per block, and bytes per block
};
const QuantInfo& info(QuantFormat format);
QuantFormat quant_format_named(const std::string& name);  // raises an error that lists the names

struct QuantWeight {
    QuantFormat format;
    Tensor data;         // (n, bytes of a row), contiguous uint8 or int8
    Tensor scale, zero;  // may be undefined
    int64_t columns, group;
};

struct Quantized {
    // out = x @ wᵀ + bias. x and out: contiguous matrices of one dtype, float32 or a half type; bias: float32 or
    // undefined. `dynamic`: every row of x is rounded to int8 first (unless it has NaN or infinities); the weight is
    // int8 with one scale per row.
    void (*multiply)(const Tensor& out, const Tensor& x, const QuantWeight& w, const Tensor& bias, bool dynamic);
    // out: (n, k), contiguous float32.
    void (*dequantize)(const Tensor& out, const QuantWeight& w);
};
inline const Quantized& quantized(const Tensor& on) { return device::on<Quantized>(on.device()); }

}  // namespace fb::device
