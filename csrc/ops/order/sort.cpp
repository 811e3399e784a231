#include "ops/order/sort.h"

#include "device/sort.h"
#include "ops/order/reduce.h"
#include "ops/table/common.h"

namespace fb {
namespace {

void check_real(const Tensor& t) {
    if (is_complex(t.dtype()))
        fail_type("Sort does not support complex dtypes on CPU: they have no order; got ", t.dtype());
}

// Moves the dimension last, contiguous; bools as the numbers 0 and 1.
Tensor rows_of(const Tensor& given, int64_t dim) {
    Tensor t = given.dtype() == DType::Bool ? to_dtype(given, DType::U8) : given;
    if (t.dim() == 0) return contiguous(t);
    return contiguous(dim == t.dim() - 1 ? t : transpose(t, dim, t.dim() - 1));
}

// Moves results of rows back to the caller's order of dimensions.
Tensor from_rows(const Tensor& t, int64_t dim) {
    if (t.dim() == 0 || dim == t.dim() - 1) return t;
    return contiguous(transpose(t, dim, t.dim() - 1));
}

Tensor drop(const Tensor& t, int64_t dim, bool keepdim) { return t.dim() == 0 || keepdim ? t : squeeze(t, dim); }

// One value and index per row, in the shape of the input with size 1 along `dim`, or without it.
template <class F>
std::pair<Tensor, Tensor> pick(const Tensor& t, int64_t dim, bool keepdim, F&& kernel) {
    Tensor rows = rows_of(t, dim);
    Dims shape = rows.shape();
    if (shape.size()) shape.back() = 1;
    Tensor values = empty(shape, t.dtype(), t.device()), indices = empty(shape, DType::I64, t.device());
    kernel(rows, values, indices);
    return {drop(from_rows(values, dim), dim, keepdim), drop(from_rows(indices, dim), dim, keepdim)};
}

void check_dim_not_empty(const Tensor& t, int64_t dim) {
    if (t.dim() && t.shape()[dim] == 0)
        fail_index("expected reduction dim ", dim, " to have non-zero size, got shape ", t.shape());
}

}  // namespace

std::pair<Tensor, Tensor> sort(const Tensor& t, int64_t dim, bool descending) {
    check_real(t);
    int64_t d = wrap_dim(dim, t.dim());
    Tensor rows = rows_of(t, d);
    Tensor values = empty(rows.shape(), t.dtype(), t.device()), indices = empty(rows.shape(), DType::I64, t.device());
    device::sorting(t).sort(rows, descending, values, indices);
    return {from_rows(values, d), from_rows(indices, d)};
}

std::pair<Tensor, Tensor> topk(const Tensor& t, int64_t k, int64_t dim, bool largest, bool sorted) {
    check_real(t);
    check(t.dtype() != DType::Bool, "does not support bool; convert it, for example with .to(uint8)");
    int64_t d = wrap_dim(dim, t.dim());
    int64_t size = t.dim() ? t.shape()[d] : 1;
    check(k >= 0 && k <= size, "selected index k out of range: k is ", k, ", but dim ", d, " has size ", size);
    Tensor rows = rows_of(t, d);
    Dims shape = rows.shape();
    if (shape.size()) shape.back() = k;
    Tensor values = empty(shape, t.dtype(), t.device()), indices = empty(shape, DType::I64, t.device());
    device::sorting(t).topk(rows, k, largest, sorted, values, indices);
    return {from_rows(values, d), from_rows(indices, d)};
}

std::pair<Tensor, Tensor> kthvalue(const Tensor& t, int64_t k, int64_t dim, bool keepdim) {
    check_real(t);
    check(t.dtype() != DType::Bool, "does not support bool; convert it, for example with .to(uint8)");
    int64_t d = wrap_dim(dim, t.dim());
    check_dim_not_empty(t, d);
    int64_t size = t.dim() ? t.shape()[d] : 1;
    check(k >= 1 && k <= size, "selected number k out of range for dimension ", d, ": k is ", k, ", but its size is ",
          size);
    return pick(t, d, keepdim, [&](const Tensor& rows, const Tensor& v, const Tensor& i) {
        device::sorting(t).select(rows, device::Select::Kth, k - 1, v, i);
    });
}

std::pair<Tensor, Tensor> median_along(const Tensor& t, int64_t dim, bool keepdim, bool ignore_nan) {
    check_real(t);
    check(t.dtype() != DType::Bool, "does not support bool; convert it, for example with .to(uint8)");
    int64_t d = wrap_dim(dim, t.dim());
    check_dim_not_empty(t, d);
    device::Select what = ignore_nan ? device::Select::NanMedian : device::Select::Median;
    return pick(t, d, keepdim, [&](const Tensor& rows, const Tensor& v, const Tensor& i) {
        device::sorting(t).select(rows, what, 0, v, i);
    });
}

Tensor median(const Tensor& t, bool ignore_nan) {
    check_real(t);
    if (t.numel() == 0) {
        check(is_floating(t.dtype()), "no median of an integer tensor without elements, got shape ", t.shape());
        return full({}, Scalar(std::numeric_limits<double>::quiet_NaN()), t.dtype(), t.device());
    }
    return median_along(reshape(t, {-1}), 0, false, ignore_nan).first;
}

std::pair<Tensor, Tensor> mode(const Tensor& t, int64_t dim, bool keepdim) {
    check_real(t);
    int64_t d = wrap_dim(dim, t.dim());
    check_dim_not_empty(t, d);
    return pick(t, d, keepdim, device::sorting(t).mode);
}

}  // namespace fb
