#include "tensor/plan.h"

#include <cstdlib>

namespace fb {

void make_plan(LoopPlan& plan, const Dims& shape, const Tensor* const* operands, int count) {
    int ndim = static_cast<int>(shape.size());
    plan.count = count;
    plan.numel = 1;
    for (int64_t size : shape) plan.numel *= size;
    plan.ndim = 0;
    if (plan.numel == 0) return;  // strides of empty tensors are arbitrary
    for (int k = 0; k < count; k++) {
        plan.operands[k].data = operands[k]->raw();
        plan.operands[k].dtype = operands[k]->dtype();
    }
    // Strides in bytes, last dimension first, without the dimensions of size one.
    int n = 0;
    for (int d = ndim - 1; d >= 0; d--) {
        if (shape[d] == 1) continue;
        plan.shape[n] = shape[d];
        for (int k = 0; k < count; k++) {
            const Tensor& t = *operands[k];
            int64_t own = d - (ndim - t.dim());
            bool spread = own < 0 || t.shape()[own] == 1;
            plan.operands[k].strides[n] = spread ? 0 : t.strides()[own] * t.itemsize();
        }
        n++;
    }
    // Insertion sort by the first operand that distinguishes two dimensions; keeps row-major order on ties.
    auto slower = [&](int a, int b) {
        for (int k = 0; k < count; k++) {
            int64_t x = std::abs(plan.operands[k].strides[a]), y = std::abs(plan.operands[k].strides[b]);
            if (x == 0 || y == 0) continue;
            if (x != y) return x > y;
        }
        return false;
    };
    for (int i = 1; i < n; i++) {
        for (int j = i; j > 0 && slower(j - 1, j); j--) {
            std::swap(plan.shape[j - 1], plan.shape[j]);
            for (int k = 0; k < count; k++) std::swap(plan.operands[k].strides[j - 1], plan.operands[k].strides[j]);
        }
    }
    // Merge adjacent dimensions that are contiguous in every operand.
    int merged = 0;
    for (int d = 1; d < n; d++) {
        bool joins = true;
        for (int k = 0; k < count && joins; k++) {
            const int64_t* s = plan.operands[k].strides;
            joins = s[d] == s[merged] * plan.shape[merged];
        }
        if (joins) {
            plan.shape[merged] *= plan.shape[d];
        } else {
            merged++;
            plan.shape[merged] = plan.shape[d];
            for (int k = 0; k < count; k++) plan.operands[k].strides[merged] = plan.operands[k].strides[d];
        }
    }
    plan.ndim = n ? merged + 1 : 0;
}

}  // namespace fb
