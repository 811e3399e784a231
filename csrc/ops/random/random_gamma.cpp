// Gamma and Dirichlet samples, and the derivatives of samples with respect to their parameters.
#include <limits>
#include <vector>

#include "device/random.h"
#include "ops/random/random.h"
#include "ops/table/elementwise.h"

namespace fb {
namespace {

// Shape parameters in double.
Tensor wide_shapes(const Tensor& shapes) {
    check_floating(shapes, "input");
    return contiguous(to_dtype(shapes, DType::F64));
}

// Samples are inside the support: if a dtype would round one to the border, it becomes the nearest number inside, so
// that densities and gradients stay finite.
struct Border {
    double tiny, below_one;
};
Border border(DType dtype) {
    switch (dtype) {
        case DType::F64:
            return {std::numeric_limits<double>::min(), 1 - 0x1p-53};
        case DType::F16:
            return {0x1p-14, 1 - 0x1p-11};
        case DType::BF16:
            return {std::numeric_limits<float>::min(), 1 - 0x1p-8};
        default:
            return {std::numeric_limits<float>::min(), 1 - 0x1p-24};
    }
}

// Tensors that broadcast together, in double, and the result.
struct Broadcast {
    std::vector<Tensor> wide;
    Tensor out;
    DType dtype;

    explicit Broadcast(std::initializer_list<const Tensor*> inputs) : dtype((*inputs.begin())->dtype()) {
        Dims shape;
        for (const Tensor* t : inputs) {
            if (!is_floating(t->dtype())) fail_type("needs floating point tensors, got ", t->dtype());
            shape = broadcast_shapes(shape, t->shape());
            dtype = promote(dtype, t->dtype());
        }
        for (const Tensor* t : inputs) wide.push_back(contiguous(expand(to_dtype(*t, DType::F64), shape)));
        out = empty(shape, DType::F64, wide[0].device());
    }
    bool fine() const { return dtype == DType::F64; }
};

}  // namespace

OP("_standard_gamma(Tensor input, Generator? generator=None) -> Tensor", FUNCTION,
   R"(Samples of gamma distributions with rate 1; gradients move each sample at its quantile.

Args:
    input: the shape parameters, not negative.
    generator: source of the random numbers; the default generator if not given.

Example:
    >>> fb._standard_gamma(fb.zeros(2))
    tensor([1.1755e-38, 1.1755e-38])
)") {
    Tensor shapes = wide_shapes(a.tensor(0)), out = empty(shapes.shape(), DType::F64, shapes.device());
    device::drawing(out).gamma(out, shapes, border(a.tensor(0).dtype()).tiny, *a.generator(1));
    return to_dtype(out, a.tensor(0).dtype());
}

OP("_standard_gamma_grad(Tensor input, Tensor output) -> Tensor", FUNCTION | ELEMENTWISE,
   R"(How samples of gamma distributions with rate 1 move with the shape parameter.

Args:
    input: the shape parameters.
    output: the samples.

Example:
    >>> fb._standard_gamma_grad(fb.ones(1), fb.zeros(1))
    tensor([0.])
)") {
    Broadcast b{&a.tensor(0), &a.tensor(1)};
    device::drawing(b.out).gamma_slope(b.out, b.wide[0], b.wide[1], b.fine());
    return to_dtype(b.out, b.dtype);
}

OP("_sample_dirichlet(Tensor input, Generator? generator=None) -> Tensor", FUNCTION,
   R"(Samples of Dirichlet distributions over the last dimension; gradients move each part at its quantile.

Args:
    input: the concentrations, positive.
    generator: source of the random numbers; the default generator if not given.

Example:
    >>> fb._sample_dirichlet(fb.ones(1)).round()
    tensor([1.])
)") {
    const Tensor& input = a.tensor(0);
    check(input.dim() > 0, "input must have at least one dimension, got a 0-d tensor");
    Tensor shapes = wide_shapes(input), out = empty(shapes.shape(), DType::F64, shapes.device());
    Border b = border(input.dtype());
    device::drawing(out).dirichlet(out, shapes, input.shape().back(), b.tiny, b.below_one, *a.generator(1));
    return to_dtype(out, input.dtype());
}

OP("_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor", FUNCTION | ELEMENTWISE,
   R"(How parts of Dirichlet samples move with their own concentration, divided by one minus the part.

Args:
    x: the parts, from 0 to 1.
    alpha: their concentrations.
    total: the sum of the concentrations.

Example:
    >>> fb._dirichlet_grad(fb.zeros(1), fb.ones(1), fb.tensor([2.]))
    tensor([0.])
)") {
    Broadcast b{&a.tensor(0), &a.tensor(1), &a.tensor(2)};
    device::drawing(b.out).dirichlet_slope(b.out, b.wide[0], b.wide[1], b.wide[2], b.fine());
    return to_dtype(b.out, b.dtype);
}

}  // namespace fb
