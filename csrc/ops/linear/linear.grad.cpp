// The gradient of a linear map.
#include "ops/linear/linear.h"

#include "ops/table/gradient.h"

namespace fb {

static Var rows_of(const Var& x) {
    if (x.dim() == 2) return x;
    int64_t rows = 1;
    for (int64_t d = 0; d + 1 < x.dim(); d++) rows *= x.size(d);
    return reshape(x, Dims{rows, x.shape().back()});
}

GRAD("_nn.linear", IN(1), IN(0), 0) {
    Var g = c.g();
    bool transposed = is_transposed_view(g.tensor);
    if (c.needs(0)) {
        Var from = transposed ? transpose(g, 0, 1) : g;
        Dims shape = from.shape();
        shape[shape.size() - 1] = c.shape(0).back();
        Var result = reshape(mm(rows_of(from), conj(c.in(1))), shape);
        c.set(0, transposed ? transpose(result, 0, 1) : result);
    }
    if (c.needs(1)) {
        Var x = c.in(0);
        transposed = transposed || is_transposed_view(x.tensor);
        Var rows = rows_of(transposed ? transpose(g, 0, 1) : g);
        c.set(1, mm(transpose(rows, 0, 1), conj(rows_of(transposed ? transpose(x, 0, 1) : x))));
    }
    if (c.given(2) && c.needs(2)) c.set(2, sum(rows_of(transposed ? transpose(g, 0, 1) : g), Dims{0}, false));
}

}  // namespace fb
