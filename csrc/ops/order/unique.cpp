// unique and unique_consecutive: of elements, or of slices along a dimension.
#include "device/sort.h"
#include "ops/table/common.h"

namespace fb {
namespace {

using Unique = device::Distinct;

Unique unique_slices(const Tensor& t, int64_t dim, bool ordered, bool inverse, bool counts) {
    int64_t d = wrap_dim(dim, t.dim());
    check(t.dim() > 0, "a 0-d tensor has no dimension to search along");
    int64_t n = t.shape()[d];
    if (t.numel() == 0) {
        int64_t empty_dims = 0;
        for (int64_t size : t.shape()) empty_dims += size == 0;
        check(n == 0 && empty_dims == 1, "only the searched dimension may have size 0, got shape ", t.shape());
    }
    Unique result = device::sorting(t).distinct_slices(contiguous(transpose(t, 0, d)), ordered, inverse, counts);
    result.values = contiguous(transpose(result.values, 0, d));
    return result;
}

Value unique_of(const Tensor& given, bool ordered, bool inverse, bool counts, std::optional<int64_t> dim) {
    if (is_complex(given.dtype())) fail_type("complex numbers have no order, got ", given.dtype());
    bool truth = given.dtype() == DType::Bool;  // compared as the numbers 0 and 1
    Tensor t = truth ? to_dtype(given, DType::U8) : given;
    Unique u = dim ? unique_slices(t, *dim, ordered, inverse, counts)
                   : device::sorting(t).distinct(contiguous(t), ordered, inverse, counts);
    if (truth) u.values = reinterpret_view(u.values, DType::Bool, u.values.shape(), u.values.strides(), 0);
    if (!inverse && !counts) return u.values;
    std::vector<Tensor> results{u.values};
    if (inverse) results.push_back(u.inverse);
    if (counts) results.push_back(u.counts);
    return results;
}

}  // namespace

OP("unique(Tensor input, bool sorted=True, bool return_inverse=False, bool return_counts=False, int? dim=None) -> any",
   FUNCTION | METHOD, R"(The different elements, or the different slices along a dimension.

Args:
    input: a real tensor.
    sorted: whether the result is in ascending order; it always is here.
    return_inverse: also return, for each element, its index in the result.
    return_counts: also return how often each element occurs.
    dim: dimension along which slices are compared; elements when not given.

Returns:
    The values, or a tuple of values and what else was asked for.

Example:
    >>> fb.unique(fb.tensor([3, 1, 3, 2]))
    tensor([1, 2, 3])
    >>> fb.unique(fb.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
)") {
    return unique_of(a.tensor(0), true, a.flag(2), a.flag(3), a.integer_or_none(4));
}

OP("unique_consecutive(Tensor input, bool return_inverse=False, bool return_counts=False, int? dim=None) -> any",
   FUNCTION | METHOD, R"(The elements, or slices along a dimension, without consecutive repetitions.

Args:
    input: a real tensor.
    return_inverse: also return, for each element, its index in the result.
    return_counts: also return the length of each run.
    dim: dimension along which slices are compared; elements of the flattened tensor when not given.

Returns:
    The values, or a tuple of values and what else was asked for.

Example:
    >>> fb.unique_consecutive(fb.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
)") {
    return unique_of(a.tensor(0), false, a.flag(1), a.flag(2), a.integer_or_none(3));
}

}  // namespace fb
