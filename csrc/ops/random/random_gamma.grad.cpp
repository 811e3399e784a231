// Gradients of gamma and Dirichlet samples.
#include "ops/table/gradient.h"

namespace fb {

GRAD("_standard_gamma", IN(0) | RESULT(0)) { c.set(0, c.g() * call<"_standard_gamma_grad">(c.in(0), c.out())); }
// If one part grows, the others shrink in proportion.
GRAD("_sample_dirichlet", IN(0) | RESULT(0)) {
    Var x = c.out(), total = call<"sum">(c.in(0), Dims{-1}, true);
    Var slope = call<"_dirichlet_grad">(x, c.in(0), total);
    c.set(0, slope * (c.g() - call<"sum">(x * c.g(), Dims{-1}, true)));
}
GRAD("_standard_gamma_grad|_dirichlet_grad") {
    fail(ErrorKind::NotImplemented,
         "second derivatives of gamma and Dirichlet samples are not implemented; detach() the parameters");
}

}  // namespace fb
