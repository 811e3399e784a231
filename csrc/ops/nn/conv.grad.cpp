// Gradients of convolutions: the three operations are each other's.
#include "ops/nn/conv.h"

#include "ops/table/gradient.h"

namespace fb {
namespace {

Var input_of(const Var& g, const Var& w, const Dims& shape, const ConvWindow& o) {
    return call<"_conv_input_gradient">(g, w, shape, o.stride, o.padding, o.dilation, o.groups);
}
Var weight_of(const Var& g, const Var& x, const Dims& shape, const ConvWindow& o) {
    return call<"_conv_weight_gradient">(g, x, shape, o.stride, o.padding, o.dilation, o.groups);
}
Var conv_of(const Var& x, const Var& w, const ConvWindow& o) {
    return call<"convolution">(x, w, Var(), o.stride, o.padding, o.dilation, false, Dims{0}, o.groups);
}
// The result of a transpose may have more output padding than a stride: windows beyond it are not part of it.
Var conv_to(const Var& x, const Var& w, const Dims& shape, const ConvWindow& o) {
    Var y = conv_of(x, w, o);
    for (int64_t d = 2; d < y.dim(); d++) {
        if (y.shape()[d] > shape[d]) y = narrow(y, d, 0, shape[d]);
    }
    return y;
}
ConvShape shape_of(const GradCall& c, const ConvWindow& o) {
    int64_t spatial = c.in(0).dim() - 2;
    return conv_shape(c.shape(0), c.shape(1), c.g().shape(),
                      {per_dimension(o.stride, spatial, "stride"),
                       per_dimension(o.padding, spatial, "padding"),
                       per_dimension(o.dilation, spatial, "dilation"),
                       {},
                       o.groups});
}
ConvWindow taken(const GradCall& c, int first) {
    return {c.dims(first), c.dims(first + 1), c.dims(first + 2), {}, c.integer(first + 3)};
}

}  // namespace

GRAD("convolution", IN(1), IN(0), 0) {
    ConvWindow o{c.dims(3), c.dims(4), c.dims(5), c.dims(7), c.integer(8)};
    bool transposed = c.flag(6);
    Var g = c.g();
    if (c.needs(0) && c.needs(1))
        g = call<"_conv_order">(g, !transposed && keeps_planes(shape_of(c, o), c.in(0).tensor));
    if (c.needs(0))
        c.set(0, transposed ? conv_to(g, conj(c.in(1)), c.shape(0), o) : input_of(g, conj(c.in(1)), c.shape(0), o));
    if (c.needs(1))
        c.set(1, transposed ? weight_of(conj(c.in(0)), g, c.shape(1), o) : weight_of(g, conj(c.in(0)), c.shape(1), o));
    if (c.needs(2)) c.set(2, call<"_channel_sum">(c.g()));
}
GRAD("_conv_order") { c.set(0, c.g()); }
GRAD("_conv_input_gradient", IN(1), IN(0)) {
    ConvWindow o = taken(c, 3);
    if (c.needs(0)) c.set(0, conv_to(c.g(), conj(c.in(1)), c.shape(0), o));
    if (c.needs(1)) c.set(1, weight_of(conj(c.in(0)), c.g(), c.shape(1), o));
}
GRAD("_conv_weight_gradient", IN(1), IN(0)) {
    ConvWindow o = taken(c, 3);
    if (c.needs(0)) c.set(0, conv_to(conj(c.in(1)), c.g(), c.shape(0), o));
    if (c.needs(1)) c.set(1, input_of(conj(c.in(0)), c.g(), c.shape(1), o));
}

}  // namespace fb
