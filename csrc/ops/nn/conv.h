// Shared by the parts of convolution: windows, results and convolutions of patches.
#pragma once
#include "device/convolution.h"
#include "ops/nn/channels.h"

namespace fb {

using device::ConvAlgorithm;
using device::ConvPass;
using device::ConvShape;

// A result in channels-last order, with the dtype and device of `like`, whose layout is free (promised row-major)
// unless the inputs were channels-last.
Tensor last_result(const Dims& shape, const Tensor& like, bool promised);
// A channels-last tensor as a matrix (pixels, channels).
Tensor by_pixel(const Tensor& t);

// Stride, padding and so on of a convolution, one value for each spatial dimension.
struct ConvWindow {
    Dims stride, padding, dilation, output_padding;
    int64_t groups;
};
Dims per_dimension(const Dims& given, int64_t spatial, const char* name);
// The ConvShape of a forward convolution from x to y with this weight.
ConvShape conv_shape(const Dims& x, const Dims& w, const Dims& y, const ConvWindow& o);
// Whether the gradients of a convolution of x are computed on row-major images.
bool keeps_planes(const ConvShape& s, const Tensor& x);

// Convolutions of patches as products of matrices. y, gx are channels-last.
void patches_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias);
void patches_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& g, const Tensor& w);
void patches_backward_weight(const ConvShape& s, const Tensor& gw, const Tensor& g, const Tensor& x);

}  // namespace fb
