// A linear map with its bias as one op. The gradient of the weight is one product over all rows.
#include "ops/linear/matmul.h"
#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

Dims matrix_shape(const Dims& shape) {
    int64_t rows = 1;
    for (int64_t d = 0; d + 1 < shape.size(); d++) rows *= shape[d];
    return {rows, shape.back()};
}
Tensor all_rows(const Tensor& x) { return reshape(x, matrix_shape(x.shape())); }
Var all_rows(const Var& x) { return x.dim() == 2 ? x : reshape(x, matrix_shape(x.shape())); }

// Whether x is a transposed view: (L, N, E) of memory in the order (N, L, E). Results are then laid out likewise, and
// nothing is copied.
bool turned(const Tensor& x) { return x.dim() == 3 && !x.is_contiguous() && transpose(x, 0, 1).is_contiguous(); }

}  // namespace

OP("_nn.linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", FUNCTION) {
    OpScope scope("linear");
    const Tensor &x = a.tensor(0), &w = a.tensor(1);
    check(x.dim() >= 1 && w.dim() == 2 && x.shape().back() == w.size(1), "input of shape ", x.shape(),
          " does not fit weight of shape ", w.shape());
    check(x.dtype() == w.dtype() && (!a.given(2) || a.tensor(2).dtype() == x.dtype()),
          "expected input, weight and bias to have the same dtype, got ", x.dtype(), " and ", w.dtype(),
          "; convert one with .to(dtype)");
    bool turn = turned(x);
    Tensor from = turn ? transpose(x, 0, 1) : x, rows = all_rows(from);
    Dims shape = from.shape();
    shape[shape.size() - 1] = w.size(0);
    Tensor out = empty({rows.size(0), w.size(0)}, x.dtype());
    multiply_add(out, rows, transpose(w, 0, 1), a.tensor_or_none(2));
    Tensor result = view(out, shape);
    return turn ? transpose(result, 0, 1) : result;
}
GRAD("_nn.linear", IN(1), IN(0), 0) {
    Var g = c.g();
    bool turn = turned(g.tensor);
    if (c.needs(0)) {
        Var from = turn ? transpose(g, 0, 1) : g;
        Dims shape = from.shape();
        shape[shape.size() - 1] = c.shape(0).back();
        Var result = reshape(mm(all_rows(from), conj(c.in(1))), shape);
        c.set(0, turn ? transpose(result, 0, 1) : result);
    }
    if (c.needs(1)) {
        Var x = c.in(0);
        turn = turn || turned(x.tensor);
        Var rows = all_rows(turn ? transpose(g, 0, 1) : g);
        c.set(1, mm(transpose(rows, 0, 1), conj(all_rows(turn ? transpose(x, 0, 1) : x))));
    }
    if (c.given(2) && c.needs(2)) c.set(2, sum(all_rows(turn ? transpose(g, 0, 1) : g), Dims{0}, false));
}

}  // namespace fb
