#include "ops/order/reduce.h"

#include <cmath>
#include <limits>

#include "base/wording.h"
#include "device/loop.h"
#include "device/reduce.h"
#include "ops/table/common.h"

namespace fb {

using device::Reduction;

// ---- shapes ---------------------------------------------------------------------------------------------------------

Dims reduce_mask(const Tensor& t, const std::optional<Dims>& dims) {
    if (!dims || dims->empty()) return Dims(t.dim(), 1);
    Dims mask(t.dim(), 0);
    for (int64_t d : wrap_dims(*dims, t.dim())) {
        if (t.dim()) mask[d] = 1;
    }
    return mask;
}

Dims reduced_shape(const Tensor& t, const Dims& mask, bool keepdim) {
    Dims shape;
    for (int64_t d = 0; d < t.dim(); d++) {
        if (!mask[d]) shape.push_back(t.shape()[d]);
        else if (keepdim) shape.push_back(1);
    }
    return shape;
}

int64_t reduced_count(const Tensor& t, const Dims& mask) {
    int64_t n = 1;
    for (int64_t d = 0; d < t.dim(); d++) {
        if (mask[d]) n *= t.shape()[d];
    }
    return n;
}

void check_not_empty(const Tensor& t, const Dims& mask, bool dims_given) {
    if (t.numel() != 0) return;
    check(dims_given, "expected reduction dim to be specified for an input with no elements, got shape ", t.shape(),
          "; name a dim of non-zero size");
    for (int64_t d = 0; d < t.dim(); d++) {
        if (mask[d] && t.shape()[d] == 0)
            fail_index("expected reduction dim ", d, " to have non-zero size, got shape ", t.shape());
    }
}

Tensor real_view(const Tensor& t) {
    Dims shape = t.shape(), strides = t.strides();
    for (int64_t& s : strides) s *= 2;
    shape.push_back(2);
    strides.push_back(1);
    return make_view(t.storage_ref(), real_of(t.dtype()), shape, strides, t.offset() * 2);
}

namespace {

Tensor reduce_one(Reduction how, DType read, const Tensor& t, const Dims& mask, bool keepdim, DType out,
                  const double* numbers = nullptr) {
    Tensor result = empty(reduced_shape(t, mask, keepdim), out, t.device());
    device::reducing(t).reduce(how, read, t, mask, &result, numbers);
    return result;
}

// Reduces the real and imaginary parts of a complex tensor separately.
Tensor reduce_parts(Reduction how, const Tensor& t, Dims mask, bool keepdim, const double* numbers = nullptr) {
    Tensor result = empty(reduced_shape(t, mask, keepdim), t.dtype(), t.device());
    mask.push_back(0);
    Tensor parts = real_view(result);
    device::reducing(t).reduce(how, parts.dtype(), real_view(t), mask, &parts, numbers);
    return result;
}

DType sum_dtype(DType d) { return is_integral_or_bool(d) ? DType::I64 : d; }

// The dtype that a summing kernel reads when elements of `from` are summed as `result`: kernels widen integers
// themselves.
DType summand(DType from, DType result) {
    if (from == result) return from;
    if (is_integral(result) && is_integral_or_bool(from) && itemsize(result) == 8) return from;
    if (result == DType::F32 && is_half(from)) return from;
    return result;
}

}  // namespace

// ---- sums -----------------------------------------------------------------------------------------------------------

// Sums, products. A bool result is "not zero", other small integers wrap at the end.
static Tensor accumulate(Reduction how, const Tensor& t, const std::optional<Dims>& dims, bool keepdim,
                         std::optional<DType> dtype, bool parts) {
    Dims mask = reduce_mask(t, dims);
    DType result = dtype.value_or(sum_dtype(t.dtype()));
    if (is_complex(result)) {
        Tensor in = to_dtype(t, result);
        if (parts) return reduce_parts(how, in, mask, keepdim);
        return reduce_one(how, result, in, mask, keepdim, result);
    }
    return reduce_one(how, summand(t.dtype(), result), t, mask, keepdim, result);
}

Tensor sum(const Tensor& t, const std::optional<Dims>& dims, bool keepdim, std::optional<DType> dtype) {
    return accumulate(Reduction::Sum, t, dims, keepdim, dtype, true);
}

Tensor nansum(const Tensor& t, const std::optional<Dims>& dims, bool keepdim, std::optional<DType> dtype) {
    if (is_complex(t.dtype())) fail_type("does not support complex inputs, got ", t.dtype());
    if (is_integral_or_bool(t.dtype()) || (dtype && !is_floating(*dtype))) return sum(t, dims, keepdim, dtype);
    return accumulate(Reduction::NanSum, t, dims, keepdim, dtype, true);
}

Tensor prod(const Tensor& t, const std::optional<Dims>& dims, bool keepdim, std::optional<DType> dtype) {
    return accumulate(Reduction::Product, t, dims, keepdim, dtype, false);
}

Tensor mean(const Tensor& t, const std::optional<Dims>& dims, bool keepdim, std::optional<DType> dtype) {
    DType result = dtype.value_or(t.dtype());
    check(is_floating(result) || is_complex(result), "mean(): could not infer output dtype. ",
          dtype ? "Optional" : "Input",
          " dtype must be either a floating point or complex dtype. Got: ", scalar_type(result), " (", result,
          "); convert it, or give dtype=");
    Dims mask = reduce_mask(t, dims);
    double count = static_cast<double>(reduced_count(t, mask));
    if (is_complex(result)) return reduce_parts(Reduction::Mean, to_dtype(t, result), mask, keepdim, &count);
    return reduce_one(Reduction::Mean, summand(t.dtype(), result), t, mask, keepdim, result, &count);
}

Tensor count_nonzero(const Tensor& t, const std::optional<Dims>& dims, bool keepdim) {
    if (is_storage(t.dtype())) return count_nonzero(to_dtype(t, DType::Bool), dims, keepdim);
    return reduce_one(Reduction::Count, t.dtype(), t, reduce_mask(t, dims), keepdim, DType::I64);
}

static Tensor truth(const Tensor& t, const std::optional<Dims>& dims, bool keepdim, bool every) {
    if (is_storage(t.dtype())) return truth(to_dtype(t, DType::Bool), dims, keepdim, every);
    DType result = t.dtype() == DType::U8 ? DType::U8 : DType::Bool;
    return reduce_one(every ? Reduction::All : Reduction::Any, t.dtype(), t, reduce_mask(t, dims), keepdim, result);
}
Tensor any(const Tensor& t, const std::optional<Dims>& dims, bool keepdim) { return truth(t, dims, keepdim, false); }
Tensor all(const Tensor& t, const std::optional<Dims>& dims, bool keepdim) { return truth(t, dims, keepdim, true); }

// ---- extremes -------------------------------------------------------------------------------------------------------

static void check_ordered(const Tensor& t) {
    if (is_complex(t.dtype()))
        fail_type("not implemented for '", scalar_type(t.dtype()), "' (", t.dtype(),
                  "): complex numbers have no order; use abs() first");
}

static Tensor extreme(const Tensor& t, const std::optional<Dims>& dims, bool keepdim, bool largest) {
    check_ordered(t);
    Dims mask = reduce_mask(t, dims);
    check_not_empty(t, mask, dims && !dims->empty());
    return reduce_one(largest ? Reduction::Largest : Reduction::Smallest, t.dtype(), t, mask, keepdim, t.dtype());
}
Tensor amax(const Tensor& t, const std::optional<Dims>& dims, bool keepdim) { return extreme(t, dims, keepdim, true); }
Tensor amin(const Tensor& t, const std::optional<Dims>& dims, bool keepdim) { return extreme(t, dims, keepdim, false); }

std::pair<Tensor, Tensor> aminmax(const Tensor& t, const std::optional<Dims>& dims, bool keepdim) {
    check_ordered(t);
    Dims mask = reduce_mask(t, dims);
    check_not_empty(t, mask, dims.has_value());
    Dims shape = reduced_shape(t, mask, keepdim);
    Tensor outs[] = {empty(shape, t.dtype(), t.device()), empty(shape, t.dtype(), t.device())};
    device::reducing(t).reduce(Reduction::Extremes, t.dtype(), t, mask, outs, nullptr);
    return {outs[0], outs[1]};
}

static Dims without(const Dims& shape, int64_t dim, bool keepdim) {
    Dims result = shape;
    if (result.empty()) return result;
    if (keepdim) result[dim] = 1;
    else result.erase(dim);
    return result;
}

Tensor arg_extreme(const Tensor& t, std::optional<int64_t> dim, bool keepdim, bool largest) {
    check_ordered(t);
    check(t.dtype() != DType::Bool, "does not support bool input; convert it, for example with .to(uint8)");
    if (!dim) {
        if (t.numel() == 0)
            fail_index("expected reduction dim to be specified for an input with no elements, got shape ", t.shape());
        Tensor index = empty({}, DType::I64, t.device());
        device::reducing(t).extreme_along(reshape(t, {-1}), 0, largest, Tensor(), index);
        return keepdim ? view(index, Dims(t.dim(), 1)) : index;
    }
    int64_t d = wrap_dim(*dim, t.dim());
    Dims mask(t.dim(), 0);
    if (t.dim()) mask[d] = 1;
    if (t.dim() && t.shape()[d] == 0)
        fail_index("expected reduction dim ", d, " to have non-zero size, got shape ", t.shape());
    Tensor index = empty(without(t.shape(), d, keepdim), DType::I64, t.device());
    device::reducing(t).extreme_along(t, d, largest, Tensor(), index);
    return index;
}

std::pair<Tensor, Tensor> extreme_along(const Tensor& t, int64_t dim, bool keepdim, bool largest) {
    check_ordered(t);
    int64_t d = wrap_dim(dim, t.dim());
    if (t.dim() && t.shape()[d] == 0)
        fail_index("expected reduction dim ", d, " to have non-zero size, got shape ", t.shape());
    Dims shape = without(t.shape(), d, keepdim);
    Tensor values = empty(shape, t.dtype(), t.device()), indices = empty(shape, DType::I64, t.device());
    device::reducing(t).extreme_along(t, d, largest, values, indices);
    return {values, indices};
}

// ---- moments and norms ----------------------------------------------------------------------------------------------

std::pair<Tensor, Tensor> moments(const Tensor& t, const std::optional<Dims>& dims, double correction, bool keepdim,
                                  bool root) {
    check(is_floating(t.dtype()) || is_complex(t.dtype()),
          "std and var only support floating point and complex dtypes, got ", t.dtype());
    Dims mask = reduce_mask(t, dims);
    const double numbers[] = {correction, root && !is_complex(t.dtype()) ? 1.0 : 0.0};
    Dims shape = reduced_shape(t, mask, keepdim);
    if (!is_complex(t.dtype())) {
        Tensor outs[] = {empty(shape, t.dtype(), t.device()), empty(shape, t.dtype(), t.device())};
        device::reducing(t).reduce(Reduction::Moments, t.dtype(), t, mask, outs, numbers);
        return {outs[0], outs[1]};
    }
    // The variance of a complex variable is the sum of those of its parts.
    Tensor means = empty(shape, t.dtype(), t.device());
    mask.push_back(0);
    shape.push_back(2);
    Tensor outs[] = {empty(shape, real_of(t.dtype()), t.device()), real_view(means)};
    device::reducing(t).reduce(Reduction::Moments, real_of(t.dtype()), real_view(t), mask, outs, numbers);
    Tensor spread = sum(outs[0], Dims{-1});
    if (root) {
        const Tensor* in[] = {&spread};
        device::looping(spread).run(formulas::sqrt, spread.dtype(), spread, in, nullptr, formulas::sqrt.cost);
    }
    return {spread, means};
}

static std::optional<Reduction> norm_of(double ord) {
    if (ord == 0) return Reduction::NonZeros;
    if (ord == 1) return Reduction::Absolutes;
    if (ord == 2) return Reduction::Euclidean;
    if (std::isinf(ord)) return ord > 0 ? Reduction::LargestAbsolute : Reduction::SmallestAbsolute;
    return std::nullopt;
}

Tensor vector_norm(const Tensor& t, double ord, const std::optional<Dims>& dims, bool keepdim,
                   std::optional<DType> dtype) {
    check(is_floating(t.dtype()) || is_complex(t.dtype()), "expected a floating point or complex tensor, got ",
          t.dtype());
    Tensor in = t;
    if (dtype) {
        check(is_complex(t.dtype()) ? is_complex(*dtype) : is_floating(*dtype) || is_complex(*dtype), "dtype ", *dtype,
              " does not fit an input of ", t.dtype());
        check(can_cast(t.dtype(), *dtype) && itemsize(real_of(*dtype)) >= itemsize(real_of(t.dtype())), "dtype ",
              *dtype, " is narrower than the input's ", t.dtype());
        in = to_dtype(t, *dtype);
    }
    Dims mask = reduce_mask(in, dims);
    if (in.numel() == 0 && (ord < 0 || std::isinf(ord))) {
        check(dims && !dims->empty(), "cannot compute the norm of order ", ord,
              " of a tensor without elements: it has no identity");
        for (int64_t d = 0; d < in.dim(); d++) {
            if (mask[d] && in.shape()[d] == 0)
                fail_index("cannot compute the norm of order ", ord, " over dim ", d, " of size 0: it has no identity");
        }
    }
    // The norm of one number is its absolute value, computed without a power that could overflow.
    if (ord != 0 && reduced_count(in, mask) == 1) ord = 1;
    DType result = real_of(in.dtype());
    if (auto how = norm_of(ord)) return reduce_one(*how, in.dtype(), in, mask, keepdim, result);
    Tensor powers = empty_like(in, compute_dtype(result));
    device::reducing(in).absolute_power(in, powers, ord);
    Tensor sums = reduce_one(Reduction::Sum, powers.dtype(), powers, mask, keepdim, DType::F64);
    device::reducing(sums).take_root(sums, ord);
    return to_dtype(sums, result);
}

// The complex form is rare: reduced dimensions go last, in complex128.
static Tensor complex_logsumexp(const Tensor& t, const Dims& mask, bool keepdim) {
    Dims order;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t d = 0; d < t.dim(); d++) {
            if ((mask[d] != 0) == (pass == 1)) order.push_back(d);
        }
    }
    Tensor rows = contiguous(to_dtype(permute(t, order), DType::C128));
    Tensor out = empty(reduced_shape(t, mask, keepdim), DType::C128, t.device());
    device::reducing(t).complex_logsumexp(rows, out);
    return to_dtype(out, t.dtype());
}

Tensor logsumexp(const Tensor& t, const std::optional<Dims>& dims, bool keepdim) {
    Dims mask = reduce_mask(t, dims);
    if (is_complex(t.dtype())) return complex_logsumexp(t, mask, keepdim);
    DType result = float_result(t.dtype());
    return reduce_one(Reduction::LogSumExp, result, t, mask, keepdim, result);
}

}  // namespace fb
