// Loop plans: several tensors iterated together, element by element. Broadcasting becomes stride 0; dimensions are
// ordered by the first operand's strides (fastest first) and merged where all operands allow it.
#pragma once
#include "tensor/tensor.h"

namespace fb {

inline constexpr int max_operands = 8;

struct LoopPlan {
    struct Operand {
        char* data;
        DType dtype;
        int64_t strides[max_dims];  // in bytes, innermost first
    };
    int ndim = 0;
    int count = 0;  // operands
    int64_t numel = 0;
    int64_t shape[max_dims];  // innermost first
    Operand operands[max_operands];

    LoopPlan() {}  // arrays are deliberately uninitialised: only the first entries are used
};

// Operands must broadcast to `shape`; the first one (usually the output) decides the order.
void make_plan(LoopPlan& plan, const Dims& shape, const Tensor* const* operands, int count);

}  // namespace fb
