// The CPU's elementwise driver. A kernel is written once, for contiguous operands of its compute types; the driver
// walks a loop plan in tiles that fit the first-level cache and packs (and converts) all other operands.
#pragma once
#include "tensor/plan.h"

namespace fb::cpu {

// data[i] points to n contiguous elements of the i-th operand's compute type; outputs come first.
using TileFn = void (*)(char** data, int64_t n, const void* context);

// A kernel, and optionally its forms for two inputs of which one is a single element for the whole tile.
struct TileForms {
    TileFn plain = nullptr, first_fixed = nullptr, second_fixed = nullptr;
    TileForms() = default;
    TileForms(TileFn fn) : plain(fn) {}
    TileForms(TileFn fn, TileFn first, TileFn second) : plain(fn), first_fixed(first), second_fixed(second) {}
    explicit operator bool() const { return plain != nullptr; }
};

inline constexpr int64_t tile_elements = 1024;

// Runs fn over the plan. compute[i] is the dtype in which fn sees operand i; the first `outputs` operands are written.
// `cost` is the work per element in units of a simple addition, for the choice of thread count.
void run_tiles(const LoopPlan& plan, const DType* compute, int outputs, const TileForms& fn, const void* context,
               double cost = 1);

// Copies n elements with conversion; strides in bytes.
void copy_strided(char* to, DType to_dtype, int64_t to_stride, const char* from, DType from_dtype, int64_t from_stride,
                  int64_t n);

// Transposing copy, where the source is contiguous along dimension 1: rows [first, last) of a plan of two operands of
// one dtype.
void copy_transposed(const LoopPlan& plan, char* to, const char* from, int64_t first, int64_t last);

// Elementwise copy of `from` (broadcast) into `to`, any dtypes and strides; blocked when one side is transposed.
void copy(const Tensor& to, const Tensor& from);

}  // namespace fb::cpu
