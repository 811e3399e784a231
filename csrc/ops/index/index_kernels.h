// Kernels shared by indexing, gather, scatter and the masked ops. Everything here has been checked by the callers
// except the values of indices, which are checked where they are turned into offsets.
#pragma once
#include "ops/table/common.h"
#include "tensor/plan.h"

namespace fb::cpu {

// How a value meets the element it is written to.
enum class Meet { Assign, Add, Multiply, Max, Min };

// Calls f(at, n) for every innermost run of rows [first, last) of a plan; at[k] points at the run's first element of
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

// offsets[i] += index[i] * stride for a contiguous int64 `offsets` and any integer `indices` that broadcasts to it (the
// first call sets). An index outside [-size, size), or [0, size) without `wrap`, is an IndexError.
void add_offsets(const Tensor& offsets, const Tensor& indices, int64_t dim, int64_t size, int64_t stride, bool wrap,
                 bool set);
// Checks all of `indices` against [0, size).
void check_indices(const Tensor& indices, int64_t dim, int64_t size);

// Byte offsets of the elements a contiguous mask selects, strides in bytes per mask dimension.
Tensor mask_offsets(const Tensor& mask, const Dims& strides);
// The selected elements of `t`, both contiguous and of one shape.
Tensor mask_select(const Tensor& t, const Tensor& mask);
// Coordinates of the true elements of a contiguous mask: int64 (count, dim).
Tensor mask_coordinates(const Tensor& mask);
int64_t count_true(const Tensor& mask);

// to[b, i, a] = from[b, offsets[i], a]: `rows` is from without the indexed dimensions at index 0; `before` dimensions
// of it come first. `to` is contiguous.
void gather_rows(const Tensor& to, const Tensor& rows, const Tensor& offsets, int64_t before);
// to[b, offsets[i], a] ∘= from[b, i, a]; `rows` is the written tensor without the indexed dimensions, `from` has shape
// (before…, n, after…). The values that meet one element do so in the order of i.
void scatter_rows(const Tensor& rows, const Tensor& from, const Tensor& offsets, int64_t before, Meet meet);

// to = where(mask, value, from); `from` and `mask` broadcast to `to`, `value` is 0-d of the same dtype. to may be from.
void mask_fill(const Tensor& to, const Tensor& from, const Tensor& mask, const Tensor& value);

}  // namespace fb::cpu
