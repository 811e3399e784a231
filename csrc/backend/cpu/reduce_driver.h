// One driver for all order-free reductions. A kernel says how a block of contiguous elements joins an accumulator; the
// driver orders and merges the dimensions, packs what is not contiguous, and splits the work at places that depend on
// the shape only, so that results are the same for every number of threads.
#pragma once
#include "tensor/tensor.h"

namespace fb::cpu {

struct ReduceKernel {
    DType input;   // what row() and rows() read
    DType result;  // what finish() writes
    int acc_bytes;
    int results;  // outputs, 1 or 2
    // n fresh accumulators.
    void (*init)(char* acc, int64_t n);
    // n contiguous elements into one accumulator; n ≤ reduce_block.
    void (*row)(char* acc, const char* x, int64_t n);
    // rows × cols elements into cols accumulators; rows lie `stride` bytes apart, rows ≤ reduce_rows.
    void (*rows)(char* acc, const char* x, int64_t stride, int64_t rows, int64_t cols);
    // acc[i] takes other[i] in.
    void (*merge)(char* acc, const char* other, int64_t n);
    void (*finish)(char* const* out, const char* acc, int64_t n, const void* context);
    // The accumulator cannot change any more (any, all); may be null.
    bool (*done)(const char* acc) = nullptr;
    // row() for `count` accumulators, with rows of n elements `stride` bytes apart: spares a call per row; may be null.
    void (*lines)(char* acc, const char* x, int64_t stride, int64_t count, int64_t n) = nullptr;
};

inline constexpr int64_t reduce_block = 4096;
inline constexpr int64_t reduce_rows = 64;

// `reduced[d]` is not zero for reduced dimensions; `outs` have the shape of `in` with those gone, or with size 1 there.
void run_reduce(const ReduceKernel& kernel, const Tensor& in, const Dims& reduced, const Tensor* outs,
                const void* context = nullptr);

}  // namespace fb::cpu
