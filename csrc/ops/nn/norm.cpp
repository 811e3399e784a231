// Normalization: over channels of a batch, over groups of channels, over rows. Each op also returns the mean and the
// reciprocal standard deviation that its gradient needs.
#include "device/normalization.h"
#include "ops/nn/channels.h"
#include "ops/nn/norm_composed.h"
#include "ops/order/reduce.h"
#include "ops/table/dispatch.h"

namespace fb {
namespace {

// A weight, bias or running statistic in the compute dtype; undefined stays undefined.
Tensor parameter(const Tensor& p, const Tensor& x, const char* name) {
    if (!p) return p;
    bool fits = p.dtype() == x.dtype() || (is_half(x.dtype()) && p.dtype() == DType::F32);
    check(fits, "expected ", name, " to have the input's dtype ", x.dtype(), ", got ", p.dtype());
    return contiguous(to_dtype(p, compute_dtype(x.dtype())));
}

constexpr int64_t most_parts = 16;

// Shared statistics: the samples of channels-last tensors are one run of pixels.
device::NormShape norm_shape(const Channels& in, bool shared) {
    const Dims& shape = in.t.shape();
    device::NormShape s;
    s.batch = shape[0];
    s.channels = shape[1];
    for (int64_t d = 2; d < shape.size(); d++) s.pixels *= shape[d];
    s.last = in.last || (shared && s.pixels == 1);
    s.shared = shared;
    if (!s.last) return s;
    if (shared) {
        s.pixels *= s.batch;
        s.batch = 1;
    }
    s.parts = std::clamp<int64_t>(s.pixels / 128, 1, most_parts);
    return s;
}

// ---- over the batch -------------------------------------------------------------------------------------------------

// float64 running statistics to update, or undefined.
Tensor to_move(const Tensor& running) {
    if (!running) return running;
    Tensor next = to_dtype(contiguous(running), DType::F64);
    return next.is_same(running) ? clone(next) : next;
}

std::vector<Tensor> batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                               const Tensor& running_var, bool training, double momentum, double eps, bool relu) {
    check_floating(x);
    DType compute = compute_dtype(x.dtype());
    Channels in(x);
    device::NormShape s = norm_shape(in, true);
    Tensor from = to_dtype(in.t, compute), w = parameter(weight, x, "weight"), b = parameter(bias, x, "bias");
    Tensor mean = empty({s.channels}, compute, x.device()), rstd = empty({s.channels}, compute, x.device());
    Tensor shift = empty({s.channels}, compute, x.device()), y = in.result(x.shape(), compute);
    device::Running running{training ? to_move(running_mean) : parameter(running_mean, x, "running_mean"),
                            training ? to_move(running_var) : parameter(running_var, x, "running_var"), momentum};
    device::normalizing(x).batch(s, y, {mean, rstd}, shift, from, {w, b}, running, training, eps, relu);
    if (training && running_mean) copy_into(running_mean, running.mean);
    if (training && running_var) copy_into(running_var, running.variance);
    return {back(y, x.dtype()), mean, rstd, shift};
}

// `shifted`: what was added to the scaled input; if given, includes the gradient of the relu that follows.
std::vector<Tensor> batch_norm_gradient(const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& mean,
                                        const Tensor& rstd, const Tensor& shifted, bool training, bool needs_input) {
    DType compute = mean.dtype();
    Channels in(x);
    device::NormShape s = norm_shape(in, true);
    Tensor from = to_dtype(in.t, compute), g = to_dtype(in_order(grad, in.last), compute);
    Tensor w = parameter(weight, x, "weight");
    Tensor gw = empty({s.channels}, compute, x.device()), gb = empty({s.channels}, compute, x.device());
    Tensor gx = needs_input ? in.result(x.shape(), compute) : Tensor();
    device::normalizing(x).batch_gradient(s, {gx, gw, gb}, g, from, w, {mean, rstd}, shifted, training);
    if (!needs_input) return {gx, gw, gb};
    return {back(gx, x.dtype()), gw, gb};
}

// The sum of every channel over all samples.
Tensor channel_sum(const Tensor& x) {
    if (!is_floating(x.dtype())) {
        Dims over = {0};
        for (int64_t d = 2; d < x.dim(); d++) over.push_back(d);
        return sum(contiguous(x), over, false, x.dtype());
    }
    DType compute = compute_dtype(x.dtype());
    Channels in(x);
    device::NormShape s = norm_shape(in, true);
    Tensor result = empty({s.channels}, compute, x.device());
    device::normalizing(x).channel_sum(s, result, to_dtype(in.t, compute));
    return to_dtype(result, x.dtype());
}

// ---- over groups of channels ----------------------------------------------------------------------------------------

std::vector<Tensor> group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
    check_floating(x);
    DType compute = compute_dtype(x.dtype());
    Channels in(x);
    device::NormShape s = norm_shape(in, false);
    Tensor from = to_dtype(in.t, compute), w = parameter(weight, x, "weight"), b = parameter(bias, x, "bias");
    Tensor mean = empty({s.batch, groups}, compute, x.device()), rstd = empty({s.batch, groups}, compute, x.device());
    Tensor y = in.result(x.shape(), compute);
    device::normalizing(x).group(s, y, {mean, rstd}, from, {w, b}, groups, eps);
    return {back(y, x.dtype()), mean, rstd};
}

std::vector<Tensor> group_norm_gradient(const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& mean,
                                        const Tensor& rstd, int64_t groups, bool needs_input) {
    DType compute = mean.dtype();
    Channels in(x);
    device::NormShape s = norm_shape(in, false);
    Tensor from = to_dtype(in.t, compute), g = to_dtype(in_order(grad, in.last), compute);
    Tensor w = parameter(weight, x, "weight");
    Tensor gw = empty({s.channels}, compute, x.device()), gb = empty({s.channels}, compute, x.device());
    Tensor gx = needs_input ? in.result(x.shape(), compute) : Tensor();
    device::normalizing(x).group_gradient(s, {gx, gw, gb}, g, from, w, {mean, rstd}, groups);
    if (!needs_input) return {gx, gw, gb};
    return {back(gx, x.dtype()), gw, gb};
}

// ---- over rows ------------------------------------------------------------------------------------------------------

int64_t row_size(const Tensor& x, int64_t dims) {
    int64_t size = 1;
    for (int64_t d = x.dim() - dims; d < x.dim(); d++) size *= x.shape()[d];
    return size;
}

std::vector<Tensor> row_norm(const Tensor& x, int64_t dims, const Tensor& weight, const Tensor& bias, double eps,
                             bool centered) {
    check_floating(x);
    DType compute = compute_dtype(x.dtype());
    int64_t size = row_size(x, dims);
    Dims rows(x.shape().begin(), x.shape().end() - dims);
    Tensor from = contiguous(x), y = empty(x.shape(), x.dtype(), x.device());
    Tensor mean = centered ? empty(rows, compute, x.device()) : Tensor(), rstd = empty(rows, compute, x.device());
    device::Affine affine{parameter(weight, x, "weight"), parameter(bias, x, "bias")};
    device::normalizing(x).rows(y, {mean, rstd}, from, affine, size, eps, centered);
    if (!centered) mean = empty({0}, compute, x.device());
    return {y, mean, rstd};
}

std::vector<Tensor> row_norm_gradient(const Tensor& grad, const Tensor& x, int64_t dims, const Tensor& weight,
                                      const Tensor& mean, const Tensor& rstd, bool centered, bool needs_input,
                                      bool needs_parameters) {
    DType compute = rstd.dtype();
    int64_t size = row_size(x, dims);
    Dims last(x.shape().end() - dims, x.shape().end());
    Tensor gx = needs_input ? empty(x.shape(), x.dtype(), x.device()) : Tensor(), gw, gb;
    if (needs_parameters) {
        gw = empty(last, compute, x.device());
        gb = empty(last, compute, x.device());
    }
    device::normalizing(x).rows_gradient({gx, gw, gb}, to_dtype(contiguous(grad), x.dtype()), contiguous(x),
                                         parameter(weight, x, "weight"), {mean, rstd}, size, centered);
    return {gx, gw, gb};
}

// Whether the gradient itself is to be recorded: then it is composed of plain ops.
bool recorded(const Args& a) {
    return should_record({a.tensor(0), a.tensor(1)}) || (a.given(2) && should_record({a.tensor(2)}));
}

}  // namespace

#define SAVED "-> (Tensor result, Tensor mean, Tensor rstd)"
#define GRADIENTS "-> Tensor[]"

OP("_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, "
   "float momentum, float eps, bool relu) -> (Tensor result, Tensor mean, Tensor rstd, Tensor shift)",
   FREE | GATED) {
    return batch_norm(a.tensor(0), a.tensor_or_none(1), a.tensor_or_none(2), a.tensor_or_none(3), a.tensor_or_none(4),
                      a.flag(5), a.number(6), a.number(7), a.flag(8));
}
// The node of a relu that was fused: to the graph it is like any other relu.
OP("_relu(Tensor input) -> Tensor", FREE) {
    const Tensor& x = a.tensor(0);
    Tensor y = make_view(x.storage_ref(), x.dtype(), x.shape(), x.strides(), x.offset());
    y.impl()->free_layout = x.impl()->free_layout;
    return y;
}
OP("_batch_norm_gradient(Tensor grad, Tensor input, Tensor? weight, Tensor mean, Tensor rstd, bool training, float "
   "eps, bool needs_input, Tensor? shift) " GRADIENTS,
   FREE | COMPOSITE) {
    if (recorded(a)) return composed_batch_norm_gradient(a);
    return batch_norm_gradient(a.tensor(0), a.tensor(1), a.tensor_or_none(2), a.tensor(3), a.tensor(4),
                               a.tensor_or_none(8), a.flag(5), a.flag(7));
}

OP("_channel_sum(Tensor input) -> Tensor", FREE) { return channel_sum(a.tensor(0)); }

OP("_group_norm(Tensor input, int groups, Tensor? weight, Tensor? bias, float eps) " SAVED, FREE) {
    return group_norm(a.tensor(0), a.integer(1), a.tensor_or_none(2), a.tensor_or_none(3), a.number(4));
}
OP("_group_norm_gradient(Tensor grad, Tensor input, Tensor? weight, Tensor mean, Tensor rstd, int groups, float eps, "
   "bool needs_input) " GRADIENTS,
   FREE | COMPOSITE) {
    if (recorded(a)) return composed_group_norm_gradient(a);
    return group_norm_gradient(a.tensor(0), a.tensor(1), a.tensor_or_none(2), a.tensor(3), a.tensor(4), a.integer(5),
                               a.flag(7));
}

// Over the last `dims` dimensions. Not centered: by the root mean square.
OP("_row_norm(Tensor input, int dims, Tensor? weight, Tensor? bias, float eps, bool centered) " SAVED, 0) {
    return row_norm(a.tensor(0), a.integer(1), a.tensor_or_none(2), a.tensor_or_none(3), a.number(4), a.flag(5));
}
OP("_row_norm_gradient(Tensor grad, Tensor input, Tensor? weight, Tensor mean, Tensor rstd, int dims, float eps, bool "
   "centered, bool needs_input, bool needs_parameters) " GRADIENTS,
   COMPOSITE) {
    if (recorded(a)) return composed_row_norm_gradient(a);
    return row_norm_gradient(a.tensor(0), a.tensor(1), a.integer(5), a.tensor_or_none(2), a.tensor(3), a.tensor(4),
                             a.flag(7), a.flag(8), a.flag(9));
}

// Called by the functions of flambeau.nn.functional after their checks.
namespace {

void check_channels(const Tensor& x) {
    check_floating(x);
    check(x.dim() >= 2, "expected an input of at least 2 dimensions (batch, channels, ...), got shape ", x.shape());
}
void check_per_channel(const Args& a, std::initializer_list<int> which, int64_t channels) {
    for (int i : which) {
        if (a.given(i))
            check(a.tensor(i).dim() == 1 && a.tensor(i).numel() == channels, "expected ", channels,
                  " numbers, one per channel, got shape ", a.tensor(i).shape());
    }
}

}  // namespace

static Var checked_batch_norm(const Args& a, bool relu) {
    check_channels(a.tensor(0));
    check_per_channel(a, {1, 2, 3, 4}, a.tensor(0).shape()[1]);
    check(a.flag(5) || (a.given(1) && a.given(2)), "running statistics are needed when training is False");
    check(a.given(1) == a.given(2), "running_mean and running_var belong together");
    auto var = [&](int i) { return a.given(i) ? Var(a.tensor(i)) : Var(); };
    return call_all<"_batch_norm">(var(0), var(3), var(4), var(1), var(2), a.flag(5), a.number(6), a.number(7),
                                   relu)[0];
}
#define BATCH_NORM                                                                                                  \
    "(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight, Tensor? bias, bool training, float " \
    "momentum, float eps) -> Tensor"
OP("_nn.batch_norm" BATCH_NORM, FUNCTION | FREE | COMPOSITE) { return checked_batch_norm(a, false).tensor; }
// Fused with the relu that follows, which saves a pass over memory.
OP("_nn.batch_norm_relu" BATCH_NORM, FUNCTION | FREE | COMPOSITE) {
    return call<"_relu">(checked_batch_norm(a, true)).tensor;
}
OP("_nn.group_norm(Tensor input, int groups, Tensor? weight, Tensor? bias, float eps) -> Tensor",
   FUNCTION | FREE | COMPOSITE) {
    check_channels(a.tensor(0));
    int64_t channels = a.tensor(0).shape()[1];
    check(a.integer(1) > 0 && channels % a.integer(1) == 0, "expected the ", channels,
          " channels to be divisible by groups, got ", a.integer(1));
    check_per_channel(a, {2, 3}, channels);
    auto var = [&](int i) { return a.given(i) ? Var(a.tensor(i)) : Var(); };
    return call_all<"_group_norm">(var(0), a.integer(1), var(2), var(3), a.number(4))[0].tensor;
}
OP("_nn.row_norm(Tensor input, int dims, Tensor? weight, Tensor? bias, float eps, bool centered) -> Tensor",
   FUNCTION | COMPOSITE) {
    const Tensor& x = a.tensor(0);
    check_floating(x);
    check(a.integer(1) > 0 && a.integer(1) <= x.dim(), "expected 1 to ", x.dim(), " dims for shape ", x.shape(),
          ", got ", a.integer(1));
    Dims row(x.shape().end() - a.integer(1), x.shape().end());
    for (int i : {2, 3}) {
        if (a.given(i))
            check(a.tensor(i).shape() == row, "expected shape ", row, " of a row, got ", a.tensor(i).shape());
    }
    auto var = [&](int i) { return a.given(i) ? Var(a.tensor(i)) : Var(); };
    return call_all<"_row_norm">(var(0), a.integer(1), var(2), var(3), a.number(4), a.flag(5))[0].tensor;
}

}  // namespace fb
