// Reductions called by other families. `dims` are wrapped here; nothing given means all dimensions.
#pragma once
#include <optional>
#include <utility>

#include "tensor/tensor.h"

namespace fb {

// ---- shapes ---------------------------------------------------------------------------------------------------------
// 1 for each reduced dimension. No dims, or none listed, means all.
Dims reduce_mask(const Tensor& t, const std::optional<Dims>& dims);
// Shape of the result: without the reduced dimensions, or with size 1 there.
Dims reduced_shape(const Tensor& t, const Dims& mask, bool keepdim);
int64_t reduced_count(const Tensor& t, const Dims& mask);
// Raises an error if there is no element to choose from.
void check_not_empty(const Tensor& t, const Dims& mask, bool dims_given);
// (…, 2) real view of a complex tensor.
Tensor real_view(const Tensor& t);

// ---- sums -----------------------------------------------------------------------------------------------------------
Tensor sum(const Tensor& t, const std::optional<Dims>& dims = {}, bool keepdim = false,
           std::optional<DType> dtype = {});
Tensor nansum(const Tensor& t, const std::optional<Dims>& dims = {}, bool keepdim = false,
              std::optional<DType> dtype = {});
Tensor mean(const Tensor& t, const std::optional<Dims>& dims = {}, bool keepdim = false,
            std::optional<DType> dtype = {});
Tensor prod(const Tensor& t, const std::optional<Dims>& dims = {}, bool keepdim = false,
            std::optional<DType> dtype = {});
Tensor count_nonzero(const Tensor& t, const std::optional<Dims>& dims = {}, bool keepdim = false);
Tensor any(const Tensor& t, const std::optional<Dims>& dims = {}, bool keepdim = false);
Tensor all(const Tensor& t, const std::optional<Dims>& dims = {}, bool keepdim = false);

// ---- extremes -------------------------------------------------------------------------------------------------------
Tensor amax(const Tensor& t, const std::optional<Dims>& dims = {}, bool keepdim = false);
Tensor amin(const Tensor& t, const std::optional<Dims>& dims = {}, bool keepdim = false);
// Smallest, largest.
std::pair<Tensor, Tensor> aminmax(const Tensor& t, const std::optional<Dims>& dims = {}, bool keepdim = false);
// Index of the first extreme in the flattened tensor, or along `dim`.
Tensor arg_extreme(const Tensor& t, std::optional<int64_t> dim, bool keepdim, bool largest);
// Values and int64 indices of the first extreme along one dimension (NaN counts as an extreme).
std::pair<Tensor, Tensor> extreme_along(const Tensor& t, int64_t dim, bool keepdim, bool largest);

// ---- moments and norms ----------------------------------------------------------------------------------------------
// (variance or its root, mean); divisor is count - correction.
std::pair<Tensor, Tensor> moments(const Tensor& t, const std::optional<Dims>& dims, double correction, bool keepdim,
                                  bool root);
Tensor vector_norm(const Tensor& t, double ord, const std::optional<Dims>& dims = {}, bool keepdim = false,
                   std::optional<DType> dtype = {});
// log(sum(exp(t))) without overflow.
Tensor logsumexp(const Tensor& t, const std::optional<Dims>& dims, bool keepdim);

}  // namespace fb
