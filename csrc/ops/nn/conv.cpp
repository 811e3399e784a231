// Convolutions. The three operations (forward, gradient of the input, gradient of the weight) are each other's
// gradients.
#include "ops/nn/conv.h"

#include <cmath>

#include "base/wording.h"
#include "device/move.h"
#include "ops/linear/matmul.h"
#include "ops/order/reduce.h"
#include "ops/table/gradient.h"

namespace fb {

Dims per_dimension(const Dims& given, int64_t spatial, const char* name) {
    if (given.size() == spatial) return given;
    check(given.size() == 1, name, " must be one number or ", spatial, ", got ", given);
    return Dims(spatial, given[0]);
}

ConvShape conv_shape(const Dims& x, const Dims& w, const Dims& y, const ConvWindow& o) {
    ConvShape s{};
    s.spatial = x.size() - 2;
    s.batch = x[0];
    s.in_channels = x[1];
    s.out_channels = w[0];
    s.groups = o.groups;
    for (int64_t i = 0; i < 3; i++) {
        int64_t d = i - (3 - s.spatial);
        bool there = d >= 0;
        s.in[i] = there ? x[2 + d] : 1;
        s.kernel[i] = there ? w[2 + d] : 1;
        s.out[i] = there ? y[2 + d] : 1;
        s.stride[i] = there ? o.stride[d] : 1;
        s.padding[i] = there ? o.padding[d] : 0;
        s.dilation[i] = there ? o.dilation[d] : 1;
    }
    for (const auto& sizes : {s.in, s.kernel, s.out}) checked_numel({sizes[0], sizes[1], sizes[2]});
    return s;
}

bool keeps_planes(const ConvShape& s, const Tensor& x) {
    return device::convolving(x).choose(ConvPass::BackwardWeight, s, x, true) == ConvAlgorithm::Planes;
}

Tensor last_result(const Dims& shape, const Tensor& like, bool promised) {
    Tensor t = empty_strided(shape, channels_last_strides(shape), like.dtype(), like.device());
    set_free_layout(t, !promised && !t.is_contiguous());
    return t;
}

namespace {

void check_window(const ConvWindow& o) {
    for (int64_t s : o.stride) check(s > 0, "non-positive stride is not supported, got ", o.stride);
    for (int64_t d : o.dilation) check(d > 0, "dilation should be greater than zero, got ", o.dilation);
    for (int64_t p : o.padding) check(p >= 0, "negative padding is not supported, got ", o.padding);
    check(o.groups > 0, "non-positive groups is not supported, got ", o.groups);
    // Sums and products of sizes below this fit 64 bits.
    constexpr int64_t limit = int64_t(1) << 31;
    auto below = [](const Dims& values, const char* name) {
        for (int64_t v : values) check(v < limit, name, " must be less than 2**31, got ", values);
    };
    below(o.stride, "stride");
    for (int64_t d = 0; d < o.padding.size(); d++)
        check(o.padding[d] < limit, "Given padding=", o.padding[d], " at dimension ", d,
              " , expected padding to be at most ", limit - 1);
    below(o.dilation, "dilation");
    check(o.groups < limit, "groups must be less than 2**31, got ", o.groups);
}

// Exactly the strides of that order, where sizes of 1 would allow others: they show which order the caller meant.
bool is_last(const Tensor& t) { return t.shape().contains(0) || t.strides() == channels_last_strides(t.shape()); }
bool wants_last(const Tensor& t) { return t.dim() > 3 && is_channels_last(t) && !t.is_contiguous(); }
// A result that the caller knows to be channels-last.
Tensor openly_last(const Tensor& t) {
    if (t.dim() < 4 || t.numel() == 0) return t;
    if (is_last(t)) {
        t.impl()->free_layout = false;
        return t;
    }
    Tensor result = last_result(t.shape(), t, true);
    device::moving(result).copy(result, t);
    return result;
}
// If the caller knows that one of them is channels-last, the result must be too.
bool told_last(const Tensor& x, const Tensor& w) {
    return (wants_last(x) && !x.impl()->free_layout) || (wants_last(w) && !w.impl()->free_layout);
}

// ---- columns --------------------------------------------------------------------------------------------------------

// (batch, groups, channels per group * taps, positions).
Tensor unfold(const ConvShape& s, const Tensor& x) {
    Tensor columns = zeros({s.batch, s.groups, checked_mul(s.per_group(), s.taps(), "the unfolded input"), s.places()},
                           x.dtype(), x.device());
    device::convolving(x).unfold(s, columns, contiguous(x));
    return columns;
}

Tensor fold(const ConvShape& s, const Tensor& columns, const Dims& shape) {
    Tensor result = zeros(shape, columns.dtype(), columns.device());
    device::convolving(columns).fold(s, result, contiguous(columns));
    return result;
}

// (1, groups, out per group, in per group * taps).
Tensor weight_rows(const ConvShape& s, const Tensor& w) {
    return reshape(contiguous(w), {1, s.groups, s.out_channels / s.groups, s.per_group() * s.taps()});
}
Tensor grouped(const ConvShape& s, const Tensor& g) {
    return reshape(contiguous(g), {s.batch, s.groups, s.out_channels / s.groups, s.places()});
}

// ---- the three operations -------------------------------------------------------------------------------------------

// (batch, channels, pixels).
Tensor by_image(const Tensor& t) { return view(t, {t.size(0), t.size(1), t.numel() / t.size(0) / t.size(1)}); }

Tensor as_matrix(const Tensor& w) { return view(w, {w.size(0), w.size(1)}); }

void check_types(const Tensor& x, const Tensor& w) {
    check(x.dtype() == w.dtype(), "Input type (", x.dtype(), ") and weight type (", w.dtype(),
          ") should be the same; convert one with .to(dtype)");
}

// 3 x 4, as PyTorch writes sizes.
std::string times(const Dims& sizes) {
    std::string text;
    for (int64_t d = 0; d < sizes.size(); d++) text += (d ? " x " : "") + std::to_string(sizes[d]);
    return text;
}

Dims out_shape(const Dims& x, const Dims& w, const ConvWindow& o) {
    Dims y = {x[0], w[0]}, rooms, reaches;
    for (int64_t d = 0; d + 2 < x.size(); d++) {
        int64_t reach = checked_mul(o.dilation[d], w[2 + d] - 1, "the kernel size") + 1,
                room = x[2 + d] + 2 * o.padding[d];
        rooms.push_back(room), reaches.push_back(reach);
        y.push_back((room - reach) / o.stride[d] + 1);
    }
    for (int64_t d = 0; d < rooms.size(); d++)
        check(reaches[d] <= rooms[d], "Calculated padded input size per channel: (", times(rooms), "). Kernel size: (",
              times(reaches), "). Kernel size can't be greater than actual input size, which it is in dimension ", d,
              " (input ", x, ", weight ", w, ")");
    return y;
}

// Adds one number per channel.
Tensor add_bias(Tensor y, const Tensor& bias) {
    if (!bias || y.numel() == 0) return y;
    Dims sizes(y.dim(), 1);
    sizes[1] = bias.numel();
    graph_ops.add_into(y, reshape(bias, sizes));
    return y;
}

Tensor forward(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvWindow& o) {
    Dims shape = out_shape(x.shape(), w.shape(), o);
    ConvShape s = conv_shape(x.shape(), w.shape(), shape, o);
    if (x.numel() == 0 || w.numel() == 0) return add_bias(zeros(shape, x.dtype(), x.device()), bias);
    bool promised = wants_last(x) && !x.impl()->free_layout;
    for (bool planes = true;; planes = false) {
        switch (device::convolving(x).choose(ConvPass::Forward, s, x, planes)) {
            case ConvAlgorithm::ProductByImage: {
                Tensor y = empty(shape, x.dtype(), x.device()), weight = as_matrix(contiguous(w)), out = by_image(y);
                if (bias) device::moving(out).copy(out, expand(reshape(bias, {1, bias.numel(), 1}), out.shape()));
                gemm(out, expand(weight, {s.batch, weight.size(0), weight.size(1)}), by_image(x), Scalar(1),
                     Scalar(bias ? 1 : 0));
                return y;
            }
            case ConvAlgorithm::Planes: {
                Tensor y = empty(shape, x.dtype(), x.device()), plus = bias ? contiguous(bias) : bias;
                if (!device::convolving(x).planes_forward(s, y, contiguous(x), contiguous(w), plus)) continue;
                return y;
            }
            case ConvAlgorithm::Product: {
                Tensor y = last_result(shape, x, promised), weight = as_matrix(contiguous(w));
                multiply_add(by_pixel(y), by_pixel(in_order(x, true)), transpose(weight, 0, 1),
                             bias ? contiguous(bias) : bias);
                return y;
            }
            case ConvAlgorithm::Direct: {
                Tensor y = last_result(shape, x, promised), plus = bias ? contiguous(bias) : bias;
                device::convolving(x).forward(s, y, in_order(x, true), contiguous(w), plus);
                return y;
            }
            case ConvAlgorithm::Patches: {
                Tensor y = last_result(shape, x, promised);
                patches_forward(s, y, x, w, bias);
                return y;
            }
            case ConvAlgorithm::Columns:
                return add_bias(reshape(matmul(weight_rows(s, w), unfold(s, x)), shape), bias);
        }
    }
}

Tensor input_gradient(const Tensor& g, const Tensor& w, const Dims& x, const ConvWindow& o, bool promised) {
    ConvShape s = conv_shape(x, w.shape(), g.shape(), o);
    if (g.numel() == 0 || w.numel() == 0) return zeros(x, g.dtype(), g.device());
    for (bool planes = true;; planes = false) {
        ConvAlgorithm algorithm = device::convolving(g).choose(ConvPass::BackwardInput, s, g, planes);
        switch (algorithm) {
            case ConvAlgorithm::Patches: {
                Tensor gx = last_result(x, g, promised);
                patches_backward_input(s, gx, g, w);
                return gx;
            }
            case ConvAlgorithm::Planes: {
                Tensor gx = empty(x, g.dtype(), g.device());
                if (!device::convolving(g).planes_backward_input(s, gx, contiguous(g), contiguous(w))) continue;
                return gx;
            }
            case ConvAlgorithm::Product:
            case ConvAlgorithm::Direct: {
                Tensor gx = last_result(x, g, promised);
                Tensor from = in_order(g, true), weight = contiguous(w);
                if (algorithm == ConvAlgorithm::Product)
                    multiply_add(by_pixel(gx), by_pixel(from), as_matrix(weight), Tensor());
                else device::convolving(g).backward_input(s, gx, from, weight);
                return gx;
            }
            default:
                return fold(s, matmul(transpose(weight_rows(s, w), 2, 3), grouped(s, g)), x);
        }
    }
}

Tensor weight_gradient(const Tensor& g, const Tensor& x, const Dims& w, const ConvWindow& o) {
    ConvShape s = conv_shape(x.shape(), w, g.shape(), o);
    if (g.numel() == 0 || x.numel() == 0) return zeros(w, g.dtype(), g.device());
    for (bool planes = true;; planes = false) {
        switch (device::convolving(x).choose(ConvPass::BackwardWeight, s, x, planes)) {
            case ConvAlgorithm::Patches: {
                Tensor gw = empty(w, g.dtype(), g.device());
                patches_backward_weight(s, gw, g, x);
                return gw;
            }
            case ConvAlgorithm::Planes: {
                Tensor gw = empty(w, g.dtype(), g.device());
                if (!device::convolving(g).planes_backward_weight(s, gw, contiguous(g), contiguous(x))) continue;
                return gw;
            }
            case ConvAlgorithm::Product: {
                Tensor gw = empty(w, g.dtype(), g.device()), grad = in_order(g, true);
                multiply_add(as_matrix(gw), transpose(by_pixel(grad), 0, 1), by_pixel(in_order(x, true)), Tensor());
                return gw;
            }
            case ConvAlgorithm::Direct: {
                Tensor gw = empty(w, g.dtype(), g.device()), grad = in_order(g, true);
                device::convolving(g).backward_weight(s, gw, grad, in_order(x, true));
                return gw;
            }
            default: {
                Tensor each = matmul(grouped(s, g), transpose(unfold(s, x), 2, 3));
                return reshape(sum(each, Dims{0}, false, g.dtype()), w);
            }
        }
    }
}

ConvWindow window_at(const Args& a, int stride, int64_t spatial) {
    ConvWindow o;
    o.stride = per_dimension(a.dims(stride), spatial, "stride");
    o.padding = per_dimension(a.dims(stride + 1), spatial, "padding");
    o.dilation = per_dimension(a.dims(stride + 2), spatial, "dilation");
    o.groups = a.integer(stride + 3);
    check_window(o);
    return o;
}

#define CONV_WINDOW "int[] stride, int[] padding, int[] dilation, int groups"

void check_shapes(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvWindow& o, bool transposed) {
    check_types(x, w);
    check(w.dim() == x.dim(), "weight should have at least three dimensions, ", x.dim(), " for an input of shape ",
          x.shape(), ", got ", w.shape());
    check(w.shape()[0] >= o.groups, "Given groups=", o.groups, ", expected weight to be at least ", o.groups,
          " at dimension 0, but got weight of size ", Bracketed{w.shape()}, " instead");
    int64_t grouped = checked_mul(w.shape()[1], o.groups, "the number of channels");
    int64_t into = transposed ? w.shape()[0] : grouped;
    check(x.shape()[1] == into, "Given groups=", o.groups, ", weight of size ", w.shape(), ", expected input ",
          x.shape(), " to have ", into, " channels, but got ", x.shape()[1], " channels instead");
    check(w.shape()[0] % o.groups == 0, "expected the first size of weight ", w.shape(),
          " to be divisible by groups=", o.groups);
    int64_t from = transposed ? grouped : w.shape()[0];
    if (bias) {
        check(bias.dtype() == x.dtype(), "Input type (", x.dtype(), ") and bias type (", bias.dtype(),
              ") should be the same; convert one with .to(dtype)");
        check(bias.dim() == 1 && bias.shape()[0] == from, "Given transposed=", transposed, ", weight of size ",
              w.shape(), ", expected bias to be 1-dimensional with ", from, " elements, but got bias of size ",
              bias.shape());
    }
    for (int64_t d = 2; d < w.dim(); d++)
        check(w.shape()[d] > 0, "kernel sizes must be positive, got weight ", w.shape());
}

Dims transposed_shape(const Dims& x, const Dims& w, const ConvWindow& o) {
    Dims y = {x[0], w[1] * o.groups};
    for (int64_t d = 0; d + 2 < x.size(); d++) {
        check(o.output_padding[d] >= 0 && (o.output_padding[d] < o.stride[d] || o.output_padding[d] < o.dilation[d]),
              "output padding must be smaller than either stride or dilation, got output_padding ", o.output_padding,
              ", stride ", o.stride, ", dilation ", o.dilation);
        int64_t first = checked_mul(x[2 + d] - 1, o.stride[d], "the output size");
        int64_t reach = checked_mul(o.dilation[d], w[2 + d] - 1, "the output size"), size;
        check(!__builtin_add_overflow(first - 2 * o.padding[d], reach + o.output_padding[d] + 1, &size),
              "the output size in dimension ", d, " does not fit in 64 bits");
        check(size > 0, "Given input size ", x, ": calculated output size ", size, " in dimension ", d,
              " is too small");
        y.push_back(size);
    }
    return y;
}

}  // namespace

OP("_conv_input_gradient(Tensor grad, Tensor weight, int[] input_shape, " CONV_WINDOW ") -> Tensor", FREE) {
    ConvWindow o = window_at(a, 3, a.dims(2).size() - 2);
    const Tensor& g = a.tensor(0);
    bool last = told_last(g, a.tensor(1));
    Tensor gx = input_gradient(g, a.tensor(1), a.dims(2), o, last);
    return last ? openly_last(gx) : gx;
}
// The preparation shared by both gradients of a convolution.
OP("_conv_order(Tensor grad, bool planes) -> Tensor", FREE) {
    const Tensor& g = a.tensor(0);
    if (a.flag(1)) return contiguous(g);
    if (!is_floating(g.dtype()) || g.numel() == 0 || is_last(g)) return g;
    Tensor result = last_result(g.shape(), g, false);
    device::moving(result).copy(result, g);
    return result;
}
OP("_conv_weight_gradient(Tensor grad, Tensor input, int[] weight_shape, " CONV_WINDOW ") -> Tensor", FREE) {
    return weight_gradient(a.tensor(0), a.tensor(1), a.dims(2), window_at(a, 3, a.dims(2).size() - 2));
}
OP("convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool "
   "transposed, "
   "int[] output_padding, int groups) -> Tensor",
   FUNCTION | FREE, R"(A convolution of one, two or three spatial dimensions, or its transpose.

Args:
    input: shape (batch, channels, ...).
    weight: shape (out channels, channels / groups, ...); (channels, out channels / groups, ...) when transposed.
    bias: one number per output channel, or None.
    stride: step of the window, one number or one per dimension.
    padding: zeros on both sides.
    dilation: distance between taps.
    transposed: the transpose of a convolution, which enlarges.
    output_padding: added to one side of the result of a transpose.
    groups: channels are split into so many independent groups.

Example:
    >>> x, w = fb.ones(1, 1, 3, 3), fb.ones(1, 1, 2, 2)
    >>> fb.convolution(x, w, None, [1], [0], [1], False, [0], 1).shape
    flambeau.Size([1, 1, 2, 2])
)") {
    const Tensor &x = a.tensor(0), &w = a.tensor(1);
    Tensor bias = a.tensor_or_none(2);
    check(x.dim() >= 3 && x.dim() <= 5, "expected an input of 3 to 5 dimensions (batch, channels, ...), got shape ",
          x.shape());
    int64_t spatial = x.dim() - 2;
    ConvWindow o;
    o.stride = per_dimension(a.dims(3), spatial, "stride");
    o.padding = per_dimension(a.dims(4), spatial, "padding");
    o.dilation = per_dimension(a.dims(5), spatial, "dilation");
    o.output_padding = per_dimension(a.dims(7), spatial, "output_padding");
    o.groups = a.integer(8);
    check_window(o);
    bool transposed = a.flag(6);
    check_shapes(x, w, bias, o, transposed);
    bool last = told_last(x, w);
    if (!transposed) {
        Tensor y = forward(x, w, bias, o);
        return last ? openly_last(y) : y;
    }
    Dims shape = transposed_shape(x.shape(), w.shape(), o);
    Tensor y = input_gradient(x, w, shape, o, last);
    if (last) y = openly_last(y);
    return add_bias(y, bias);
}

OP("_winograd(int? mode=None) -> int", FUNCTION,
   R"(When 3 × 3 convolutions use Winograd's algorithm; sets it if given. Behind backends.winograd.

Args:
    mode: 0 for never, 1 where it is faster, 2 wherever possible (for tests), or None.

Example:
    >>> fb._C.namespaces[""]["_winograd"]()
    1
)") {
    if (a.given(0)) check(a.integer(0) >= 0 && a.integer(0) <= 2, "mode must be 0, 1 or 2, got ", a.integer(0));
    return device::on<device::Convolving>(Device{}).winograd_mode(a.given(0) ? a.integer(0) : -1);
}
NO_GRAD("_winograd");

}  // namespace fb
