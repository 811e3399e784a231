// Ops over masks, and the coordinates of nonzero elements.
#include <cmath>

#include "base/bool.h"
#include "ops/index/index.h"
#include "ops/index/index_advanced.h"
#include "ops/index/scatter.h"
#include "ops/shape/create.h"

namespace fb {

static void check_mask(const Tensor& mask) {
    if (mask.dtype() != DType::Bool)
        fail_type(current_op, "_ only supports boolean masks, but got mask with dtype ", mask.dtype());
}

// Values that a dtype cannot hold are rejected rather than wrapped.
static void check_value(const Scalar& value, DType dtype) {
    if (is_complex(dtype)) return;
    check(value.kind != Kind::Complex || value.im == 0, "value cannot be converted to type ", dtype,
          " without overflow");
    if (!is_integral(dtype)) return;
    double low =
        info(dtype).is_signed ? -std::pow(2.0, itemsize(dtype) * 8 - 1) : -std::pow(2.0, itemsize(dtype) * 8 - 1);
    double high = std::pow(2.0, itemsize(dtype) * 8 - (info(dtype).is_signed ? 1 : 0));
    check(value.re >= low && value.re < high, "value ", value.re, " cannot be converted to type ", dtype,
          " without overflow");
}

OP("masked_fill(Tensor input, Tensor mask, Operand value) -> Tensor", FUNCTION | METHOD | INPLACE,
   R"(The tensor with one value where a mask is True.

Args:
    input: the tensor; shapes broadcast.
    mask: a bool tensor.
    value: a number or a 0-d tensor.

Example:
    >>> fb.masked_fill(fb.tensor([1, 2, 3]), fb.tensor([True, False, True]), 0)
    tensor([0, 2, 0])
)") {
    const Tensor &t = a.tensor(0), &value = a.tensor(2);
    Tensor mask = a.tensor(1);
    check_mask(mask);
    check(value.dim() == 0, "only supports a 0-dimensional value tensor, but got tensor with ", value.dim(),
          " dimension(s)");
    if (has_values(value)) check_value(item(value), t.dtype());
    Tensor filler = to_dtype(value, t.dtype());
    if (a.inplace) {
        filler = apart(filler, t);
        Tensor target = write_target(a);
        mask = expand(mask, t.shape());
        device::indexing(t).mask_fill(target, target, apart(mask, target), filler);
        return target;
    }
    Dims shape = broadcast_shapes(t.shape(), mask.shape());
    Tensor result = t.shape() == shape ? empty_like(t, t.dtype()) : empty(shape, t.dtype(), t.device());
    device::indexing(t).mask_fill(result, t, mask, filler);
    return result;
}

OP("masked_scatter(Tensor input, Tensor mask, Tensor source) -> Tensor", FUNCTION | METHOD | INPLACE,
   R"(Replaces the elements where a mask is True by the elements of `source`, in order.

Args:
    input: the tensor to start from.
    mask: a bool tensor; broadcast.
    source: at least as many elements as there are True values in the mask.

Example:
    >>> fb.masked_scatter(fb.zeros(3), fb.tensor([True, False, True]), fb.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
)") {
    const Tensor &t = a.tensor(0), &source = a.tensor(2);
    check_mask(a.tensor(1));
    if (t.dtype() != source.dtype())
        fail_type("expected self and source to have same dtypes but got ", t.dtype(), " and ", source.dtype());
    Dims shape = a.inplace ? t.shape() : broadcast_shapes(t.shape(), a.tensor(1).shape());
    Tensor mask = contiguous(expand(a.tensor(1), shape));
    int64_t n = device::indexing(mask).count_true(mask);
    check(source.numel() >= n, "number of elements of source (", source.numel(), ") < number of ones in mask (", n,
          ")");
    Tensor values = narrow(reshape(source, {source.numel()}), 0, 0, n);
    Tensor target = a.inplace ? write_target(a) : clone(expand(t, shape));
    values = apart(values, target);
    if (shape.empty()) {
        if (n) copy_into(target, view(values, {}));
    } else {
        advanced_set(target, {{0, apart(mask, target)}}, n == 1 ? view(values, {}) : values, false);
    }
    return target;
}

OP("masked_select(Tensor input, Tensor mask) -> Tensor", COMMON, R"(The elements where a mask is True, as a vector.

Args:
    input: the tensor; shapes broadcast.
    mask: a bool tensor.

Example:
    >>> fb.masked_select(fb.tensor([1, 2, 3]), fb.tensor([True, False, True]))
    tensor([1, 3])
)") {
    const Tensor &t = a.tensor(0), &mask = a.tensor(1);
    if (mask.dtype() != DType::Bool) fail_type("expected BoolTensor for mask, got ", mask.dtype());
    if (a.out)
        check(a.out.dtype() == t.dtype(), "self and result must have the same scalar type, got ", t.dtype(), " and ",
              a.out.dtype());
    check_apart(a, {t, mask});
    Dims shape = broadcast_shapes(t.shape(), mask.shape());
    if (shape.empty()) return item(mask).i ? clone(view(t, {1})) : empty({0}, t.dtype(), t.device());
    return advanced_get(expand(t, shape), {{0, expand(mask, shape)}});
}

static std::vector<Tensor> columns(const Tensor& t) {
    Tensor where = nonzero(line_view(t));
    std::vector<Tensor> result;
    for (int64_t d = 0; d < where.shape()[1]; d++) result.push_back(select(where, 1, d));
    return result;
}
OP("nonzero(Tensor input, *, bool as_tuple=False) -> Tensor", COMMON,
   R"(Coordinates of the elements that are not zero, one row each.

Args:
    input: the tensor.
    as_tuple: one vector per dimension instead, fit for indexing.

Example:
    >>> fb.nonzero(fb.tensor([[1, 0], [0, 2]]))
    tensor([[0, 0],
            [1, 1]])
    >>> fb.nonzero(fb.tensor([0, 3]), as_tuple=True)
    (tensor([1]),)
)") {
    check(!a.flag(1) || !a.out, "as_tuple=True has no out=: there are several results; give only one of them");
    if (a.flag(1)) return columns(a.tensor(0));
    if (a.out && a.out.dtype() != DType::I64)
        fail_type("Expected object of scalar type Long for out, got ", a.out.dtype());
    return nonzero(a.tensor(0));
}
OP("nonzero_static(Tensor input, *, int size, int fill_value=-1) -> Tensor", COMMON,
   R"(Coordinates of the first nonzero elements: a fixed number of rows.

Args:
    input: the tensor.
    size: the number of rows; missing ones are filled up.
    fill_value: what they are filled with.

Example:
    >>> fb.nonzero_static(fb.tensor([0, 3]), size=2)
    tensor([[ 1],
            [-1]])
)") {
    check(a.integer(1) >= 0, "size must not be negative, got ", a.integer(1));
    Tensor found = nonzero(a.tensor(0));
    Tensor result = full({a.integer(1), found.shape()[1]}, a.scalar(2), DType::I64, found.device());
    int64_t n = std::min(a.integer(1), found.shape()[0]);
    copy_into(narrow(result, 0, 0, n), narrow(found, 0, 0, n));
    return result;
}
OP("nonzero_numpy(Tensor input) -> Tensor[]", METHOD,
   R"(Coordinates of the elements that are not zero, one vector per dimension.

Example:
    >>> fb.tensor([0, 3]).nonzero_numpy()
    (tensor([1]),)
)") {
    return columns(a.tensor(0));
}
OP("argwhere(Tensor input) -> Tensor", FUNCTION | METHOD,
   R"(Coordinates of the elements that are not zero, one row each.

Args:
    input: the tensor.

Example:
    >>> fb.argwhere(fb.tensor([0, 3]))
    tensor([[1]])
)") {
    return nonzero(a.tensor(0));
}
OP("where(Tensor condition) -> Tensor[]", FUNCTION, nullptr) { return columns(a.tensor(0)); }

}  // namespace fb
