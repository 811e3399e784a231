// Rearrangements that copy: flip, roll, rot90, repeat, triangles, diagonals.
#include "device/move.h"
#include "device/reduce.h"
#include "ops/shape/create.h"
#include "ops/shape/shape.h"

namespace fb {

Tensor flip(const Tensor& t, const Dims& dims) {
    Tensor view = t;
    for (int64_t d : wrap_dims(dims, t.dim())) view = flip_view(view, d);
    Tensor result = empty_like(t, t.dtype());
    device::moving(view).copy_flipped(result, view);
    return result;
}

// Copies the blocks of a roll: two along every shifted dimension.
static void roll_blocks(const Tensor& to, const Tensor& from, const Dims& shifts, int64_t d) {
    while (d < to.dim() && shifts[d] == 0) d++;
    if (d == to.dim()) {
        copy_into(to, from);
        return;
    }
    int64_t n = to.shape()[d], k = shifts[d];
    roll_blocks(narrow(to, d, k, n - k), narrow(from, d, 0, n - k), shifts, d + 1);
    roll_blocks(narrow(to, d, 0, k), narrow(from, d, n - k, k), shifts, d + 1);
}

Tensor roll(const Tensor& t, const Dims& shifts, const Dims& dims) {
    check(shifts.size() > 0, "`shifts` required");
    if (dims.empty() && shifts.size() == 1) {
        Tensor flat = reshape(t, {t.numel()});
        return view(roll(flat, shifts, {0}), t.shape());
    }
    check(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
          ", dims:", dims.size(), "; got ", shifts, " and ", dims);
    Dims moves(t.dim(), 0);
    Tensor result = empty_like(t, t.dtype());
    if (t.numel() == 0) {
        for (int64_t d : dims) wrap_dim(d, t.dim());
        return result;
    }
    for (int64_t i = 0; i < dims.size(); i++) {
        int64_t d = wrap_dim(dims[i], t.dim());
        if (t.dim() == 0) fail_index("Dimension specified as ", dims[i], " but tensor has no dimensions");
        int64_t n = t.shape()[d], shift = shifts[i] % n;
        moves[d] = (moves[d] + shift + n) % n;
    }
    roll_blocks(result, t, moves, 0);
    return result;
}

Tensor repeat(const Tensor& t, const Dims& repeats) {
    check(repeats.size() >= t.dim(), "number of dimensions of repeat dims (", repeats.size(),
          ") can not be smaller than number of dimensions of tensor (", t.dim(), ")");
    Dims have = t.shape(), shape;
    for (int64_t extra = repeats.size() - t.dim(); extra > 0; extra--) have.insert(0, 1);
    for (int64_t d = 0; d < repeats.size(); d++) {
        check(repeats[d] >= 0, "repeats must not be negative, got ", repeats);
        shape.push_back(checked_mul(have[d], repeats[d], "the repeated size"));
    }
    Tensor result = empty(shape, t.dtype(), t.device());
    if (result.numel()) device::moving(t).repeat(result, view(contiguous(t), have), repeats);
    return result;
}

OP("flip(Tensor input, *int[] dims) -> Tensor", FUNCTION | METHOD, R"(Reverses the order of elements along given dims.

Args:
    input: the tensor.
    dims: dimensions to reverse.

Example:
    >>> fb.flip(fb.arange(3), [0])
    tensor([2, 1, 0])
)") {
    return flip(a.tensor(0), a.dims(1));
}
OP("fliplr(Tensor input) -> Tensor", FUNCTION | METHOD, R"(Reverses the columns: the second dimension.

Args:
    input: at least two-dimensional.

Example:
    >>> fb.fliplr(fb.tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])
)") {
    check(a.tensor(0).dim() >= 2, "Input must be >= 2-d. Got shape ", a.tensor(0).shape());
    return flip(a.tensor(0), {1});
}
OP("flipud(Tensor input) -> Tensor", FUNCTION | METHOD, R"(Reverses the rows: the first dimension.

Args:
    input: at least one-dimensional.

Example:
    >>> fb.flipud(fb.tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])
)") {
    check(a.tensor(0).dim() >= 1, "Input must be >= 1-d. Got a 0-d tensor");
    return flip(a.tensor(0), {0});
}

OP("roll(Tensor input, int[] shifts, int[] dims=()) -> Tensor", FUNCTION | METHOD,
   R"(Shifts elements along dims; elements shifted out at one end re-enter at the other.

Args:
    input: the tensor.
    shifts: how far, per dimension.
    dims: the dimensions; without them the flattened tensor is rolled.

Example:
    >>> fb.roll(fb.arange(4), 1)
    tensor([3, 0, 1, 2])
)") {
    return roll(a.tensor(0), a.dims(1), a.dims(2));
}
OP("roll(Tensor input, int[] shifts, int[]? dims=None) -> Tensor", FUNCTION | METHOD, nullptr) {
    return roll(a.tensor(0), a.dims(1), a.dims_or_none(2).value_or(Dims()));
}

OP("rot90(Tensor input, int k=1, int[] dims=(0, 1)) -> Tensor", FUNCTION | METHOD,
   R"(Rotates by 90 degrees, k times, in the plane of two dims.

Args:
    input: at least two-dimensional.
    k: number of quarter turns, from the first towards the second of the dims; negative values turn back.
    dims: the plane.

Example:
    >>> fb.rot90(fb.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
)") {
    const Tensor& t = a.tensor(0);
    check(a.dims(2).size() == 2, "expected total rotation dims == 2, but got dims = ", a.dims(2).size(), ": ",
          a.dims(2));
    check(t.dim() >= 2, "expected total dims >= 2, but got total dims = ", t.dim(), ": shape ", t.shape());
    check(wrap_dim(a.dims(2)[0], t.dim()) != wrap_dim(a.dims(2)[1], t.dim()),
          "expected rotation dims to be different, but got dim0 = ", a.dims(2)[0], " and dim1 = ", a.dims(2)[1]);
    Dims dims = wrap_dims(a.dims(2), t.dim());
    int64_t k = ((a.integer(1) % 4) + 4) % 4, x = dims[0], y = dims[1];
    if (k == 2) return flip(t, {x, y});
    if (k == 0) return clone(t, MemoryFormat::Contiguous);
    return transpose(flip(t, {k == 1 ? y : x}), x, y);
}

OP("repeat(Tensor input, *int[] repeats) -> Tensor", METHOD,
   R"(The tensor repeated along its dimensions; new dimensions are prepended.

Args:
    repeats: number of repetitions per dimension.

Example:
    >>> fb.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
)") {
    return repeat(a.tensor(0), a.dims(1));
}
OP("tile(Tensor input, *int[] dims) -> Tensor", FUNCTION | METHOD, R"(The tensor repeated along its last dimensions.

Args:
    input: the tensor.
    dims: number of repetitions per dimension; ones are prepended if there are too few.

Example:
    >>> fb.tile(fb.tensor([1, 2]), (2,))
    tensor([1, 2, 1, 2])
)") {
    Dims repeats = a.dims(1);
    while (repeats.size() < a.tensor(0).dim()) repeats.insert(0, 1);
    return repeat(a.tensor(0), repeats);
}

static Tensor triangle(Args& a, bool upper) {
    const Tensor& t = a.tensor(0);
    check(t.dim() >= 2, "input tensor must have at least 2 dimensions, got shape ", t.shape());
    Dims batched{-1, t.shape()[t.dim() - 2], t.shape().back()};
    Tensor source = contiguous(t);
    Tensor target = a.out && a.out.is_contiguous() && a.out.dtype() == t.dtype()
                        ? output(a, t.shape(), t.dtype(), {t})
                        : empty(t.shape(), t.dtype(), t.device());
    if (t.numel() == 0) return target;
    device::moving(target).keep_triangle(view(target, batched), view(source, batched), a.integer(1), upper);
    return target;
}
OP("tril(Tensor input, int diagonal=0) -> Tensor", FUNCTION | METHOD | INPLACE | OUT,
   R"(The lower triangle of each matrix, zeros above it.

Args:
    input: matrices.
    diagonal: the last diagonal that is kept; 0 is the main one, positive above it.

Example:
    >>> fb.tril(fb.ones(3, 3))
    tensor([[1., 0., 0.],
            [1., 1., 0.],
            [1., 1., 1.]])
)") {
    return triangle(a, false);
}
OP("triu(Tensor input, int diagonal=0) -> Tensor", FUNCTION | METHOD | INPLACE | OUT,
   R"(The upper triangle of each matrix, zeros below it.

Args:
    input: matrices.
    diagonal: the first diagonal that is kept; 0 is the main one, positive above it.

Example:
    >>> fb.triu(fb.ones(3, 3))
    tensor([[1., 1., 1.],
            [0., 1., 1.],
            [0., 0., 1.]])
)") {
    return triangle(a, true);
}

// ---- diagonals ------------------------------------------------------------------------------------------------------

static Tensor diag_embed(const Tensor& t, int64_t offset, int64_t dim1, int64_t dim2) {
    if (t.dim() == 0) fail_index("expected at least one dimension, got a 0-d tensor");
    int64_t ndim = t.dim() + 1, rows = wrap_dim(dim1, ndim), columns = wrap_dim(dim2, ndim);
    check(rows != columns, "diagonal dimensions cannot be identical ", dim1, ", ", dim2);
    int64_t n = t.shape().back();
    check(offset > -(int64_t(1) << 40) && offset < (int64_t(1) << 40), "offset ", offset, " is too large");
    n += std::abs(offset);
    Dims shape(t.shape().begin(), t.shape().end() - 1);
    shape.insert(std::min(rows, columns), n);
    shape.insert(std::max(rows, columns), n);
    Tensor result = zeros(shape, t.dtype(), t.device());
    copy_into(diagonal(result, offset, rows, columns), t);
    return result;
}
OP("diag_embed(Tensor input, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", FUNCTION | METHOD,
   R"(Matrices with the last dimension on a diagonal, zeros elsewhere.

Args:
    input: at least one-dimensional.
    offset: 0 for the main diagonal, positive above it, negative below.
    dim1: position of the rows in the result.
    dim2: position of the columns in the result.

Example:
    >>> fb.diag_embed(fb.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
)") {
    return diag_embed(a.tensor(0), a.integer(1), a.integer(2), a.integer(3));
}
OP("diag(Tensor input, int diagonal=0) -> Tensor", COMMON,
   R"(The diagonal of a matrix, or the matrix with a vector on its diagonal.

Args:
    input: one- or two-dimensional.
    diagonal: 0 for the main diagonal, positive above it, negative below.

Example:
    >>> fb.diag(fb.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    >>> fb.diag(fb.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
)") {
    const Tensor& t = a.tensor(0);
    check(t.dim() == 1 || t.dim() == 2, "Supports 1D or 2D tensors, got shape ", t.shape());
    if (t.dim() == 1) return diag_embed(t, a.integer(1), 0, 1);
    return clone(diagonal(t, a.integer(1)), MemoryFormat::Contiguous);
}
OP("diagflat(Tensor input, int offset=0) -> Tensor", FUNCTION | METHOD,
   R"(The matrix with the flattened input on its diagonal.

Args:
    input: the tensor.
    offset: 0 for the main diagonal, positive above it, negative below.

Example:
    >>> fb.diagflat(fb.tensor([[1], [2]]))
    tensor([[1, 0],
            [0, 2]])
)") {
    return diag_embed(reshape(a.tensor(0), {a.tensor(0).numel()}), a.integer(1), 0, 1);
}

OP("trace(Tensor input) -> Tensor", FUNCTION | METHOD, R"(The sum of the diagonal of a matrix.

Args:
    input: two-dimensional.

Example:
    >>> fb.trace(fb.tensor([[1, 2], [3, 4]]))
    tensor(5)
)") {
    const Tensor& t = a.tensor(0);
    check(t.dim() == 2, "expected a matrix, but got tensor with dim ", t.dim());
    Tensor d = diagonal(t);
    DType dtype = is_integral_or_bool(t.dtype()) ? DType::I64 : t.dtype();
    d = contiguous(to_dtype(d, compute_dtype(dtype)));
    Tensor result = empty({}, d.dtype(), d.device());
    device::reducing(d).sum_in_order(d, result);
    return to_dtype(result, dtype);
}

OP("fill_diagonal_(Tensor input, Scalar fill_value, bool wrap=False) -> Tensor", METHOD,
   R"(Writes a value on the main diagonal.

Args:
    fill_value: the value.
    wrap: begin again below when a matrix has more rows than columns.

Example:
    >>> fb.zeros(2, 2).fill_diagonal_(5)
    tensor([[5., 0.],
            [0., 5.]])
)") {
    const Tensor& t = a.tensor(0);
    check(t.dim() >= 2, "dimensions must be larger than 1, got shape ", t.shape());
    int64_t n = t.shape()[0], stride = 0;
    for (int64_t d = 0; d < t.dim(); d++) {
        check(t.dim() == 2 || t.shape()[d] == n, "all dimensions of input must be of equal length, got shape ",
              t.shape());
        n = std::min(n, t.shape()[d]);
        stride += t.strides()[d];
    }
    fill(view_of(t, {n}, {stride}, t.offset()), a.scalar(1));
    if (a.flag(2) && t.dim() == 2 && t.shape()[0] > t.shape()[1] + 1) {
        int64_t m = t.shape()[1];
        for (int64_t row = m + 1; row < t.shape()[0]; row += m + 1) {
            int64_t count = std::min(m, t.shape()[0] - row);
            fill(view_of(t, {count}, {stride}, t.offset() + row * t.strides()[0]), a.scalar(1));
        }
    }
    return t;
}

}  // namespace fb
