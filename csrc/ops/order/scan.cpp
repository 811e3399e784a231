#include "ops/order/scan.h"

#include "device/scan.h"
#include "ops/table/common.h"

namespace fb {
namespace {

// The compute dtype: int64 for integers, float for half types.
DType scan_dtype(DType result) { return is_integral_or_bool(result) ? DType::I64 : compute_dtype(result); }

using Kernel = void (*)(const Tensor&, const Tensor&, int64_t);

// Integer inputs that the kernels widen on the fly.
bool widens(DType d) { return d == DType::U8 || d == DType::I32 || d == DType::I64; }

Tensor scan(Kernel kernel, const Tensor& t, int64_t dim, DType result) {
    int64_t d = wrap_dim(dim, t.dim());
    DType compute = scan_dtype(result);
    Tensor in = t.dtype() == DType::Bool ? to_dtype(t, DType::U8) : t;
    if (result != DType::I64 || !widens(in.dtype())) in = to_dtype(to_dtype(in, result), compute);
    in = contiguous(in);
    Tensor out = empty(t.shape(), compute, t.device());
    kernel(in, out, d);
    return to_dtype(out, result);
}

DType widened(const Tensor& t, std::optional<DType> dtype) {
    return dtype.value_or(is_integral_or_bool(t.dtype()) ? DType::I64 : t.dtype());
}

}  // namespace

Tensor cumsum(const Tensor& t, int64_t dim, std::optional<DType> dtype) {
    return scan(device::scanning(t).sum, t, dim, widened(t, dtype));
}
Tensor cumprod(const Tensor& t, int64_t dim, std::optional<DType> dtype) {
    return scan(device::scanning(t).product, t, dim, widened(t, dtype));
}

Tensor logcumsumexp(const Tensor& t, int64_t dim) {
    if (is_integral_or_bool(t.dtype())) fail_type("expected a floating point or complex dtype, got ", t.dtype());
    return scan(device::scanning(t).logsumexp, t, dim, t.dtype());
}

std::pair<Tensor, Tensor> cumulative_extreme(const Tensor& t, int64_t dim, bool largest) {
    if (is_complex(t.dtype())) fail_type("complex numbers have no order, got ", t.dtype());
    int64_t d = wrap_dim(dim, t.dim());
    DType compute = t.dtype();
    if (is_half(compute)) compute = DType::F32;
    else if (compute == DType::Bool) compute = DType::U8;
    else if (compute == DType::I8 || compute == DType::I16 || compute == DType::U16) compute = DType::I32;
    else if (compute == DType::U32) compute = DType::I64;
    Tensor in = contiguous(to_dtype(t, compute));
    Tensor values = empty(t.shape(), compute, t.device()), indices = empty(t.shape(), DType::I64, t.device());
    device::scanning(t).extreme(in, d, largest, values, indices);
    return {to_dtype(values, t.dtype()), indices};
}

}  // namespace fb
