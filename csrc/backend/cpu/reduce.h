// The kernels of device::Reducing, by dtype of the elements read; implemented in several files.
#pragma once
#include "backend/cpu/reduce_driver.h"

namespace fb::cpu {

ReduceKernel sum_kernel(DType d);
ReduceKernel nansum_kernel(DType d);
ReduceKernel mean_kernel(DType d);  // context: double, the count
ReduceKernel prod_kernel(DType d);
ReduceKernel count_kernel(DType d);
ReduceKernel truth_kernel(DType d, bool all);
ReduceKernel extreme_kernel(DType d, bool largest);
ReduceKernel aminmax_kernel(DType d);
ReduceKernel moments_kernel(DType d);           // context: doubles, the correction and whether to take the root
ReduceKernel norm_kernel(DType d, double ord);  // orders 0, 1, 2, ±inf only
ReduceKernel logsumexp_kernel(DType d);

void extreme_along(const Tensor& in, int64_t dim, bool largest, const Tensor& values, const Tensor& indices);
void absolute_power(const Tensor& in, const Tensor& out, double ord);
void take_root(const Tensor& t, double ord);

}  // namespace fb::cpu
