// Normalization over channels of a batch, over groups of channels, and over rows. Each also writes the mean and the
// reciprocal standard deviation that its gradient needs. Tensors are float32 or float64 of one dtype; rows may have a
// half type, with coefficients and statistics in float32. `x`, `y`, `g` and `gx` are contiguous in the order that the
// shape names. Weights, biases and gradients that may be undefined are marked.
#pragma once
#include "device/table.h"

namespace fb::device {

// A batch of samples, either row-major planes or channels-last, where each sample is cut into `parts` runs of pixels.
// Tables have one entry per segment (batch * parts) and channel. If all samples share statistics, `shared` is set and
// there is one coefficient per channel, else one per sample and channel.
struct NormShape {
    int64_t batch = 1, channels = 1, pixels = 1;
    bool last = false, shared = true;
    int64_t parts = 1;

    int64_t segments() const { return batch * parts; }
    int64_t first_pixel(int64_t part) const { return part * pixels / parts; }
    int64_t part_size(int64_t part) const { return first_pixel(part + 1) - first_pixel(part); }
};

// Weight and bias of a channel or of a position in a row; both may be undefined.
struct Affine {
    Tensor weight, bias;
};
// The statistics used to normalize a channel.
struct Statistics {
    Tensor mean, rstd;
};
// float64 running statistics, which training moves towards those of the batch; both may be undefined.
struct Running {
    Tensor mean, variance;
    double momentum;
};
struct NormGradients {
    Tensor input, weight, bias;
};

struct Normalizing {
    // Uses the statistics of the batch when `training`, else those in `running`, of x's dtype. shift: added to the
    // scaled input, one per channel. relu: clamps negative results to zero.
    void (*batch)(const NormShape& s, const Tensor& y, const Statistics& made, const Tensor& shift, const Tensor& x,
                  const Affine& affine, const Running& running, bool training, double eps, bool relu);
    // The gradient of the input may be undefined. shifted: the `shift` of the forward pass if a relu followed, else
    // undefined.
    void (*batch_gradient)(const NormShape& s, const NormGradients& to, const Tensor& g, const Tensor& x,
                           const Tensor& weight, const Statistics& made, const Tensor& shifted, bool training);
    // The sum of each channel over all samples.
    void (*channel_sum)(const NormShape& s, const Tensor& to, const Tensor& x);
    // Statistics of shape (batch, groups).
    void (*group)(const NormShape& s, const Tensor& y, const Statistics& made, const Tensor& x, const Affine& affine,
                  int64_t groups, double eps);
    void (*group_gradient)(const NormShape& s, const NormGradients& to, const Tensor& g, const Tensor& x,
                           const Tensor& weight, const Statistics& made, int64_t groups);
    // Rows of `size` elements. Without `centered` the mean is taken as 0, and undefined.
    void (*rows)(const Tensor& y, const Statistics& made, const Tensor& x, const Affine& affine, int64_t size,
                 double eps, bool centered);
    // Each gradient may be undefined.
    void (*rows_gradient)(const NormGradients& to, const Tensor& g, const Tensor& x, const Tensor& weight,
                          const Statistics& made, int64_t size, bool centered);
};
inline const Normalizing& normalizing(const Tensor& on) { return device::on<Normalizing>(on.device()); }

}  // namespace fb::device
