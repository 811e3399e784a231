// Kernels of normalization: per-channel sums and affine maps over (batch, channels, pixels), and over rows.
#pragma once
#include <vector>

#include "device/normalization.h"

namespace fb::cpu {

using device::NormShape;

// All tensors are float32 or float64 of one dtype, unless noted; tables are float64.
// Mean and sum of squared distances from it.
void channel_moments(const NormShape& s, const Tensor& x, std::vector<double>& mean, std::vector<double>& spread);
// Excludes the elements of g where x * scale + shift is not positive; if undefined, excludes none.
struct Gate {
    Tensor scale, shift;
};
// Sums of g and of g * (x - center).
void channel_products(const NormShape& s, const Tensor& g, const Tensor& x, const Tensor& center, const Gate& gate,
                      std::vector<double>& sum, std::vector<double>& product);
// Sums of x.
void channel_sums(const NormShape& s, const Tensor& x, std::vector<double>& sum);
// y = x * scale + shift.
void channel_affine(const NormShape& s, const Tensor& y, const Tensor& x, const Tensor& scale, const Tensor& shift,
                    bool relu = false);
// gx = g * a + (x - center) * b + c.
void channel_combine(const NormShape& s, const Tensor& gx, const Tensor& g, const Tensor& x, const Tensor& center,
                     const Gate& gate, const Tensor& a, const Tensor& b, const Tensor& c);

// Rows of `size` elements; half types have float32 coefficients and statistics. Weight and bias have that size, or are
// undefined. Without `centered` the mean is taken as 0.
void row_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x, const Tensor& weight,
              const Tensor& bias, int64_t size, double eps, bool centered);
// gx, gw and gb may be undefined.
void row_norm_gradient(const Tensor& gx, const Tensor& gw, const Tensor& gb, const Tensor& g, const Tensor& x,
                       const Tensor& weight, const Tensor& mean, const Tensor& rstd, int64_t size, bool centered);

}  // namespace fb::cpu
