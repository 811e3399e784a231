// Sampling with parameters from tensors; see device::Drawing.
#pragma once
#include "base/generator.h"
#include "tensor/tensor.h"

namespace fb::cpu {

void sample_hits(const Tensor& out, const Tensor& p, Generator& generator);
void sample_poisson(const Tensor& out, const Tensor& mean, Generator& generator);
void sample_binomial(const Tensor& out, const Tensor& count, const Tensor& p, Generator& generator);
void sample_multinomial(const Tensor& out, const Tensor& weights, int64_t rows, int64_t count, bool replacement,
                        Generator& generator);
void permutation(const Tensor& out, Generator& generator);

void sample_gamma(const Tensor& out, const Tensor& shape, double tiny, Generator& generator);
void sample_dirichlet(const Tensor& out, const Tensor& shape, int64_t parts, double tiny, double most,
                      Generator& generator);
void gamma_slopes(const Tensor& out, const Tensor& shape, const Tensor& sample, bool fine);
void dirichlet_slopes(const Tensor& out, const Tensor& sample, const Tensor& shape, const Tensor& total, bool fine);

}  // namespace fb::cpu
