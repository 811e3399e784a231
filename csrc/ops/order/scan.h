// Cumulative ops and softmax, for other families.
#pragma once
#include <optional>
#include <utility>

#include "tensor/tensor.h"

namespace fb {

Tensor cumsum(const Tensor& t, int64_t dim, std::optional<DType> dtype = {});
Tensor cumprod(const Tensor& t, int64_t dim, std::optional<DType> dtype = {});
Tensor logcumsumexp(const Tensor& t, int64_t dim);
// Running extremes and their places.
std::pair<Tensor, Tensor> cumulative_extreme(const Tensor& t, int64_t dim, bool largest);
Tensor softmax(const Tensor& t, int64_t dim, std::optional<DType> dtype = {});
Tensor log_softmax(const Tensor& t, int64_t dim, std::optional<DType> dtype = {});

// A contiguous tensor seen around one dimension.
struct Sandwich {
    int64_t outer, size, inner;
};
Sandwich around(const Tensor& t, int64_t dim);

// Kernels: contiguous, same shape; the sum and product kernels read and write one dtype.
void scan_sum(const Tensor& in, const Tensor& out, int64_t dim);
void scan_product(const Tensor& in, const Tensor& out, int64_t dim);
void scan_logsumexp(const Tensor& in, const Tensor& out, int64_t dim);
void scan_extreme(const Tensor& in, int64_t dim, bool largest, const Tensor& values, const Tensor& indices);
void softmax_kernel(const Tensor& in, const Tensor& out, int64_t dim, bool logarithm);

}  // namespace fb
