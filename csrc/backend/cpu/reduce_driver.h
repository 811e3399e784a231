// One driver for all order-independent reductions. A kernel says how to accumulate a block of contiguous elements; the
// driver orders and merges the dimensions, packs operands that are not contiguous, and splits the work at places that
// depend on the shape only, so that results are the same for every number of threads.
#pragma once
#include "tensor/tensor.h"

namespace fb::cpu {

struct ReduceKernel {
    DType input;   // dtype that row() and rows() read
    DType result;  // dtype that finish() writes
    int acc_bytes;
    int results;  // number of outputs, 1 or 2
    // Initialises n accumulators.
    void (*init)(char* acc, int64_t n);
    // Accumulates n contiguous elements; n ≤ reduce_block.
    void (*row)(char* acc, const char* x, int64_t n);
    // Accumulates rows × cols elements into cols accumulators; rows are `stride` bytes apart, rows ≤ reduce_rows.
    void (*rows)(char* acc, const char* x, int64_t stride, int64_t rows, int64_t cols);
    // Combines acc[i] with other[i].
    void (*merge)(char* acc, const char* other, int64_t n);
    void (*finish)(char* const* out, const char* acc, int64_t n, const void* context);
    // Whether the accumulator can no longer change (any, all); may be null.
    bool (*done)(const char* acc) = nullptr;
    // row() for `count` accumulators, with rows of n elements `stride` bytes apart: saves a call per row; may be null.
    void (*lines)(char* acc, const char* x, int64_t stride, int64_t count, int64_t n) = nullptr;
};

inline constexpr int64_t reduce_block = 4096;
inline constexpr int64_t reduce_rows = 64;

// `reduced[d]` is nonzero for reduced dimensions; `outs` have the shape of `in` without them, or with size 1.
void run_reduce(const ReduceKernel& kernel, const Tensor& in, const Dims& reduced, const Tensor* outs,
                const void* context = nullptr);

}  // namespace fb::cpu
