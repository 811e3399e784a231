// Gradients of pooling: maxima scatter by index, averages spread; the gradients of these pick and average.
#include "ops/table/gradient.h"

namespace fb {

GRAD("_max_pool|_adaptive_max_pool|_fractional_max_pool", RESULT(1)) {
    c.set(0, call<"_max_pool_gradient">(c.g(0), c.out(1), c.shape(0)));
}
GRAD("_max_pool_values", IN(0)) {
    Var indices = call_all<"_max_pool">(c.in(0), c.dims(1), c.dims(2), c.dims(3), c.dims(4), c.flag(5), false)[1];
    c.set(0, call<"_max_pool_gradient">(c.g(), indices, c.shape(0)));
}
GRAD("_max_pool_gradient|_max_unpool", IN(1)) { c.set(0, call<"_max_pool_pick">(c.g(), c.in(1))); }
GRAD("_max_pool_pick", IN(1)) { c.set(0, call<"_max_pool_gradient">(c.g(), c.in(1), c.shape(0))); }

GRAD("_avg_pool") {
    c.set(0, call<"_avg_pool_gradient">(c.g(), c.dims(1), c.dims(2), c.dims(3), c.flag(4), c.flag(5),
                                        c.integer_or_none(6), c.shape(0)));
}
GRAD("_avg_pool_gradient") {
    c.set(0, call<"_avg_pool">(c.g(), c.dims(1), c.dims(2), c.dims(3), c.flag(4), c.flag(5), c.integer_or_none(6)));
}
GRAD("_adaptive_avg_pool") { c.set(0, call<"_adaptive_avg_pool_gradient">(c.g(), c.shape(0))); }
GRAD("_adaptive_avg_pool_gradient") {
    const Dims& shape = c.shape(0);
    c.set(0, call<"_adaptive_avg_pool">(c.g(), Dims(shape.begin() + 2, shape.end())));
}

}  // namespace fb
