// Pooling over windows: checks, shapes, and the ops used by gradients and public names (pooling_public.cpp).
#include "device/pooling.h"

#include "ops/nn/channels.h"

namespace fb {
namespace {

struct Windows {
    Dims kernel, stride, padding, dilation;
    bool ceil = false;
};

Dims per_dimension(const Dims& given, int64_t spatial, const char* name) {
    if (given.size() == spatial) return given;
    check(given.size() == 1, name, " must either be a single int, or a tuple of ", spatial, " ints, got ", given);
    return Dims(spatial, given[0]);
}

Windows windows(const Args& a, int64_t spatial, int dilation, int ceil) {
    Windows w;
    w.kernel = per_dimension(a.dims(1), spatial, "kernel_size");
    w.stride = a.dims(2).empty() ? w.kernel : per_dimension(a.dims(2), spatial, "stride");
    w.padding = per_dimension(a.dims(3), spatial, "padding");
    w.dilation = dilation ? per_dimension(a.dims(dilation), spatial, "dilation") : Dims(spatial, 1);
    w.ceil = a.flag(ceil);
    // Places in the input are sums of products of these and sizes: below this they fit 64 bits.
    constexpr int64_t limit = int64_t(1) << 31;
    for (const Dims* given : {&w.kernel, &w.stride, &w.padding, &w.dilation})
        for (int64_t v : *given)
            check(v < limit,
                  "integer out of range: kernel size, stride, padding and dilation must be less than 2**31, got ",
                  *given);
    for (int64_t d = 0; d < spatial; d++) {
        check(w.kernel[d] > 0,
              "kernel size should be greater than zero (kernel_size must be greater than zero), but got ", w.kernel);
        check(w.stride[d] > 0, "stride should be greater than zero (stride must be greater than zero, but got ",
              w.stride[d], "), got ", w.stride);
        check(w.dilation[d] > 0, "dilation should be greater than zero (dilation must be greater than zero, but got ",
              w.dilation[d], "), got ", w.dilation);
        check(w.padding[d] >= 0, "pad must be non-negative, but got pad: ", w.padding);
        int64_t reach = checked_mul(w.kernel[d] - 1, w.dilation[d], "the window") + 1;
        check(w.padding[d] <= reach / 2,
              "pad should be at most half of effective kernel size, but got pad=", w.padding[d],
              ", kernel_size=", w.kernel[d], " and dilation=", w.dilation[d]);
    }
    return w;
}

void check_input(const Tensor& x, int64_t spatial) {
    bool fits = x.dim() == spatial + 2;
    for (int64_t d = 1; fits && d < x.dim(); d++) fits = x.shape()[d] > 0;
    check(
        fits, "Expected ", spatial + 1, "D or ", spatial + 2,
        "D (batch mode) tensor with optional 0 dim batch size for input (Expected input's non-batch dimensions to have "
        "positive length), but got shape ",
        x.shape());
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// The only window of a missing dimension.
void whole(device::Spans& spans) {
    spans.resize(1);
    spans[0] = {0, 1, 1};
}

// The shape of the result.
Dims with_places(const Dims& x, const device::PoolingShape& s) {
    Dims shape = x;
    for (int64_t d = 2; d < x.size(); d++) shape[d] = s.out[3 - (x.size() - 2) + d - 2];
    checked_numel(shape);
    return shape;
}

// Sizes and windows; `include_pad` counts padding in averages.
device::PoolingShape windows_shape(const Dims& x, const Windows& w, bool include_pad) {
    device::PoolingShape s;
    s.batch = x[0];
    s.channels = x[1];
    int64_t spatial = x.size() - 2, missing = 3 - spatial;
    for (int64_t i = 0; i < missing; i++) whole(s.spans[i]);
    for (int64_t d = 0; d < spatial; d++) {
        int64_t i = missing + d, in = x[2 + d], stride = w.stride[d], pad = w.padding[d], step = w.dilation[d];
        int64_t reach = step * (w.kernel[d] - 1) + 1, room;
        check(!__builtin_add_overflow(in, 2 * pad - reach, &room) && pad < INT64_MAX / 4 && stride < INT64_MAX / 4,
              "integer out of range: kernel size ", w.kernel, ", padding ", w.padding);
        int64_t out = floor_div(room + (w.ceil ? stride - 1 : 0), stride) + 1;
        // The last window has to begin inside the input or the padding before it.
        if (w.ceil && (out - 1) * stride >= in + pad) out--;
        check(out > 0, "given input size ", x, ": calculated output size ", out, " in dimension ", d,
              ": Output size is too small (Invalid computed output size: ", out, ")");
        s.in[i] = in;
        s.out[i] = out;
        s.step[i] = step;
        s.spans[i].resize(out);
        for (int64_t o = 0; o < out; o++) {
            int64_t begin = o * stride - pad, end = std::min(begin + reach, in);
            int64_t padded = std::min(begin + reach, in + pad) - begin;
            if (begin < 0) begin += (-begin + step - 1) / step * step;
            s.spans[i][o] = {begin, end, include_pad ? padded : end - begin};
        }
    }
    s.stride = w.stride[spatial - 1];
    s.padding = w.padding[spatial - 1];
    s.kernel = w.kernel[spatial - 1];
    return s;
}

device::PoolingShape adaptive_shape(const Dims& x, const Dims& output_size) {
    device::PoolingShape s;
    s.batch = x[0];
    s.channels = x[1];
    int64_t spatial = x.size() - 2, missing = 3 - spatial;
    Dims sizes = per_dimension(output_size, spatial, "output_size");
    for (int64_t i = 0; i < missing; i++) whole(s.spans[i]);
    for (int64_t d = 0; d < spatial; d++) {
        int64_t i = missing + d, in = x[2 + d], out = sizes[d];
        check(out >= 0,
              "elements of output_size must be greater than or equal to 0 (Trying to create tensor with negative "
              "dimension ",
              out, "), but received ", output_size);
        check(out < INT64_MAX, "output_size is out of range: ", output_size);
        checked_mul(in, out + 1, "the windows");
        s.in[i] = in;
        s.out[i] = out;
    }
    with_places(x, s);
    for (int64_t i = missing; i < 3; i++) {
        int64_t in = s.in[i], out = s.out[i];
        s.spans[i].resize(out);
        for (int64_t o = 0; o < out; o++) {
            int64_t begin = o * in / out, end = ((o + 1) * in + out - 1) / out;
            s.spans[i][o] = {begin, end, end - begin};
        }
    }
    return s;
}

// Between existing tensors: only sizes matter.
device::PoolingShape sizes_of(const Dims& big, const Dims& small) {
    device::PoolingShape s;
    s.batch = big[0];
    s.channels = big[1];
    int64_t spatial = big.size() - 2;
    for (int64_t d = 0; d < spatial; d++) {
        s.in[3 - spatial + d] = big[2 + d];
        s.out[3 - spatial + d] = small[2 + d];
    }
    return s;
}

// Half types compute in float32, small integers in int64.
DType computing(DType d) { return is_half(d) ? DType::F32 : is_integral(d) ? DType::I64 : d; }
std::vector<Tensor> maxima(const Tensor& x, device::PoolingShape s, bool with, bool wide) {
    if (is_complex(x.dtype()) || x.dtype() == DType::Bool) fail_dtype(x.dtype(), "a real dtype");
    Channels in(x);
    s.last = in.last;
    check(s.pixels() <= INT32_MAX, "planes of ", s.pixels(), " elements are too large to pool");
    Dims shape = with_places(x.shape(), s);
    Tensor y = in.result(shape, computing(x.dtype())), indices;
    if (with) indices = in.result(shape, wide ? DType::I64 : DType::I32);
    device::pooling(x).max(s, y, indices, to_dtype(in.t, y.dtype()));
    return {back(y, x.dtype()), indices};
}

Tensor averages(const Tensor& x, device::PoolingShape s) {
    if (!is_floating(x.dtype()) && x.dtype() != DType::I64) fail_dtype(x.dtype(), "a floating point dtype or int64");
    Channels in(x);
    s.last = in.last;
    Tensor y = in.result(with_places(x.shape(), s), computing(x.dtype()));
    device::pooling(x).average(s, y, to_dtype(in.t, y.dtype()));
    return back(y, x.dtype());
}

Tensor average_gradient(const Tensor& g, const Dims& shape, device::PoolingShape s) {
    Channels in(g);
    s.last = in.last;
    Tensor gx = in.result(shape, computing(g.dtype()));
    device::pooling(g).average_gradient(s, gx, to_dtype(in.t, gx.dtype()));
    return back(gx, g.dtype());
}

void check_same_shape(const Tensor& x, const Tensor& indices) {
    check(x.shape() == indices.shape(), "Expected shape of indices to be the same as that of the input (", x.shape(),
          "), but got ", indices.shape());
}

// Moves elements of `small` to the positions given by the indices.
Tensor by_index(const Tensor& small, const Tensor& indices, const Dims& shape, bool add) {
    check_same_shape(small, indices);
    Channels in(small);
    device::PoolingShape s = sizes_of(shape, small.shape());
    bool last = s.last = indices.is_contiguous() ? false : is_channels_last(indices);
    in.promised = in.promised && in.last;
    in.last = last;
    Tensor big = in.result(shape, computing(small.dtype()));
    device::pooling(small).scatter(s, big, to_dtype(in_order(small, last), big.dtype()), in_order(indices, last), add);
    return back(big, small.dtype());
}

device::PoolingShape average_shape(const Args& a, const Dims& shape, const Windows& w) {
    device::PoolingShape s = windows_shape(shape, w, a.flag(5));
    if (a.given(6)) {
        check(a.integer(6) != 0, "divisor must be not zero");
        s.divisor = double(a.integer(6));
    }
    return s;
}

std::vector<Tensor> fractional(const Tensor& given, const Dims& kernel_size, const Dims& output_size,
                               const Tensor& random) {
    check_floating(given);
    int64_t spatial = given.dim() - 2, missing = 3 - spatial;
    Dims kernel = per_dimension(kernel_size, spatial, "kernel_size");
    Dims sizes = per_dimension(output_size, spatial, "output_size");
    Tensor x = to_dtype(contiguous(given), computing(given.dtype()));
    check(random.dtype() == given.dtype(), "expected _random_samples to have the input's dtype ", given.dtype(),
          ", got ", random.dtype());
    check(random.dim() == 3 && random.shape()[0] >= x.shape()[0] && random.shape()[1] == x.shape()[1] &&
              random.shape()[2] == spatial,
          "expected _random_samples of shape ", Dims{x.shape()[0], x.shape()[1], spatial}, ", got ", random.shape());
    device::PoolingShape s;
    s.batch = x.shape()[0];
    s.channels = x.shape()[1];
    int64_t taps[3] = {1, 1, 1};
    for (int64_t d = 0; d < spatial; d++) {
        int64_t i = missing + d;
        s.in[i] = x.shape()[2 + d];
        s.out[i] = sizes[d];
        taps[i] = kernel[d];
        check(kernel[d] > 0, "kernel_size must be greater than zero, got ", kernel);
        check(sizes[d] > 0, "output_size must be greater than zero, got ", sizes);
        check(sizes[d] <= s.in[i] && kernel[d] <= s.in[i] && sizes[d] + kernel[d] - 1 <= s.in[i], "pool size ",
              kernel[d], " and output size ", sizes[d], " are too large for input size ", s.in[i], " in dimension ", d);
    }
    check(s.pixels() <= INT32_MAX, "planes of ", s.pixels(), " elements are too large to pool");
    Dims shape = with_places(x.shape(), s);
    Tensor samples = to_dtype(contiguous(random), x.dtype());
    for (int64_t i = 0; i < 3; i++) checked_mul(s.batch * s.channels, s.out[i], "the windows");
    Tensor y = empty(shape, x.dtype(), x.device()), indices = empty(shape, DType::I64, x.device());
    device::pooling(x).fractional_max(s, taps, spatial, samples, y, indices, x);
    return {to_dtype(y, given.dtype()), indices};
}

}  // namespace

#define MAX_WINDOWS "int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode"
#define AVG_WINDOWS \
    "int[] kernel_size, int[] stride, int[] padding, bool ceil_mode, bool count_include_pad, int? divisor_override"

// `wide`: int64 indices, for users; int32 is enough for the gradient.
OP("_max_pool(Tensor input, " MAX_WINDOWS ", bool wide) -> (Tensor values, Tensor indices)", FREE) {
    const Tensor& x = a.tensor(0);
    Windows w = windows(a, x.dim() - 2, 4, 5);
    check_input(x, x.dim() - 2);
    return maxima(x, windows_shape(x.shape(), w, false), true, a.flag(6));
}
OP("_max_pool_values(Tensor input, " MAX_WINDOWS ") -> Tensor", FREE) {
    const Tensor& x = a.tensor(0);
    Windows w = windows(a, x.dim() - 2, 4, 5);
    check_input(x, x.dim() - 2);
    return maxima(x, windows_shape(x.shape(), w, false), false, false)[0];
}
OP("_adaptive_max_pool(Tensor input, int[] output_size) -> (Tensor values, Tensor indices)", FREE) {
    const Tensor& x = a.tensor(0);
    check_input(x, x.dim() - 2);
    check_floating(x);
    return maxima(x, adaptive_shape(x.shape(), a.dims(1)), true, true);
}
OP("_fractional_max_pool(Tensor input, int[] kernel_size, int[] output_size, Tensor samples) -> (Tensor values, Tensor "
   "indices)",
   0) {
    check_input(a.tensor(0), a.tensor(0).dim() - 2);
    return fractional(a.tensor(0), a.dims(1), a.dims(2), a.tensor(3));
}
// Adds every element of grad at its index.
OP("_max_pool_gradient(Tensor grad, Tensor indices, int[] shape) -> Tensor", FREE) {
    return by_index(a.tensor(0), a.tensor(1), a.dims(2), true);
}
// The elements at the indices.
OP("_max_pool_pick(Tensor input, Tensor indices) -> Tensor", FREE) {
    const Tensor &x = a.tensor(0), &indices = a.tensor(1);
    Channels in(x);
    device::PoolingShape s = sizes_of(x.shape(), indices.shape());
    s.last = in.last;
    Tensor y = in.result(indices.shape(), computing(x.dtype()));
    device::pooling(x).gather(s, y, to_dtype(in.t, y.dtype()), in_order(indices, in.last));
    return back(y, x.dtype());
}
OP("_max_unpool(Tensor input, Tensor indices, int[] output_size) -> Tensor", FREE) {
    const Tensor &x = a.tensor(0), &indices = a.tensor(1);
    int64_t spatial = x.dim() - 2;
    if (indices.dtype() != DType::I64)
        fail_type("elements in indices should be of type int64, but got ", indices.dtype());
    if (is_complex(x.dtype()) || x.dtype() == DType::Bool) fail_dtype(x.dtype(), "a real dtype");
    check_same_shape(x, indices);
    for (int64_t d = 1; d < x.dim(); d++)
        check(x.shape()[d] > 0, "expected the input to have non-zero size in all but the batch dimension, but got ",
              x.shape());
    Dims sizes = per_dimension(a.dims(2), spatial, "output_size"), shape = {x.shape()[0], x.shape()[1]};
    for (int64_t size : sizes) {
        check(size >= 0, "output_size must not be negative, got ", sizes);
        shape.push_back(size);
    }
    checked_numel(shape);
    return by_index(x, indices, shape, false);
}

OP("_avg_pool(Tensor input, " AVG_WINDOWS ") -> Tensor", FREE) {
    const Tensor& x = a.tensor(0);
    Windows w = windows(a, x.dim() - 2, 0, 4);
    check_input(x, x.dim() - 2);
    return averages(x, average_shape(a, x.shape(), w));
}
OP("_avg_pool_gradient(Tensor grad, " AVG_WINDOWS ", int[] shape) -> Tensor", FREE) {
    const Dims& shape = a.dims(7);
    return average_gradient(a.tensor(0), shape, average_shape(a, shape, windows(a, shape.size() - 2, 0, 4)));
}
OP("_adaptive_avg_pool(Tensor input, int[] output_size) -> Tensor", FREE) {
    const Tensor& x = a.tensor(0);
    check_input(x, x.dim() - 2);
    check_floating(x);
    return averages(x, adaptive_shape(x.shape(), a.dims(1)));
}
OP("_adaptive_avg_pool_gradient(Tensor grad, int[] shape) -> Tensor", FREE) {
    const Tensor& g = a.tensor(0);
    return average_gradient(g, a.dims(1), adaptive_shape(a.dims(1), Dims(g.shape().begin() + 2, g.shape().end())));
}

}  // namespace fb
