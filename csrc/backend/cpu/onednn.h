// oneDNN: convolutions of float32 in channels-last order. Primitives are kept in a bounded cache.
#pragma once
#include "backend/cpu/convolution.h"

namespace fb::cpu {

// Tensors as for Direct in device/convolution.h.
void onednn_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias);
void onednn_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight);
void onednn_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x);

// What is kept for shapes seen before, and how much may be.
struct ConvPlans {
    size_t plans, most_plans;      // ready to run, the ones used last
    size_t kernels, most_kernels;  // whose code oneDNN never frees
};
ConvPlans conv_plans();
std::string onednn_version();

}  // namespace fb::cpu
