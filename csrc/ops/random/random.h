// Random fills for other families. Every fill reserves its counters from the generator first, so a number depends only
// on the generator's state and the element's index.
#pragma once
#include "base/generator.h"
#include "ops/table/common.h"

namespace fb {

// Each writes all elements of `t` (any strides) and returns it.
Tensor fill_uniform(const Tensor& t, double from, double to, Generator& generator);
Tensor fill_normal(const Tensor& t, double mean, double std, Generator& generator);
// Integers low ≤ x < high, where the range may be all 64 bits: `span` = high - low, 0 meaning 2⁶⁴.
Tensor fill_integers(const Tensor& t, int64_t low, uint64_t span, Generator& generator);
Tensor fill_bernoulli(const Tensor& t, double p, Generator& generator);
Tensor fill_exponential(const Tensor& t, double rate, Generator& generator);

// Raises an error that names the argument, or the op's own tensor.
inline void check_floating(const Tensor& t, const char* which = nullptr) {
    if (is_floating(t.dtype())) return;
    if (which) fail_type(which, " must be a floating point tensor, got ", t.dtype());
    fail_type("needs a floating point tensor, got ", t.dtype());
}

}  // namespace fb
