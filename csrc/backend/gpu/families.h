// The primitives that have kernels on accelerators. Those that answer bool return false where they have none for the
// dtypes or the layout at hand; the caller then runs on the CPU.
#pragma once
#include "device/loop.h"
#include "device/matmul.h"
#include "device/move.h"
#include "device/reduce.h"

namespace fb::gpu {

// As in device/move.h; each side may be on the host.
void copy(const Tensor& to, const Tensor& from);
void fill(const Tensor& to, const char* element);
void write(const Tensor& to, const void* from);

bool run_loop(const Formula& formula, DType common, const Tensor& out, const Tensor* const* in, const Numbers* numbers);
// to = from, converted, both on the device.
bool run_copy(const Tensor& to, const Tensor& from);
bool run_reduction(device::Reduction how, DType read, const Tensor& in, const Dims& reduced, const Tensor* outs,
                   const double* numbers);
bool run_product(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& alpha, const Scalar& beta);

}  // namespace fb::gpu
