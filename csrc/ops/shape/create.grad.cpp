// Ops whose results are not differentiable functions of their inputs: new tensors, random numbers, comparisons,
// positions.
#include "ops/table/gradient.h"

namespace fb {

NO_GRAD(
    "empty|zeros|ones|full|empty_like|zeros_like|ones_like|full_like|new_empty|new_zeros|new_ones|new_full|"
    "new_empty_strided|empty_strided|empty_permuted|scalar_tensor|arange|linspace|logspace|eye|tril_indices|"
    "triu_indices|_result_type|_show_unset");
NO_GRAD(
    "where(Tensor condition) |nonzero|nonzero_static|nonzero_numpy|argwhere|isclose|allclose|equal|gcd|lcm|"
    "bitwise_and|bitwise_or|bitwise_xor|bitwise_left_shift|bitwise_right_shift");

// Random numbers are constants.
NO_GRAD("rand|randn|randint|rand_like|randn_like|randint_like|randperm|multinomial|normal(float mean, float std");
// Samples drawn with tensor parameters stay in the history with gradients of zero.
static void set_zeros(GradCall& c, int tensors) {
    for (int i = 0; i < tensors; i++) {
        if (c.needs(i)) c.set(i, zeros_of(c.shape(i), c.dtype(i), c.device()));
    }
}
GRAD(
    "uniform_|normal_|random_|exponential_|geometric_|cauchy_|log_normal_|bernoulli_(Tensor input, float|bernoulli|"
    "poisson|normal(Tensor mean, float") {
    set_zeros(c, 1);
}
GRAD("bernoulli_(Tensor input, Tensor|normal(Tensor mean, Tensor std|binomial") { set_zeros(c, 2); }
GRAD("normal(float mean, Tensor std") { c.set(1, zeros_of(c.shape(1), c.dtype(1), c.device())); }

GRAD("_bin_counts") {
    fail(ErrorKind::NotImplemented, "the derivative for histogram is not implemented; detach() its input");
}
GRAD("unique|unique_consecutive") {
    fail(ErrorKind::NotImplemented, "the derivative for unique is not implemented; detach() its input");
}

}  // namespace fb
