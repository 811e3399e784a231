// histc and bincount.
#include <algorithm>
#include <cmath>

#include "base/wording.h"
#include "device/count.h"
#include "ops/order/reduce.h"
#include "ops/table/common.h"

namespace fb {
OP("histc(Tensor input, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", COMMON,
   R"(Counts elements in bins of equal width.

Elements outside the range, and NaN, are not counted.

Args:
    input: a floating point tensor.
    bins: number of bins.
    min: lower end of the range.
    max: upper end, counted in the last bin. Both ends 0: smallest and largest element.

Example:
    >>> fb.histc(fb.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
)") {
    const Tensor& t = a.tensor(0);
    int64_t bins = a.integer(1);
    check(bins > 0, "bins must be > 0, got ", bins);
    double low = a.number(2), high = a.number(3);
    check(low <= high, "max must be larger than min, got min ", low, " and max ", high);
    if (!is_floating(t.dtype()))
        fail_type("\"histc\" not implemented for '", scalar_type(t.dtype()), "'; expected a floating point dtype");
    if (low == high && t.numel()) {
        auto [least, most] = aminmax(t);
        low = item(least).re;
        high = item(most).re;
    }
    check(std::isfinite(low) && std::isfinite(high), "the range [", low, ", ", high, "] is not finite");
    if (low == high) {
        low -= 1;
        high += 1;
    }
    DType compute = compute_dtype(t.dtype());
    Tensor in = contiguous(to_dtype(t, compute)), out = zeros({bins}, compute, t.device());
    device::counting(in).bins(in, low, high, out);
    return to_dtype(out, t.dtype());
}

OP("bincount(Tensor input, Tensor? weights=None, int minlength=0) -> Tensor", FUNCTION | METHOD,
   R"(Number of occurrences of each non-negative integer, or the sum of its weights.

Args:
    input: a 1-d tensor of non-negative integers.
    weights: a weight for each element.
    minlength: least size of the result.

Example:
    >>> fb.bincount(fb.tensor([0, 2, 2]))
    tensor([1, 0, 2])
)") {
    const Tensor& t = a.tensor(0);
    Tensor weights = a.tensor_or_none(1);
    int64_t least = a.integer(2);
    check(least >= 0, "minlength should be >= 0, got ", least);
    if (!is_integral(t.dtype()))
        fail_type("\"bincount\" not implemented for '", scalar_type(t.dtype()),
                  "': it only supports 1-d non-negative integral inputs");
    check(t.dim() == 1 || t.numel() == 0, "only supports 1-d non-negative integral inputs, got shape ", t.shape());
    check(!weights || weights.shape() == t.shape(), "weights must have the shape of input, got ",
          weights ? weights.shape() : t.shape(), " and ", t.shape());
    int64_t size = least;
    Tensor x = contiguous(to_dtype(t, DType::I64));
    if (x.numel()) {
        auto [low, high] = aminmax(x);
        check(item(low).i >= 0, "only supports 1-d non-negative integral inputs, got ", item(low).i);
        check(item(high).i < INT64_MAX, "the value ", item(high).i, " is too large to count up to");
        size = std::max(size, item(high).i + 1);
    }
    if (!weights) {
        Tensor out = zeros({size}, DType::I64, t.device());
        device::counting(x).integers(x, Tensor(), out);
        return out;
    }
    if (is_complex(weights.dtype())) fail_type("weights must be real, got ", weights.dtype());
    bool single = weights.dtype() == DType::F32;
    Tensor w = contiguous(to_dtype(weights, single ? DType::F32 : DType::F64)),
           out = zeros({size}, w.dtype(), t.device());
    device::counting(x).integers(x, w, out);
    return out;
}

OP("_bin_counts(Tensor input, Tensor edges, Tensor? weight=None, bool even=False) -> Tensor", FUNCTION,
   R"(Counts, or sums of weights, between ascending edges; the work behind histogram().

Args:
    input: a 1-d float32 or float64 tensor.
    edges: the edges, of the same dtype, at least two.
    weight: a weight for each element, of the same dtype.
    even: whether the edges lie at equal distances.
)") {
    Tensor x = contiguous(a.tensor(0)), edges = contiguous(a.tensor(1));
    Tensor weight = a.given(2) ? contiguous(a.tensor(2)) : Tensor();
    int64_t n = x.numel(), bins = edges.numel() - 1;
    check(bins >= 1 && edges.dtype() == x.dtype() && (!weight || (weight.numel() == n && weight.dtype() == x.dtype())),
          "expected at least two edges and as many weights as elements, all of one dtype");
    Tensor out = empty({bins}, x.dtype(), x.device());
    device::counting(x).between(x, edges, weight, a.flag(3), out);
    return out;
}

}  // namespace fb
