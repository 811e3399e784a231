// Random numbers. Every primitive reserves its counters from the generator first, so a number depends only on the
// generator's state and the element's index. Tensors are contiguous and not empty.
#pragma once
#include "base/generator.h"
#include "device/table.h"

namespace fb::device {

// Distributions that are functions of one uniform number, with up to two parameters.
enum class FromUniform {
    Exponential,  // rate
    Geometric,    // probability of success
    Cauchy,       // median, half width
};

struct Drawing {
    // t is floating point; for `integers` any real dtype, for `bernoulli` any dtype.
    void (*uniform)(const Tensor& t, double from, double to, Generator& generator);
    void (*normal)(const Tensor& t, double mean, double std, Generator& generator);
    // low ≤ x < low + span, where a span of 0 means 2⁶⁴.
    void (*integers)(const Tensor& t, int64_t low, uint64_t span, Generator& generator);
    void (*bernoulli)(const Tensor& t, double p, Generator& generator);
    void (*from_uniform)(const Tensor& t, FromUniform which, double a, double b, Generator& generator);
    // The logarithm of the numbers is normal; float32 or float64.
    void (*log_normal)(const Tensor& t, double mean, double std, Generator& generator);

    // Bernoulli with probabilities of the result's shape, which are checked. float32 or float64.
    void (*hits)(const Tensor& out, const Tensor& p, Generator& generator);
    // out, mean: may be complex; std: real.
    void (*normal_around)(const Tensor& out, const Tensor& mean, const Tensor& std, Generator& generator);
    // float64.
    void (*poisson)(const Tensor& out, const Tensor& mean, Generator& generator);
    void (*binomial)(const Tensor& out, const Tensor& count, const Tensor& p, Generator& generator);
    // Indices (rows, count) into rows of n weights.
    void (*multinomial)(const Tensor& out, const Tensor& weights, int64_t rows, int64_t count, bool replacement,
                        Generator& generator);
    // A random permutation of 0, 1, …; int32 or int64.
    void (*permutation)(const Tensor& out, Generator& generator);

    // Samples of Gamma(shape, 1), at least `tiny`, and of Dirichlet distributions of `parts` parts each, clamped to
    // [tiny, most]. float64.
    void (*gamma)(const Tensor& out, const Tensor& shape, double tiny, Generator& generator);
    void (*dirichlet)(const Tensor& out, const Tensor& shape, int64_t parts, double tiny, double most,
                      Generator& generator);
    // The derivative of a sample with respect to its parameter; `fine`: to double precision. float64.
    void (*gamma_slope)(const Tensor& out, const Tensor& shape, const Tensor& sample, bool fine);
    void (*dirichlet_slope)(const Tensor& out, const Tensor& sample, const Tensor& shape, const Tensor& total,
                            bool fine);
};
inline const Drawing& drawing(const Tensor& on) { return device::on<Drawing>(on.device()); }

}  // namespace fb::device
