// Gradients of the ops that join tensors: each tensor gets its part.
#include "ops/table/gradient.h"

namespace fb {

// The tensors are consecutive along `dim`, with the sizes given by `length`.
template <class F>
static void joined(GradCall& c, int64_t dim, F length) {
    int64_t start = 0;
    for (int k = 0; k < c.count(0); k++) {
        int64_t size = length(c.shape(0, k));
        if (c.needs(0, k)) {
            Var part = narrow(c.g(), dim, start, size);
            c.set(0, k, part.shape() == c.shape(0, k) ? part : reshape(part, c.shape(0, k)));
        }
        start += size;
    }
}
static int64_t elements(const Dims& shape) {
    int64_t n = 1;
    for (int64_t size : shape) n *= size;
    return n;
}

GRAD("cat") {
    int64_t dims = c.out_shape().size(), dim = wrap_dim(c.integer(1), dims), start = 0;
    for (int k = 0; k < c.count(0); k++) {
        // Tensors of shape (0,) join anything.
        if (c.dim(0, k) != dims) {
            c.set(0, k, zeros_of(c.shape(0, k), c.dtype(0, k), c.device()));
            continue;
        }
        int64_t size = c.shape(0, k)[dim];
        if (c.needs(0, k)) c.set(0, k, narrow(c.g(), dim, start, size));
        start += size;
    }
}
GRAD("stack") {
    int64_t dim = wrap_dim(c.integer(1), c.out_shape().size());
    for (int k = 0; k < c.count(0); k++) {
        if (c.needs(0, k)) c.set(0, k, select(c.g(), dim, k));
    }
}
GRAD("hstack") {
    if (c.out_shape().size() == 1) joined(c, 0, elements);
    else joined(c, 1, [](const Dims& shape) { return shape[1]; });
}
GRAD("vstack") {
    joined(c, 0, [](const Dims& shape) { return shape.size() < 2 ? 1 : shape[0]; });
}
GRAD("dstack") {
    joined(c, 2, [](const Dims& shape) { return shape.size() < 3 ? 1 : shape[2]; });
}
GRAD("column_stack") {
    joined(c, 1, [](const Dims& shape) { return shape.size() < 2 ? 1 : shape[1]; });
}

// Tensor k varies along one dimension of a grid and is constant along the others.
static Var along(const Var& grid, int64_t dim) {
    Dims over;
    for (int64_t d = 0; d < grid.dim(); d++) {
        if (d != dim) over.push_back(d);
    }
    return over.empty() ? grid : sum(grid, over);
}
GRAD("meshgrid") {
    bool swap = c.given(1) && c.text(1) == "xy" && c.count(0) >= 2;
    for (int k = 0; k < c.count(0); k++) {
        if (c.needs(0, k) && c.has(k)) c.set(0, k, reshape(along(c.g(k), swap && k < 2 ? 1 - k : k), c.shape(0, k)));
    }
}
GRAD("cartesian_prod") {
    Dims grid;
    for (int k = 0; k < c.count(0); k++) grid.push_back(c.shape(0, k)[0]);
    for (int k = 0; k < c.count(0); k++) {
        if (c.needs(0, k)) c.set(0, k, along(reshape(select(c.g(), 1, k), grid), k));
    }
}
GRAD("block_diag") {
    int64_t row = 0, column = 0;
    for (int k = 0; k < c.count(0); k++) {
        const Dims& shape = c.shape(0, k);
        int64_t rows = shape.size() < 2 ? 1 : shape[0], columns = shape.empty() ? 1 : shape.back();
        if (c.needs(0, k)) c.set(0, k, reshape(narrow(narrow(c.g(), 0, row, rows), 1, column, columns), shape));
        row += rows;
        column += columns;
    }
}

}  // namespace fb
