// oneDNN: convolutions of float32 in channels-last order. Primitives are kept in a bounded cache.
#pragma once
#include "tensor/tensor.h"

namespace fb::cpu {

// A convolution of up to three spatial dimensions; those that are missing come first, with size 1.
struct ConvShape {
    int64_t batch, in_channels, out_channels, groups;
    int64_t in[3], kernel[3], out[3], stride[3], padding[3], dilation[3];
    int64_t spatial;  // how many there are
    int64_t per_group() const { return in_channels / groups; }
};

// Tensors are channels-last (strides checked by the caller), weights row-major (out, in / groups, …).
void conv_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias);
void conv_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight);
// gbias may be undefined.
void conv_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gbias, const Tensor& gy,
                          const Tensor& x);
// Our own where every channel has its own weight; false where it does not fit (depthwise.cpp).
bool depthwise_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x);
// The same for few input channels (conv_few.cpp).
bool few_channels_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x);
// Depthwise convolutions of row-major images with float32 or float64; false where a number is not finite
// (depthwise_planes.cpp).
bool depthwise_planes_fit(const ConvShape& s, DType d);
bool depthwise_planes_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight,
                              const Tensor& bias);
bool depthwise_planes_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight);
bool depthwise_planes_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x);

// What is kept for shapes seen before, and how much may be.
struct ConvPlans {
    size_t plans, most_plans;      // ready to run, the ones used last
    size_t kernels, most_kernels;  // whose code oneDNN never frees
};
ConvPlans conv_plans();
std::string onednn_version();

}  // namespace fb::cpu
