// The primitives that have kernels on accelerators. Each has the arguments of its entry in a family of csrc/device and
// returns false, without doing anything, if there is no kernel for the given dtypes or layouts; the caller then falls
// back to the CPU (families.cpp).
#pragma once
#include "device/attention.h"
#include "device/convolution.h"
#include "device/count.h"
#include "device/create.h"
#include "device/index.h"
#include "device/loop.h"
#include "device/losses.h"
#include "device/matmul.h"
#include "device/move.h"
#include "device/normalization.h"
#include "device/optimizer.h"
#include "device/pooling.h"
#include "device/random.h"
#include "device/recurrent.h"
#include "device/reduce.h"
#include "device/scan.h"
#include "device/sort.h"

namespace fb::gpu {

// As in device/move.h; each side may be on the host.
void copy(const Tensor& to, const Tensor& from);
void fill(const Tensor& to, const char* element);
void write(const Tensor& to, const void* from);
// to = from, converted, both on the device.
bool run_copy(const Tensor& to, const Tensor& from);

// complex.cpp: formulas, copies and products where a dtype is complex.
bool run_complex_loop(const Formula& formula, DType common, const Tensor& out, const Tensor* const* in,
                      const Numbers* numbers);
bool run_complex_copy(const Tensor& to, const Tensor& from);
bool run_complex_product(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& alpha, const Scalar& beta);

// loop.cpp
bool run_loop(const Formula& formula, DType common, const Tensor& out, const Tensor* const* in, const Numbers* numbers);
bool run_pair(const Formula& formula, const Tensor& first, const Tensor& second, const Tensor& x);

// reduce.cpp
bool run_reduction(device::Reduction how, DType read, const Tensor& in, const Dims& reduced, const Tensor* outs,
                   const double* numbers);
// Two sums over the same elements: of texts of x, an element of `in`, y, the one of a tensor with the same strides, and
// tensors with a number for each result, called of_ and their names; `zero` is 0.
bool run_sums(const Tensor& in, const Tensor& other, const Dims& reduced, const Tensor (&outs)[2],
              const std::string (&elements)[2], const std::vector<std::pair<std::string, Tensor>>& of_result);
bool run_extreme_along(const Tensor& in, int64_t dim, bool largest, const Tensor& values, const Tensor& indices);

// product.cpp
bool run_product(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& alpha, const Scalar& beta);
bool run_product_with_bias(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias);
bool run_dot(const Tensor& out, const Tensor& x, const Tensor& y);

// distance.cpp
bool run_distances(const Tensor& out, const Tensor& x, const Tensor& y, double p, bool by_product);
bool run_pair_distances(const Tensor& out, const Tensor& x, double p);
bool run_distance_slopes(const Tensor& out, const Tensor& g, const Tensor& x, const Tensor& y, double p,
                         const Tensor& d);

// scan.cpp
bool run_scan_sum(const Tensor& in, const Tensor& out, int64_t dim);
bool run_scan_product(const Tensor& in, const Tensor& out, int64_t dim);
bool run_scan_logsumexp(const Tensor& in, const Tensor& out, int64_t dim);
bool run_scan_extreme(const Tensor& in, int64_t dim, bool largest, const Tensor& values, const Tensor& indices);
bool run_scan_linear(const Tensor& in, const Tensor& factor, const Tensor& out, int64_t dim, bool reverse);
bool run_softmax(const Tensor& in, const Tensor& out, int64_t dim, bool logarithm);
bool run_softmax_backward(const Tensor& g, const Tensor& y, const Tensor& out, int64_t dim, bool logarithm);
bool run_cross_entropy(const Tensor& input, const Tensor& target, int64_t ignored, double smoothing, const Tensor& loss,
                       const Tensor& logsumexp);
bool run_cross_entropy_backward(const Tensor& grad, const Tensor& input, const Tensor& target, const Tensor& logsumexp,
                                int64_t ignored, double smoothing, const Tensor& out);

// norm.cpp
bool run_batch_norm(const device::NormShape& s, const Tensor& y, const device::Statistics& made, const Tensor& shift,
                    const Tensor& x, const device::Affine& affine, const device::Running& running, bool training,
                    double eps, bool relu);
bool run_batch_norm_gradient(const device::NormShape& s, const device::NormGradients& to, const Tensor& g,
                             const Tensor& x, const Tensor& weight, const device::Statistics& made,
                             const Tensor& shifted, bool training);
bool run_channel_sum(const device::NormShape& s, const Tensor& to, const Tensor& x);
bool run_group_norm(const device::NormShape& s, const Tensor& y, const device::Statistics& made, const Tensor& x,
                    const device::Affine& affine, int64_t groups, double eps);
bool run_group_norm_gradient(const device::NormShape& s, const device::NormGradients& to, const Tensor& g,
                             const Tensor& x, const Tensor& weight, const device::Statistics& made, int64_t groups);
bool run_row_norm(const Tensor& y, const device::Statistics& made, const Tensor& x, const device::Affine& affine,
                  int64_t size, double eps, bool centered);
bool run_row_norm_gradient(const device::NormGradients& to, const Tensor& g, const Tensor& x, const Tensor& weight,
                           const device::Statistics& made, int64_t size, bool centered);

// optimizer.cpp
bool run_sgd(const device::OptimizerRows& rows, const device::SgdStep& step);
bool run_rmsprop(const device::OptimizerRows& rows, const device::RmspropStep& step);
bool run_adagrad(const device::OptimizerRows& rows, const device::AdagradStep& step);
bool run_adadelta(const device::OptimizerRows& rows, const device::AdadeltaStep& step);
bool run_adam(const device::OptimizerRows& rows, const device::AdamStep& step);
bool run_adamax(const device::OptimizerRows& rows, const device::AdamaxStep& step);

// convolution.cpp
bool run_conv_forward(const device::ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight,
                      const Tensor& bias);
bool run_conv_backward_input(const device::ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight);
bool run_conv_backward_weight(const device::ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x);
bool run_conv_planes_forward(const device::ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight,
                             const Tensor& bias);
bool run_conv_planes_backward_input(const device::ConvShape& s, const Tensor& gx, const Tensor& gy,
                                    const Tensor& weight);
bool run_conv_planes_backward_weight(const device::ConvShape& s, const Tensor& gweight, const Tensor& gy,
                                     const Tensor& x);
bool run_unfold(const device::ConvShape& s, const Tensor& columns, const Tensor& x);
bool run_fold(const device::ConvShape& s, const Tensor& x, const Tensor& columns);

// pooling.cpp
bool run_max_pool(const device::PoolingShape& s, const Tensor& y, const Tensor& indices, const Tensor& x);
bool run_average_pool(const device::PoolingShape& s, const Tensor& y, const Tensor& x);
bool run_average_pool_gradient(const device::PoolingShape& s, const Tensor& gx, const Tensor& g);
bool run_pool_scatter(const device::PoolingShape& s, const Tensor& big, const Tensor& small, const Tensor& indices,
                      bool add);
bool run_pool_gather(const device::PoolingShape& s, const Tensor& small, const Tensor& big, const Tensor& indices);

// index.cpp
bool run_add_offsets(const Tensor& offsets, const Tensor& indices, int64_t dim, int64_t size, int64_t stride, bool wrap,
                     bool set);
bool run_check_indices(const Tensor& indices, int64_t dim, int64_t size);
bool run_gather_rows(const Tensor& to, const Tensor& rows, const Tensor& offsets, int64_t before);
bool run_scatter_rows(const Tensor& rows, const Tensor& from, const Tensor& offsets, int64_t before,
                      device::Combine combine);
bool run_gather(const Tensor& to, const Tensor& t, int64_t dim, const Tensor& index, bool wrap);
bool run_scatter(const Tensor& t, int64_t dim, const Tensor& index, const Tensor& src, device::Combine combine,
                 bool checked);
bool run_add_overlapping(const Tensor& view, const Tensor& from);
std::optional<Tensor> run_repeat_indices(const Tensor& counts);
bool run_divide_by_counts(const Tensor& t, const Tensor& counts);
bool run_mask_fill(const Tensor& to, const Tensor& from, const Tensor& mask, const Tensor& value);
std::optional<int64_t> run_count_true(const Tensor& mask);
std::optional<Tensor> run_mask_select(const Tensor& t, const Tensor& mask);
std::optional<Tensor> run_mask_offsets(const Tensor& mask, const Dims& strides);
std::optional<Tensor> run_mask_coordinates(const Tensor& mask);

// sort.cpp
bool run_sort(const Tensor& in, bool descending, const Tensor& values, const Tensor& indices);
bool run_topk(const Tensor& in, int64_t k, bool largest, bool sorted, const Tensor& values, const Tensor& indices);
bool run_select(const Tensor& in, device::Select what, int64_t k, const Tensor& values, const Tensor& indices);
bool run_mode(const Tensor& in, const Tensor& values, const Tensor& indices);
bool run_search(const Tensor& rows, const Tensor& sorter, const Tensor& values, bool right, const Tensor& out);
bool run_contains(const Tensor& x, const Tensor& wanted, bool invert, const Tensor& out);
std::optional<device::Distinct> run_distinct(const Tensor& t, bool ordered, bool inverse, bool counts);

// create.cpp
bool run_progression(const Tensor& t, const device::Progression& numbers);
bool run_spaced(const Tensor& t, const Scalar& start, const Scalar& end, const double* base);
bool run_triangle(const Tensor& t, int64_t first, int64_t last, int64_t columns, int64_t offset, bool upper);
bool run_repeat(const Tensor& to, const Tensor& from, const Dims& repeats);
bool run_interleave(const Tensor& to, const Tensor& from, int64_t block, int64_t times);
bool run_keep_triangle(const Tensor& to, const Tensor& from, int64_t diagonal, bool upper);
bool run_bins(const Tensor& in, double low, double high, const Tensor& out);
bool run_count_integers(const Tensor& in, const Tensor& weights, const Tensor& out);
bool run_count_between(const Tensor& in, const Tensor& edges, const Tensor& weights, bool even, const Tensor& out);
bool run_outer(const Tensor& out, const Tensor& x, const Tensor& y);
bool run_multiply(const Tensor& out, const Tensor& x, const Tensor& y);
bool run_add_outer_half(const Tensor& out, const Tensor& start, const Tensor& x, const Tensor& y, const Scalar& beta,
                        const Scalar& alpha);
bool run_absolute_power(const Tensor& in, const Tensor& out, double order);
bool run_take_root(const Tensor& t, double order);
bool run_sum_in_order(const Tensor& in, const Tensor& out);

// random.cpp
bool run_uniform(const Tensor& t, double from, double to, Generator& generator);
bool run_normal(const Tensor& t, double mean, double std, Generator& generator);
bool run_log_normal(const Tensor& t, double mean, double std, Generator& generator);
bool run_integers(const Tensor& t, int64_t low, uint64_t span, Generator& generator);
bool run_bernoulli(const Tensor& t, double p, Generator& generator);
bool run_from_uniform(const Tensor& t, device::FromUniform which, double a, double b, Generator& generator);
bool run_hits(const Tensor& out, const Tensor& p, Generator& generator);
bool run_normal_around(const Tensor& out, const Tensor& mean, const Tensor& std, Generator& generator);
bool run_permutation(const Tensor& out, Generator& generator);
bool run_multinomial(const Tensor& out, const Tensor& weights, int64_t rows, int64_t count, bool replacement,
                     Generator& generator);

// attention.cpp
bool run_attention(const device::Attention& p, const Tensor& output, const Tensor& logsumexp);
bool run_attention_backward(const device::Attention& p, const Tensor& grad, const Tensor& output,
                            const Tensor& logsumexp, const Tensor& dq, const Tensor& dk, const Tensor& dv);

// recurrent.cpp
bool run_lstm(const Tensor& gates, const Tensor& weight, const Tensor& h, const Tensor& c, bool reverse,
              const Tensor& output, const Tensor& cells);
bool run_lstm_backward(const Tensor& grad, const Tensor& dh, const Tensor& dc, const Tensor& weight, const Tensor& c,
                       bool reverse, const Tensor& gates, const Tensor& cells, const Tensor& slopes);
bool run_lstm_cell(const Tensor& x, const Tensor& hidden, const Tensor& c, const Tensor& h, const Tensor& next,
                   const Tensor& gates);
bool run_lstm_cell_backward(const Tensor& gh, const Tensor& gc, const Tensor& c, const Tensor& next,
                            const Tensor& gates, const Tensor& dgates, const Tensor& dc);
bool run_gru(const Tensor& gates, const Tensor& weight, const Tensor& bias, const Tensor& h, bool reverse,
             const Tensor& output, const Tensor& saved);
bool run_gru_backward(const Tensor& grad, const Tensor& dh, const Tensor& weight, const Tensor& h, bool reverse,
                      const Tensor& output, const Tensor& saved, const Tensor& dx, const Tensor& ds);
bool run_gru_cell(const Tensor& x, const Tensor& hidden, const Tensor& h, const Tensor& next, const Tensor& gates);
bool run_gru_cell_backward(const Tensor& grad, const Tensor& h, const Tensor& gates, const Tensor& dx,
                           const Tensor& dhidden, const Tensor& dh);

}  // namespace fb::gpu
