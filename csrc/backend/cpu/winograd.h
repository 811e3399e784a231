// Winograd's convolution of float32 with 3 × 3 windows: four by four outputs from six by six inputs with 36 products
// instead of 144, and likewise its two gradients. Activations are channels-last, weights row-major, as in
// convolution.h.
//
// Note [Winograd and values that are not finite]: the transforms sum the inputs of a tile, so that one infinity or NaN
// would reach outputs whose windows do not contain it. Such a result is discarded (false), and the caller uses the
// direct algorithm. The same happens when sums overflow that the direct algorithm does not form.
#pragma once
#include "backend/cpu/convolution.h"

namespace fb::cpu {

// Each returns false if nothing was computed: Winograd is switched off, the shape is not supported or not faster, or a
// result is not finite. bias may be undefined.
bool winograd_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias);
bool winograd_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight);
bool winograd_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x);

enum class WinogradMode { Never, WhereFaster, WherePossible };
WinogradMode winograd_mode();
void set_winograd_mode(WinogradMode mode);

}  // namespace fb::cpu
