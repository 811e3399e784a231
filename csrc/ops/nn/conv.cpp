// Convolutions. The three operations (forward, gradient of the input, gradient of the weight) are each other's
// gradients.
//
// Note [Convolution algorithms]: which code computes a convolution.
// - float32, 3 x 3 windows with stride 1: Winograd's F(4 x 4, 3 x 3) where it is faster (backend/cpu/winograd*.cpp). It
//   needs a quarter of the multiplications, and its points are chosen so that the error stays near that of the direct
//   sum. A result that is not finite is computed again directly. Groups of channels are computed one after the other.
// - Windows of one pixel with large weights, or in row-major images: matrix products. The same holds for the gradients
//   of windows that touch but do not overlap, such as the patches of vision transformers (conv_patches.cpp).
// - Gradients of depthwise weights, and of the weights of first layers: kernels of our own (backend/cpu/depthwise.cpp,
//   conv_few.cpp). Row-major images stay row-major through depthwise layers with stride 1 (depthwise_planes.cpp).
// - Other float32 convolutions: oneDNN, channels-last. It never frees the code of some of its kernels, so after 2048
//   shapes other kernels are used (backend/cpu/onednn.cpp).
// - Other dtypes: unfolded columns and matrix products.
#include "ops/nn/conv.h"

#include <cmath>

#include "backend/cpu/gemm.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/winograd.h"
#include "base/bool.h"
#include "base/wording.h"
#include "ops/linear/matmul.h"
#include "ops/order/reduce.h"
#include "ops/shape/create.h"
#include "ops/table/free_layout.h"
#include "ops/table/gradient.h"

namespace fb {

Tensor channels_last(const Tensor& t) {
    if (is_last(t)) return t;
    Tensor result = empty_strided(t.shape(), last_strides(t.shape()), t.dtype(), t.device());
    cpu::copy(result, t);
    return result;
}
Tensor last_result(const Dims& shape, DType dtype, bool promised) {
    Tensor t = empty_strided(shape, last_strides(shape), dtype);
    set_free_layout(t, !promised && !t.is_contiguous());
    return t;
}

namespace {

using cpu::ConvShape;

// One value for each spatial dimension, given as one number or as many.
Dims per_dimension(const Dims& given, int64_t spatial, const char* name) {
    if (given.size() == spatial) return given;
    check(given.size() == 1, name, " must be one number or ", spatial, ", got ", given);
    return Dims(spatial, given[0]);
}

struct Window {
    Dims stride, padding, dilation, output_padding;
    int64_t groups;
};

void check_window(const Window& o) {
    for (int64_t s : o.stride) check(s > 0, "non-positive stride is not supported, got ", o.stride);
    for (int64_t d : o.dilation) check(d > 0, "dilation should be greater than zero, got ", o.dilation);
    for (int64_t p : o.padding) check(p >= 0, "negative padding is not supported, got ", o.padding);
    check(o.groups > 0, "non-positive groups is not supported, got ", o.groups);
    // Sums and products of sizes below stay within 64 bits.
    constexpr int64_t limit = int64_t(1) << 31;
    auto below = [](const Dims& values, const char* name) {
        for (int64_t v : values) check(v < limit, name, " must be less than 2**31, got ", values);
    };
    below(o.stride, "stride");
    below(o.padding, "padding");
    below(o.dilation, "dilation");
    check(o.groups < limit, "groups must be less than 2**31, got ", o.groups);
}

// The problem of a forward convolution from x to y with this weight.
ConvShape conv_shape(const Dims& x, const Dims& w, const Dims& y, const Window& o) {
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

bool wants_last(const Tensor& t) { return t.dim() > 3 && has_format(t, last_format(t.dim())) && !t.is_contiguous(); }
// A result of which the caller knows that it is channels-last.
Tensor openly_last(const Tensor& t) {
    if (t.dim() < 4 || t.numel() == 0) return t;
    if (is_last(t)) {
        t.impl()->free_layout = false;
        return t;
    }
    Tensor result = last_result(t.shape(), t.dtype(), true);
    cpu::copy(result, t);
    return result;
}
// The caller knows that one of them is channels-last: so must the result be.
bool told_last(const Tensor& x, const Tensor& w) {
    return (wants_last(x) && !x.impl()->free_layout) || (wants_last(w) && !w.impl()->free_layout);
}

// ---- columns -------------------------------------------------------------------------------------------------------

int64_t product(const int64_t (&v)[3]) { return v[0] * v[1] * v[2]; }

// Calls f(column row, output position, input offset) for every tap inside the input of one image and channel.
template <class F>
void each_tap(const ConvShape& s, F f) {
    int64_t row = 0;
    for (int64_t a = 0; a < s.kernel[0]; a++)
        for (int64_t b = 0; b < s.kernel[1]; b++)
            for (int64_t c = 0; c < s.kernel[2]; c++, row++) {
                int64_t position = 0;
                for (int64_t i = 0; i < s.out[0]; i++) {
                    int64_t z = i * s.stride[0] - s.padding[0] + a * s.dilation[0];
                    for (int64_t j = 0; j < s.out[1]; j++) {
                        int64_t y = j * s.stride[1] - s.padding[1] + b * s.dilation[1];
                        bool inside = z >= 0 && z < s.in[0] && y >= 0 && y < s.in[1];
                        for (int64_t k = 0; k < s.out[2]; k++, position++) {
                            int64_t x = k * s.stride[2] - s.padding[2] + c * s.dilation[2];
                            if (inside && x >= 0 && x < s.in[2]) f(row, position, (z * s.in[1] + y) * s.in[2] + x);
                        }
                    }
                }
            }
}

// (batch, groups, channels per group * taps, positions).
Tensor unfold(const ConvShape& s, const Tensor& x) {
    int64_t taps = product(s.kernel), places = product(s.out), pixels = product(s.in);
    Tensor columns =
        zeros({s.batch, s.groups, checked_mul(s.per_group(), taps, "the unfolded input"), places}, x.dtype());
    Tensor from = contiguous(x);
    dispatch_size(x.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* source = from.data<T>();
        T* target = columns.data<T>();
        parallel_for(s.batch * s.in_channels, 1, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; i++)
                each_tap(s, [&](int64_t row, int64_t position, int64_t offset) {
                    target[(i * taps + row) * places + position] = source[i * pixels + offset];
                });
        });
    });
    return columns;
}

Tensor fold(const ConvShape& s, const Tensor& columns, const Dims& shape) {
    int64_t taps = product(s.kernel), places = product(s.out), pixels = product(s.in);
    Tensor result = zeros(shape, columns.dtype());
    Tensor from = contiguous(columns);
    dispatch_all(columns.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const Stored<T>* source = from.data<Stored<T>>();
        T* target = result.data<T>();
        parallel_for(s.batch * s.in_channels, 1, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; i++)
                each_tap(s, [&](int64_t row, int64_t position, int64_t offset) {
                    T& sum = target[i * pixels + offset];
                    sum = T(sum + source[(i * taps + row) * places + position]);
                });
        });
    });
    return result;
}

// (1, groups, out per group, in per group * taps).
Tensor weight_rows(const ConvShape& s, const Tensor& w) {
    return reshape(contiguous(w), {1, s.groups, s.out_channels / s.groups, s.per_group() * product(s.kernel)});
}
Tensor grouped(const ConvShape& s, const Tensor& g) {
    return reshape(contiguous(g), {s.batch, s.groups, s.out_channels / s.groups, product(s.out)});
}

// ---- the three operations ------------------------------------------------------------------------------------------

bool through_float(DType d) { return is_half(d); }
// oneDNN wants the result to have every window that fits.
bool fits_onednn(const ConvShape& s, DType d) {
    if (d != DType::F32) return false;
    for (int i = 0; i < 3; i++) {
        int64_t reach = s.dilation[i] * (s.kernel[i] - 1) + 1;
        if ((s.in[i] + 2 * s.padding[i] - reach) / s.stride[i] + 1 != s.out[i]) return false;
    }
    return true;
}

// Windows of one pixel make a convolution one product of matrices. oneDNN is quicker at it while the weight is small.
constexpr int64_t large_weight = 512 * 1024, large_weight_gradient = 128 * 256;
bool is_product(const ConvShape& s, int64_t least) {
    bool pixel = s.groups == 1 && s.in_channels * s.out_channels >= least && s.batch * product(s.in) > 1;
    for (int i = 0; i < 3; i++) pixel = pixel && s.kernel[i] == 1 && s.stride[i] == 1 && s.padding[i] == 0;
    return pixel;
}
// Row-major inputs need no reordering then: a product for each image.
bool product_by_image(const ConvShape& s, const Tensor& x) {
    return is_product(s, 0) && x.is_contiguous() && !is_last(x) && product(s.in) >= 64;
}
// (batch, channels, pixels).
Tensor by_image(const Tensor& t) { return view(t, {t.size(0), t.size(1), t.numel() / t.size(0) / t.size(1)}); }

Tensor as_matrix(const Tensor& w) { return view(w, {w.size(0), w.size(1)}); }

// Row-major images stay as they are where every channel has its own weight; so do those that oneDNN does not take.
bool stays_planes(const ConvShape& s, const Tensor& t) {
    return cpu::depthwise_planes_fit(s, t.dtype()) && ((t.is_contiguous() && !is_last(t)) || t.dtype() != DType::F32);
}

// Windows of one pixel that skip others: those in between are left out before, or put in afterwards. oneDNN 3.2 does
// the same inside, but writes past its scratch memory where channels do not fill a vector.
bool skips_pixels(const ConvShape& s) {
    bool skips = false;
    for (int i = 0; i < 3; i++) {
        if (s.kernel[i] != 1 || s.padding[i] != 0) return false;
        skips = skips || s.stride[i] > 1;
    }
    return skips;
}
Tensor used_pixels(const ConvShape& s, const Tensor& x) {
    Tensor used = x;
    for (int64_t d = 2; d < x.dim(); d++) used = slice(used, d, 0, x.size(d), s.stride[3 - s.spatial + d - 2]);
    return used;
}
ConvShape without_gaps(ConvShape s) {
    for (int i = 0; i < 3; i++) s.in[i] = s.out[i], s.stride[i] = 1;
    return s;
}

void check_types(const Tensor& x, const Tensor& w) {
    check(x.dtype() == w.dtype(), "Input type (", x.dtype(), ") and weight type (", w.dtype(),
          ") should be the same; convert one with .to(dtype)");
}

Dims out_shape(const Dims& x, const Dims& w, const Window& o) {
    Dims y = {x[0], w[0]};
    for (int64_t d = 0; d + 2 < x.size(); d++) {
        int64_t reach = checked_mul(o.dilation[d], w[2 + d] - 1, "the kernel size") + 1,
                room = x[2 + d] + 2 * o.padding[d];
        check(reach <= room,
              "the kernel size can't be greater than the actual input size: calculated padded input size ", room,
              " and kernel size ", reach, " in dimension ", d, " (input ", x, ", weight ", w, ")");
        y.push_back((room - reach) / o.stride[d] + 1);
    }
    return y;
}

Tensor forward(const Tensor& x, const Tensor& w, const Tensor& bias, const Window& o) {
    Dims shape = out_shape(x.shape(), w.shape(), o);
    ConvShape s = conv_shape(x.shape(), w.shape(), shape, o);
    if (through_float(x.dtype()))
        return to_dtype(
            forward(to_dtype(x, DType::F32), to_dtype(w, DType::F32), bias ? to_dtype(bias, DType::F32) : bias, o),
            x.dtype());
    bool none = x.numel() == 0 || w.numel() == 0;
    if (!none && fits_onednn(s, x.dtype()) && product_by_image(s, x)) {
        Tensor y = empty(shape, x.dtype()), weight = as_matrix(contiguous(w)), out = by_image(y);
        if (bias) cpu::copy(out, expand(reshape(bias, {1, bias.numel(), 1}), out.shape()));
        cpu::gemm(out, expand(weight, {s.batch, weight.size(0), weight.size(1)}), by_image(x), Scalar(1),
                  Scalar(bias ? 1 : 0));
        return y;
    }
    if (!none && stays_planes(s, x)) {
        Tensor y = empty(shape, x.dtype());
        if (cpu::depthwise_planes_forward(s, y, contiguous(x), contiguous(w), bias ? contiguous(bias) : bias)) return y;
    }
    if (!none && fits_onednn(s, x.dtype())) {
        Tensor y = last_result(shape, x.dtype(), wants_last(x) && !x.impl()->free_layout);
        bool skips = skips_pixels(s);
        Tensor from = channels_last(skips ? used_pixels(s, x) : x);
        Tensor weight = contiguous(w), plus = bias ? contiguous(bias) : bias;
        if (skips) s = without_gaps(s);
        if (is_product(s, large_weight))
            multiply_add(by_pixel(y), by_pixel(from), transpose(as_matrix(weight), 0, 1), plus);
        else if (!cpu::winograd_forward(s, y, from, weight, plus)) cpu::conv_forward(s, y, from, weight, plus);
        return y;
    }
    if (!none && are_patches(s)) {  // not float32, whose patches oneDNN does as quickly
        Tensor y = last_result(shape, x.dtype(), wants_last(x) && !x.impl()->free_layout);
        patches_forward(s, y, x, w, bias);
        return y;
    }
    Tensor y = none ? zeros(shape, x.dtype()) : reshape(matmul(weight_rows(s, w), unfold(s, x)), shape);
    if (bias && y.numel()) {
        Dims sizes(shape.size(), 1);
        sizes[1] = bias.numel();
        Tensor column = reshape(bias, sizes);
        graph_ops.add_into(y, column);
    }
    return y;
}

Tensor input_gradient(const Tensor& g, const Tensor& w, const Dims& x, const Window& o, bool promised) {
    ConvShape s = conv_shape(x, w.shape(), g.shape(), o);
    if (through_float(g.dtype()))
        return to_dtype(input_gradient(to_dtype(g, DType::F32), to_dtype(w, DType::F32), x, o, promised), g.dtype());
    if (g.numel() == 0 || w.numel() == 0) return zeros(x, g.dtype());
    if (are_patches(s)) {
        Tensor gx = last_result(x, g.dtype(), promised);
        patches_backward_input(s, gx, g, w);
        return gx;
    }
    if (stays_planes(s, g)) {
        Tensor gx = empty(x, g.dtype());
        if (cpu::depthwise_planes_backward_input(s, gx, contiguous(g), contiguous(w))) return gx;
    }
    if (fits_onednn(s, g.dtype())) {
        Tensor gx = last_result(x, g.dtype(), promised);
        if (skips_pixels(s)) {
            cpu::copy(gx, scalar_tensor(Scalar(0), gx.dtype()));
            Window close = o;
            close.stride = Dims(o.stride.size(), 1);
            Tensor places = used_pixels(s, gx);
            cpu::copy(places, input_gradient(g, w, places.shape(), close, true));
            return gx;
        }
        Tensor from = channels_last(g), weight = contiguous(w);
        if (is_product(s, large_weight)) multiply_add(by_pixel(gx), by_pixel(from), as_matrix(weight), Tensor());
        else if (!cpu::winograd_backward_input(s, gx, from, weight)) cpu::conv_backward_input(s, gx, from, weight);
        return gx;
    }
    return fold(s, matmul(transpose(weight_rows(s, w), 2, 3), grouped(s, g)), x);
}

Tensor weight_gradient(const Tensor& g, const Tensor& x, const Dims& w, const Window& o) {
    ConvShape s = conv_shape(x.shape(), w, g.shape(), o);
    if (through_float(g.dtype()))
        return to_dtype(weight_gradient(to_dtype(g, DType::F32), to_dtype(x, DType::F32), w, o), g.dtype());
    if (g.numel() == 0 || x.numel() == 0) return zeros(w, g.dtype());
    if (are_patches(s)) {
        Tensor gw = empty(w, g.dtype());
        patches_backward_weight(s, gw, g, x);
        return gw;
    }
    if (stays_planes(s, x)) {
        Tensor gw = empty(w, g.dtype());
        if (cpu::depthwise_planes_backward_weight(s, gw, contiguous(g), contiguous(x))) return gw;
    }
    if (fits_onednn(s, g.dtype())) {
        Tensor gw = empty(w, g.dtype());
        bool skips = skips_pixels(s);
        Tensor grad = channels_last(g), from = channels_last(skips ? used_pixels(s, x) : x);
        if (skips) s = without_gaps(s);
        if (is_product(s, large_weight_gradient))
            multiply_add(as_matrix(gw), transpose(by_pixel(grad), 0, 1), by_pixel(from), Tensor());
        else if (!cpu::winograd_backward_weight(s, gw, grad, from) &&
                 !cpu::depthwise_backward_weight(s, gw, grad, from) &&
                 !cpu::few_channels_backward_weight(s, gw, grad, from))
            cpu::conv_backward_weight(s, gw, Tensor(), grad, from);
        return gw;
    }
    Tensor each = matmul(grouped(s, g), transpose(unfold(s, x), 2, 3));
    return reshape(sum(each, Dims{0}, false, g.dtype()), w);
}

Window window_at(const Args& a, int stride, int64_t spatial) {
    Window o;
    o.stride = per_dimension(a.dims(stride), spatial, "stride");
    o.padding = per_dimension(a.dims(stride + 1), spatial, "padding");
    o.dilation = per_dimension(a.dims(stride + 2), spatial, "dilation");
    o.groups = a.integer(stride + 3);
    check_window(o);
    return o;
}

#define CONV_WINDOW "int[] stride, int[] padding, int[] dilation, int groups"

void check_shapes(const Tensor& x, const Tensor& w, const Tensor& bias, const Window& o, bool transposed) {
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

Dims transposed_shape(const Dims& x, const Dims& w, const Window& o) {
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
    Window o = window_at(a, 3, a.dims(2).size() - 2);
    const Tensor& g = a.tensor(0);
    bool last = told_last(g, a.tensor(1));
    Tensor gx = input_gradient(g, a.tensor(1), a.dims(2), o, last);
    return last ? openly_last(gx) : gx;
}
// What both gradients of a convolution would else do for themselves.
OP("_conv_order(Tensor grad, bool planes) -> Tensor", FREE) {
    const Tensor& g = a.tensor(0);
    if (a.flag(1)) return contiguous(g);
    if (g.dtype() != DType::F32 || g.numel() == 0 || is_last(g)) return g;
    Tensor result = last_result(g.shape(), g.dtype(), false);
    cpu::copy(result, g);
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
    Window o;
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
    if (bias && y.numel()) {
        Dims sizes(shape.size(), 1);
        sizes[1] = bias.numel();
        graph_ops.add_into(y, reshape(bias, sizes));
    }
    return y;
}

OP("_winograd(int? mode=None) -> int", FUNCTION,
   R"(When 3 × 3 convolutions take Winograd's way; sets it when given. Behind backends.winograd.

Args:
    mode: 0 for never, 1 where it is faster, 2 wherever it can be done (for tests), or None.

Example:
    >>> fb._C.namespaces[""]["_winograd"]()
    1
)") {
    if (a.given(0)) {
        check(a.integer(0) >= 0 && a.integer(0) <= 2, "mode must be 0, 1 or 2, got ", a.integer(0));
        cpu::set_winograd_mode(static_cast<cpu::WinogradMode>(a.integer(0)));
    }
    return static_cast<int64_t>(cpu::winograd_mode());
}
NO_GRAD("_winograd");

// ---- gradients -----------------------------------------------------------------------------------------------------

namespace {

struct Taken {
    Dims stride, padding, dilation, output_padding;
    int64_t groups;
};
Var input_of(const Var& g, const Var& w, const Dims& shape, const Taken& o) {
    return call<"_conv_input_gradient">(g, w, shape, o.stride, o.padding, o.dilation, o.groups);
}
Var weight_of(const Var& g, const Var& x, const Dims& shape, const Taken& o) {
    return call<"_conv_weight_gradient">(g, x, shape, o.stride, o.padding, o.dilation, o.groups);
}
Var conv_of(const Var& x, const Var& w, const Taken& o) {
    return call<"convolution">(x, w, Var(), o.stride, o.padding, o.dilation, false, Dims{0}, o.groups);
}
// The result of a transpose may have more output padding than a stride: the windows beyond are not part of it.
Var conv_to(const Var& x, const Var& w, const Dims& shape, const Taken& o) {
    Var y = conv_of(x, w, o);
    for (int64_t d = 2; d < y.dim(); d++) {
        if (y.shape()[d] > shape[d]) y = narrow(y, d, 0, shape[d]);
    }
    return y;
}
ConvShape shape_of(const GradCall& c, const Taken& o) {
    int64_t spatial = c.in(0).dim() - 2;
    return conv_shape(c.shape(0), c.shape(1), c.g().shape(),
                      {per_dimension(o.stride, spatial, "stride"),
                       per_dimension(o.padding, spatial, "padding"),
                       per_dimension(o.dilation, spatial, "dilation"),
                       {},
                       o.groups});
}
Taken taken(const GradCall& c, int first) {
    return {c.dims(first), c.dims(first + 1), c.dims(first + 2), {}, c.integer(first + 3)};
}

}  // namespace

GRAD("convolution", IN(1), IN(0), 0) {
    Taken o{c.dims(3), c.dims(4), c.dims(5), c.dims(7), c.integer(8)};
    bool transposed = c.flag(6);
    Var g = c.g();
    if (c.needs(0) && c.needs(1))
        g = call<"_conv_order">(g, !transposed && stays_planes(shape_of(c, o), c.in(0).tensor));
    if (c.needs(0))
        c.set(0, transposed ? conv_to(g, conj(c.in(1)), c.shape(0), o) : input_of(g, conj(c.in(1)), c.shape(0), o));
    if (c.needs(1))
        c.set(1, transposed ? weight_of(conj(c.in(0)), g, c.shape(1), o) : weight_of(g, conj(c.in(0)), c.shape(1), o));
    if (c.needs(2)) c.set(2, call<"_channel_sum">(c.g()));
}
GRAD("_conv_order") { c.set(0, c.g()); }
GRAD("_conv_input_gradient", IN(1), IN(0)) {
    Taken o = taken(c, 3);
    if (c.needs(0)) c.set(0, conv_to(c.g(), conj(c.in(1)), c.shape(0), o));
    if (c.needs(1)) c.set(1, weight_of(conj(c.in(0)), c.g(), c.shape(1), o));
}
GRAD("_conv_weight_gradient", IN(1), IN(0)) {
    Taken o = taken(c, 3);
    if (c.needs(0)) c.set(0, conv_to(conj(c.in(1)), c.g(), c.shape(0), o));
    if (c.needs(1)) c.set(1, input_of(conj(c.in(0)), c.g(), c.shape(1), o));
}

}  // namespace fb
