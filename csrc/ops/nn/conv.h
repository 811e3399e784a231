// Orders of memory for convolutions, and convolutions of patches.
#pragma once
#include "backend/cpu/onednn.h"
#include "ops/shape/create.h"

namespace fb {

inline MemoryFormat last_format(int64_t dim) {
    return dim == 5 ? MemoryFormat::ChannelsLast3d : MemoryFormat::ChannelsLast;
}
inline Dims last_strides(const Dims& shape) {
    if (shape.size() > 3) return format_strides(shape, last_format(shape.size()));
    return {shape[1] * shape[2], 1, shape[1]};
}
inline bool is_last(const Tensor& t) { return t.shape().contains(0) || t.strides() == last_strides(t.shape()); }
// Where sizes of 1 let the strides be anything, is_last may say no for nothing: the copy is then small.
Tensor channels_last(const Tensor& t);
// A result in channels-last order that the caller believes to be row-major, unless the inputs were channels-last.
Tensor last_result(const Dims& shape, DType dtype, bool promised);
// A channels-last tensor as a matrix of pixels and channels.
Tensor by_pixel(const Tensor& t);

// Windows that touch but do not overlap, as the patches of vision transformers: every pixel of the input lies in one
// window at most, so the input in another order is a matrix, and the convolution its product with the weights. y, gx
// are channels-last.
bool are_patches(const cpu::ConvShape& s);
void patches_forward(const cpu::ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias);
void patches_backward_input(const cpu::ConvShape& s, const Tensor& gx, const Tensor& g, const Tensor& w);
void patches_backward_weight(const cpu::ConvShape& s, const Tensor& gw, const Tensor& g, const Tensor& x);

}  // namespace fb
