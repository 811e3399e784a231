// The gradients of a linear map with quantized weight, for its input and bias.
#include "ops/linear/linear.h"
#include "ops/table/gradient.h"

namespace fb {

GRAD("_nn.quantized_linear", IN(1) | IN(2) | IN(3), 0, 0, 0, 0) {
    Var g = c.g();
    Var rows = reshape(g, Dims{-1, g.shape().back()});
    if (c.needs(0)) {
        Var weight = call<"_nn.dequantize">(c.in(1), c.given(2) ? c.in(2) : Var(), c.given(3) ? c.in(3) : Var(),
                                            c.text(4), c.integer(5), c.integer(6));
        c.set(0, reshape(mm(rows, cast(weight, g.dtype())), c.shape(0)));
    }
    if (c.given(7) && c.needs(7)) c.set(7, sum(rows, Dims{0}, false));
}
NO_GRAD("_nn.dequantize");

}  // namespace fb
