// Winograd's convolution of float32 by 3 × 3 windows: four by four outputs from six by six inputs with 36 products
// instead of 144, and the two gradients with as few. Activations are channels-last, weights row-major, as in
// convolution.h.
//
// Note [Winograd and values that are not finite]: the transforms add up the inputs of a tile, so that one infinity or
// NaN would reach outputs whose windows do not hold it. Such a result is thrown away (false), the caller takes the
// direct way. The same happens where sums overflow that the direct way does not form.
#pragma once
#include "backend/cpu/convolution.h"

namespace fb::cpu {

// Each returns false when nothing was computed: switched off, a shape that is not supported or not faster this way, or
// a result that is not finite. bias may be undefined.
bool winograd_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias);
bool winograd_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight);
bool winograd_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x);

enum class WinogradMode { Never, WhereFaster, WherePossible };
WinogradMode winograd_mode();
void set_winograd_mode(WinogradMode mode);

}  // namespace fb::cpu
