// The choice of convolution algorithms, and convolutions as products with unfolded columns (im2col).
//
// Note [Convolution algorithms]: which code computes a convolution.
// - float32, 3 x 3 windows with stride 1: Winograd's F(4 x 4, 3 x 3) where it is faster (winograd*.cpp). It
//   needs a quarter of the multiplications, and its points are chosen so that the error stays near that of the direct
//   sum. A result that is not finite is recomputed directly. Groups of channels are computed one after the other.
// - 1 x 1 windows: matrix products over all pixels, or for each row-major image. The same holds for the gradients of
//   windows that touch but do not overlap, such as the patches of vision transformers (ops/nn/conv_patches.cpp).
// - Depthwise and small groups of channels: sums over taps for a vector of channels (conv_groups.cpp). Row-major images
//   stay row-major through depthwise layers with stride 1 (depthwise_planes.cpp).
// - Gradients of depthwise weights, and of layers with few channels, in float32: depthwise.cpp, conv_few.cpp.
// - All others of floating dtypes: matrix products, channels-last, whose left factor is the windows, read in place or
//   gathered some rows at a time (conv_gemm.cpp, conv_gemm_weight.cpp).
// - Other dtypes: unfolded columns and matrix products.
#include "backend/cpu/convolution.h"

#include "backend/cpu/winograd.h"
#include "base/bool.h"
#include "base/parallel.h"
#include "tensor/layout.h"

namespace fb::cpu {
namespace {

using device::ConvAlgorithm;
using device::ConvPass;

// ---- the choice -----------------------------------------------------------------------------------------------------

// A 1 × 1 convolution is a matrix product.
bool is_product(const ConvShape& s) {
    bool pixel = s.groups == 1 && s.batch * s.pixels() > 1;
    for (int i = 0; i < 3; i++) pixel = pixel && s.kernel[i] == 1 && s.stride[i] == 1 && s.padding[i] == 0;
    return pixel;
}

// Row-major, also by the strides of dimensions of size 1, which could be arbitrary: they show which order the caller
// meant.
bool is_planes(const Tensor& t) { return t.is_contiguous() && t.strides() != channels_last_strides(t.shape()); }

// Row-major images keep their layout in depthwise convolutions.
bool stays_planes(const ConvShape& s, const Tensor& t) { return depthwise_planes_fit(s, t.dtype()) && is_planes(t); }

// The only place that chooses the algorithm.
ConvAlgorithm choose(ConvPass pass, const ConvShape& s, const Tensor& given, bool planes) {
    using enum ConvAlgorithm;
    bool forward = pass == ConvPass::Forward, floating = is_floating(given.dtype());
    // Row-major inputs need no reordering.
    if (floating && is_product(s)) return forward && is_planes(given) && s.pixels() >= 64 ? ProductByImage : Product;
    // In the forward pass, gathering windows is as fast.
    if (s.is_patches() && !(forward && floating)) return Patches;
    if (planes && stays_planes(s, given)) return Planes;
    return floating ? Direct : Columns;
}

// ---- direct ---------------------------------------------------------------------------------------------------------

void conv_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
    if (x.dtype() == DType::F32 && winograd_forward(s, y, x, weight, bias)) return;
    if (!grouped_forward(s, y, x, weight, bias)) implicit_forward(s, y, x, weight, bias);
}
void conv_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight) {
    if (gy.dtype() == DType::F32 &&
        (winograd_backward_input(s, gx, gy, weight) || few_channels_backward_input(s, gx, gy, weight)))
        return;
    if (!grouped_backward_input(s, gx, gy, weight)) implicit_backward_input(s, gx, gy, weight);
}
void conv_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x) {
    if (x.dtype() == DType::F32 &&
        (winograd_backward_weight(s, gweight, gy, x) || depthwise_backward_weight(s, gweight, gy, x) ||
         few_channels_backward_weight(s, gweight, gy, x)))
        return;
    if (!grouped_backward_weight(s, gweight, gy, x)) implicit_backward_weight(s, gweight, gy, x);
}

// ---- columns --------------------------------------------------------------------------------------------------------

// Calls f(column row, output position, input offset) for every tap inside the input of one image and channel.
template <class F>
void each_tap(const ConvShape& s, F f) {
    int64_t row = 0;
    for (int64_t a = 0; a < s.kernel[0]; a++)
        for (int64_t b = 0; b < s.kernel[1]; b++)
            for (int64_t c = 0; c < s.kernel[2]; c++, row++) {
                int64_t position = 0;
                for (int64_t i = 0; i < s.out[0]; i++) {
                    int64_t z = i * s.stride[0] - s.padding[0] + a * s.dilation[0];
                    for (int64_t j = 0; j < s.out[1]; j++) {
                        int64_t y = j * s.stride[1] - s.padding[1] + b * s.dilation[1];
                        bool inside = z >= 0 && z < s.in[0] && y >= 0 && y < s.in[1];
                        for (int64_t k = 0; k < s.out[2]; k++, position++) {
                            int64_t x = k * s.stride[2] - s.padding[2] + c * s.dilation[2];
                            if (inside && x >= 0 && x < s.in[2]) f(row, position, (z * s.in[1] + y) * s.in[2] + x);
                        }
                    }
                }
            }
}

void unfold_columns(const ConvShape& s, const Tensor& columns, const Tensor& x) {
    int64_t taps = s.taps(), places = s.places(), pixels = s.pixels();
    dispatch_size(x.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* source = x.data<T>();
        T* target = columns.data<T>();
        parallel_for(s.batch * s.in_channels, 1, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; i++)
                each_tap(s, [&](int64_t row, int64_t position, int64_t offset) {
                    target[(i * taps + row) * places + position] = source[i * pixels + offset];
                });
        });
    });
}

void fold_columns(const ConvShape& s, const Tensor& x, const Tensor& columns) {
    int64_t taps = s.taps(), places = s.places(), pixels = s.pixels();
    dispatch_all(columns.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const Stored<T>* source = columns.data<Stored<T>>();
        T* target = x.data<T>();
        parallel_for(s.batch * s.in_channels, 1, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; i++)
                each_tap(s, [&](int64_t row, int64_t position, int64_t offset) {
                    T& sum = target[i * pixels + offset];
                    sum = T(sum + source[(i * taps + row) * places + position]);
                });
        });
    });
}

// ---- what the device offers -----------------------------------------------------------------------------------------

int64_t set_winograd(int64_t mode) {
    if (mode >= 0) set_winograd_mode(static_cast<WinogradMode>(mode));
    return static_cast<int64_t>(winograd_mode());
}

const device::Provide<device::Convolving> provided(DeviceType::CPU,
                                                   {.choose = choose,
                                                    .forward = conv_forward,
                                                    .backward_input = conv_backward_input,
                                                    .backward_weight = conv_backward_weight,
                                                    .planes_forward = depthwise_planes_forward,
                                                    .planes_backward_input = depthwise_planes_backward_input,
                                                    .planes_backward_weight = depthwise_planes_backward_weight,
                                                    .unfold = unfold_columns,
                                                    .fold = fold_columns,
                                                    .winograd_mode = set_winograd});

}  // namespace
}  // namespace fb::cpu
