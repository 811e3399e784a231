// Normalization: statistics from the sums of norm.cpp, and the coefficients of its affine maps.
#include "device/normalization.h"

#include <cmath>

#include "backend/cpu/norm.h"

namespace fb::cpu {
namespace {

using device::Affine;
using device::NormGradients;
using device::Running;
using device::Statistics;

// Reads a tensor of coefficients, or `value` if it is undefined.
struct Numbers {
    const Tensor& t;
    double value;
    double operator[](int64_t i) const {
        if (!t.defined()) return value;
        return t.dtype() == DType::F32 ? double(t.data<float>()[i]) : t.data<double>()[i];
    }
};
void put(const Tensor& t, int64_t i, double value) {
    if (t.dtype() == DType::F32) t.data<float>()[i] = float(value);
    else t.data<double>()[i] = value;
}

// ---- over the batch -------------------------------------------------------------------------------------------------

// Mean and variance of every channel.
void batch_moments(const NormShape& s, const Tensor& x, std::vector<double>& mean, std::vector<double>& variance) {
    std::vector<double> means, spreads;
    channel_moments(s, x, means, spreads);
    mean.assign(static_cast<size_t>(s.channels), 0);
    variance.assign(mean.size(), 0);
    double count = 0;
    for (int64_t segment = 0; segment < s.segments(); segment++) {
        double n = double(s.part_size(segment % s.parts));
        if (n == 0) continue;
        for (int64_t c = 0; c < s.channels; c++) {
            size_t i = static_cast<size_t>(c), k = static_cast<size_t>(segment * s.channels + c);
            double delta = means[k] - mean[i];
            mean[i] += delta * n / (count + n);
            variance[i] += spreads[k] + delta * delta * count * n / (count + n);
        }
        count += n;
    }
    for (double& v : variance) v /= count;
}

void move_towards(const Tensor& running, const std::vector<double>& now, double factor, double momentum) {
    for (int64_t c = 0; running && c < running.numel(); c++) {
        double& value = running.data<double>()[c];
        value = (1 - momentum) * value + momentum * factor * now[static_cast<size_t>(c)];
    }
}

void batch(const NormShape& s, const Tensor& y, const Statistics& made, const Tensor& shift, const Tensor& x,
           const Affine& affine, const Running& running, bool training, double eps, bool relu) {
    if (training) {
        std::vector<double> means, variances;
        batch_moments(s, x, means, variances);
        double count = double(s.batch * s.pixels);
        for (int64_t c = 0; c < s.channels; c++) {
            put(made.mean, c, means[static_cast<size_t>(c)]);
            put(made.rstd, c, 1 / std::sqrt(variances[static_cast<size_t>(c)] + eps));
        }
        move_towards(running.mean, means, 1, running.momentum);
        move_towards(running.variance, variances, count > 1 ? count / (count - 1) : 1, running.momentum);
    } else {
        for (int64_t c = 0; c < s.channels; c++) {
            put(made.mean, c, Numbers{running.mean, 0}[c]);
            put(made.rstd, c, 1 / std::sqrt(Numbers{running.variance, 1}[c] + eps));
        }
    }
    Tensor scale = empty({s.channels}, x.dtype(), x.device());
    for (int64_t c = 0; c < s.channels; c++) {
        double factor = Numbers{affine.weight, 1}[c] * Numbers{made.rstd, 1}[c];
        put(scale, c, factor);
        put(shift, c, Numbers{affine.bias, 0}[c] - Numbers{made.mean, 0}[c] * factor);
    }
    channel_affine(s, y, x, scale, shift, relu);
}

void batch_gradient(const NormShape& s, const NormGradients& to, const Tensor& g, const Tensor& x, const Tensor& weight,
                    const Statistics& made, const Tensor& shifted, bool training) {
    Tensor a = empty({s.channels}, x.dtype(), x.device()), slope = empty({s.channels}, x.dtype(), x.device()),
           shift = empty({s.channels}, x.dtype(), x.device());
    for (int64_t c = 0; c < s.channels; c++) put(a, c, Numbers{weight, 1}[c] * Numbers{made.rstd, 1}[c]);
    Gate gate = shifted ? Gate{a, shifted} : Gate{};
    std::vector<double> sums, products;
    channel_products(s, g, x, made.mean, gate, sums, products);
    double count = double(s.batch * s.pixels);
    for (int64_t c = 0; c < s.channels; c++) {
        double sum = 0, product = 0, r = Numbers{made.rstd, 1}[c], scale = Numbers{weight, 1}[c] * r;
        for (int64_t segment = 0; segment < s.segments(); segment++) {
            sum += sums[static_cast<size_t>(segment * s.channels + c)];
            product += products[static_cast<size_t>(segment * s.channels + c)];
        }
        put(to.weight, c, product * r);
        put(to.bias, c, sum);
        put(slope, c, training ? -scale * r * r * product / count : 0);
        put(shift, c, training ? -scale * sum / count : 0);
    }
    if (to.input) channel_combine(s, to.input, g, x, made.mean, gate, a, slope, shift);
}

void channel_sum(const NormShape& s, const Tensor& to, const Tensor& x) {
    std::vector<double> sums;
    channel_sums(s, x, sums);
    for (int64_t c = 0; c < s.channels; c++) {
        double all = 0;
        for (int64_t segment = 0; segment < s.segments(); segment++)
            all += sums[static_cast<size_t>(segment * s.channels + c)];
        put(to, c, all);
    }
}

// ---- over groups of channels ----------------------------------------------------------------------------------------

void group(const NormShape& s, const Tensor& y, const Statistics& made, const Tensor& x, const Affine& affine,
           int64_t groups, double eps) {
    Tensor scale = empty({s.batch, s.channels}, x.dtype(), x.device()),
           shift = empty({s.batch, s.channels}, x.dtype(), x.device());
    std::vector<double> means, spreads;
    channel_moments(s, x, means, spreads);
    int64_t each = s.channels / groups;
    for (int64_t n = 0; n < s.batch; n++)
        for (int64_t group = 0; group < groups; group++) {
            double count = 0, middle = 0, spread = 0;
            for (int64_t part = 0; part < s.parts; part++)
                for (int64_t c = group * each; c < (group + 1) * each; c++) {
                    size_t k = static_cast<size_t>((n * s.parts + part) * s.channels + c);
                    double more = double(s.part_size(part)), delta = means[k] - middle;
                    middle += delta * more / (count + more);
                    spread += spreads[k] + delta * delta * count * more / (count + more);
                    count += more;
                }
            double r = 1 / std::sqrt(spread / count + eps);
            put(made.mean, n * groups + group, middle);
            put(made.rstd, n * groups + group, r);
            for (int64_t c = group * each; c < (group + 1) * each; c++) {
                double factor = Numbers{affine.weight, 1}[c] * r;
                put(scale, n * s.channels + c, factor);
                put(shift, n * s.channels + c, Numbers{affine.bias, 0}[c] - middle * factor);
            }
        }
    channel_affine(s, y, x, scale, shift);
}

void group_gradient(const NormShape& s, const NormGradients& to, const Tensor& g, const Tensor& x, const Tensor& weight,
                    const Statistics& made, int64_t groups) {
    int64_t each = s.channels / groups;
    Dims table = {s.batch, s.channels};
    Tensor center = empty(table, x.dtype(), x.device()), a = empty(table, x.dtype(), x.device()),
           slope = empty(table, x.dtype(), x.device()), shift = empty(table, x.dtype(), x.device());
    for (int64_t i = 0; i < s.batch * s.channels; i++) put(center, i, Numbers{made.mean, 0}[i / each]);
    std::vector<double> sums, products;
    channel_products(s, g, x, center, {}, sums, products);
    std::vector<double> to_weight(static_cast<size_t>(s.channels)), to_bias(static_cast<size_t>(s.channels));
    double count = double(each * s.pixels);
    for (int64_t n = 0; n < s.batch; n++)
        for (int64_t group = 0; group < groups; group++) {
            double all = 0, crossed = 0, r = Numbers{made.rstd, 1}[n * groups + group];
            for (int64_t c = group * each; c < (group + 1) * each; c++) {
                double sum = 0, product = 0;
                for (int64_t part = 0; part < s.parts; part++) {
                    size_t k = static_cast<size_t>((n * s.parts + part) * s.channels + c);
                    sum += sums[k];
                    product += products[k];
                }
                to_weight[static_cast<size_t>(c)] += product * r;
                to_bias[static_cast<size_t>(c)] += sum;
                all += sum * Numbers{weight, 1}[c];
                crossed += product * Numbers{weight, 1}[c];
            }
            for (int64_t c = group * each; c < (group + 1) * each; c++) {
                int64_t k = n * s.channels + c;
                put(a, k, Numbers{weight, 1}[c] * r);
                put(slope, k, -crossed * r * r * r / count);
                put(shift, k, -all * r / count);
            }
        }
    for (int64_t c = 0; c < s.channels; c++) {
        put(to.weight, c, to_weight[static_cast<size_t>(c)]);
        put(to.bias, c, to_bias[static_cast<size_t>(c)]);
    }
    if (to.input) channel_combine(s, to.input, g, x, center, {}, a, slope, shift);
}

// ---- over rows ------------------------------------------------------------------------------------------------------

void rows(const Tensor& y, const Statistics& made, const Tensor& x, const Affine& affine, int64_t size, double eps,
          bool centered) {
    row_norm(y, made.mean, made.rstd, x, affine.weight, affine.bias, size, eps, centered);
}
void rows_gradient(const NormGradients& to, const Tensor& g, const Tensor& x, const Tensor& weight,
                   const Statistics& made, int64_t size, bool centered) {
    row_norm_gradient(to.input, to.weight, to.bias, g, x, weight, made.mean, made.rstd, size, centered);
}

const device::Provide<device::Normalizing> provided(DeviceType::CPU, {.batch = batch,
                                                                      .batch_gradient = batch_gradient,
                                                                      .channel_sum = channel_sum,
                                                                      .group = group,
                                                                      .group_gradient = group_gradient,
                                                                      .rows = rows,
                                                                      .rows_gradient = rows_gradient});

}  // namespace
}  // namespace fb::cpu
