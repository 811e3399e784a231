// Iterating over a loop plan run by run.
#pragma once
#include "tensor/plan.h"

namespace fb::cpu {

// Calls f(at, n) for every innermost run of rows [first, last) of a plan; at[k] points to the run's first element of
// operand k. Rows come in row-major order of the plan.
template <class F>
void walk_runs(const LoopPlan& plan, int64_t first, int64_t last, F&& f) {
    char* at[max_operands] = {};
    int64_t index[max_dims];
    for (int k = 0; k < plan.count; k++) at[k] = plan.operands[k].data;
    if (plan.ndim == 0) {
        if (first < last) f(at, int64_t(1));
        return;
    }
    int64_t rest = first;
    for (int d = 1; d < plan.ndim; d++) {
        index[d] = rest % plan.shape[d];
        rest /= plan.shape[d];
        for (int k = 0; k < plan.count; k++) at[k] += index[d] * plan.operands[k].strides[d];
    }
    for (int64_t row = first; row < last; row++) {
        f(at, plan.shape[0]);
        for (int d = 1; d < plan.ndim; d++) {
            for (int k = 0; k < plan.count; k++) at[k] += plan.operands[k].strides[d];
            if (++index[d] < plan.shape[d]) break;
            for (int k = 0; k < plan.count; k++) at[k] -= index[d] * plan.operands[k].strides[d];
            index[d] = 0;
        }
    }
}
inline int64_t row_count(const LoopPlan& plan) {
    return plan.numel == 0 ? 0 : plan.ndim == 0 ? 1 : plan.numel / plan.shape[0];
}

}  // namespace fb::cpu
