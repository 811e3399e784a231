// Entry points for ops that compute a formula: they promote, broadcast, allocate the output and launch it.
#pragma once
#include "device/formula.h"
#include "ops/table/common.h"
#include "ops/table/elementwise.h"

namespace fb::ew {

// out = formula(inputs…), computed in the compute type of `common`; `result` is the dtype of a new output.
Tensor launch(Args& a, const Formula& formula, Tensors inputs, DType result, DType common,
              const Numbers* numbers = nullptr);

// The common cases: the row and the inputs' dtypes determine the result's dtype.
Tensor unary(Args& a, const Tensor& x, const Formula& formula, const Numbers* numbers = nullptr);
Tensor binary(Args& a, const Tensor& x, const Tensor& y, const Formula& formula, const Numbers* numbers = nullptr);
Tensor ternary(Args& a, const Tensor& x, const Tensor& y, const Tensor& z, const Formula& formula);

// Raises an error unless the formula is defined for the compute type of `d`; the message names `shown`.
void check_domain(const Formula& formula, DType d, DType shown);
// Raises an error for integer division by zero, before anything is written; floats divide to inf and nan.
void check_divisor(const Tensor& x, const Tensor& y);

// For other families: without out=.
Tensor unary(const Tensor& x, const Formula& formula);

}  // namespace fb::ew
