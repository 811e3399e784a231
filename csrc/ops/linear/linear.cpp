// A linear map with its bias as one op. The gradient of the weight is one product over all rows.
#include "ops/linear/linear.h"

#include "ops/linear/matmul.h"

namespace fb {
Tensor all_rows(const Tensor& x) {
    int64_t rows = 1;
    for (int64_t d = 0; d + 1 < x.dim(); d++) rows *= x.shape()[d];
    return reshape(x, {rows, x.shape().back()});
}

bool is_transposed_view(const Tensor& x) {
    return x.dim() == 3 && !x.is_contiguous() && transpose(x, 0, 1).is_contiguous();
}

OP("_nn.linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", FUNCTION) {
    OpScope scope("linear");
    const Tensor &x = a.tensor(0), &w = a.tensor(1);
    check(x.dim() >= 1 && w.dim() == 2 && x.shape().back() == w.size(1), "input of shape ", x.shape(),
          " does not fit weight of shape ", w.shape());
    check(x.dtype() == w.dtype() && (!a.given(2) || a.tensor(2).dtype() == x.dtype()),
          "expected input, weight and bias to have the same dtype, got ", x.dtype(), " and ", w.dtype(),
          "; convert one with .to(dtype)");
    bool transposed = is_transposed_view(x);
    Tensor from = transposed ? transpose(x, 0, 1) : x, rows = all_rows(from);
    Dims shape = from.shape();
    shape[shape.size() - 1] = w.size(0);
    Tensor out = empty({rows.size(0), w.size(0)}, x.dtype(), x.device());
    multiply_add(out, rows, transpose(w, 0, 1), a.tensor_or_none(2));
    Tensor result = view(out, shape);
    return transposed ? transpose(result, 0, 1) : result;
}
}  // namespace fb
