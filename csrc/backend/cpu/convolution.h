// Kernels of convolutions on the CPU; see device::Convolving.
#pragma once
#include "device/convolution.h"

namespace fb::cpu {

using device::ConvShape;

// Planes: float32 or float64; false if a number is not finite (depthwise_planes.cpp).
bool depthwise_planes_fit(const ConvShape& s, DType d);
bool depthwise_planes_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight,
                              const Tensor& bias);
bool depthwise_planes_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight);
bool depthwise_planes_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x);

// Kernels of Direct for some shapes only; they return false for others. For depthwise convolutions (depthwise.cpp), and
// for few channels (conv_few.cpp).
bool depthwise_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x);
bool few_channels_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight);
bool few_channels_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x);

// For small groups of channels (conv_groups.cpp).
bool grouped_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias);
bool grouped_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight);
bool grouped_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x);

// Kernels of Direct for all shapes and floating dtypes: implicit products with windows (conv_gemm.cpp,
// conv_gemm_weight.cpp).
void implicit_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias);
void implicit_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight);
void implicit_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x);

}  // namespace fb::cpu
