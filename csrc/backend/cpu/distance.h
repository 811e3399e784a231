// Distances between rows; see device::Multiplying.
#pragma once
#include "tensor/tensor.h"

namespace fb::cpu {

void distances(const Tensor& out, const Tensor& x, const Tensor& y, double p, bool by_product);
void pair_distances(const Tensor& out, const Tensor& x, double p);
void distance_slopes(const Tensor& out, const Tensor& g, const Tensor& x, const Tensor& y, double p, const Tensor& d);

}  // namespace fb::cpu
