// Convolutions: the shape of a problem, the algorithms an op can compose of primitives, and the primitives.
#pragma once
#include "device/table.h"

namespace fb::device {

// A convolution of up to three spatial dimensions; missing ones come first, with size 1.
struct ConvShape {
    int64_t batch, in_channels, out_channels, groups;
    int64_t in[3], kernel[3], out[3], stride[3], padding[3], dilation[3];
    int64_t spatial;  // number of spatial dimensions

    int64_t per_group() const { return in_channels / groups; }
    int64_t pixels() const { return in[0] * in[1] * in[2]; }
    int64_t places() const { return out[0] * out[1] * out[2]; }
    int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
    // Whether windows touch without overlapping, like the patches of vision transformers.
    bool is_patches() const;
};

enum class ConvPass { Forward, BackwardInput, BackwardWeight };
enum class ConvAlgorithm {
    Direct,          // channels-last, by kernels of the device
    Planes,          // row-major images, a weight per channel (depthwise); fails on values that are not finite
    Product,         // 1 × 1 windows: one matrix product over all pixels, channels-last
    ProductByImage,  // the same without reordering row-major images: a product per image
    Patches,         // every pixel is in at most one window: the reordered input is a matrix
    Columns,         // a product with the unfolded input (im2col), for all dtypes
};

struct Convolving {
    // The fastest algorithm for a problem; `given` is the input, or for the gradient of the input the gradient of the
    // result. With `planes` false (Planes has failed), the next best.
    ConvAlgorithm (*choose)(ConvPass pass, const ConvShape& s, const Tensor& given, bool planes);
    // Direct: channels-last tensors, weights row-major (out, in / groups, …). The bias may be undefined.
    void (*forward)(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias);
    void (*backward_input)(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight);
    void (*backward_weight)(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x);
    // Planes: contiguous tensors; returns false if a number is not finite.
    bool (*planes_forward)(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight,
                           const Tensor& bias);
    bool (*planes_backward_input)(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight);
    bool (*planes_backward_weight)(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x);
    // Columns: unfold writes (batch, groups, channels per group * taps, positions) from row-major images, where a tap
    // is inside the image; fold adds columns to the pixels they came from. All dtypes; results are zero-initialised.
    void (*unfold)(const ConvShape& s, const Tensor& columns, const Tensor& x);
    void (*fold)(const ConvShape& s, const Tensor& x, const Tensor& columns);
    // When 3 × 3 convolutions use Winograd's algorithm: 0 never, 1 where it is faster, 2 wherever it is possible. Sets
    // the mode unless it is negative.
    int64_t (*winograd_mode)(int64_t mode);
};
inline const Convolving& convolving(const Tensor& on) { return device::on<Convolving>(on.device()); }

}  // namespace fb::device
