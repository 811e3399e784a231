// Signatures of the views of a part of a tensor, or of its elements reinterpreted.
#include "ops/shape/create.h"
#include "ops/shape/shape.h"
#include "ops/table/elementwise.h"
#include "ops/table/views.h"

namespace fb {

static Tensor narrow_from(const Tensor& t, int64_t dim, const Tensor& start, int64_t length) {
    check(start.dim() == 0 && is_integral(start.dtype()), "start must be an 0-dim integral Tensor. Got shape ",
          start.shape(), " and dtype ", start.dtype());
    return narrow(t, dim, item(start).i, length);
}
OP("narrow(Tensor input, int dim, Tensor start, int length) -> Tensor", FUNCTION | METHOD, nullptr) {
    return narrow_from(a.tensor(0), a.integer(1), a.tensor(2), a.integer(3));
}
OP("narrow(Tensor input, int dim, int start, int length) -> Tensor", FUNCTION | METHOD,
   R"(A view of a range of one dimension.

Args:
    input: the tensor.
    dim: the dimension.
    start: the first index; negative values count from the end.
    length: number of elements.

Example:
    >>> fb.narrow(fb.arange(5), 0, 1, 3)
    tensor([1, 2, 3])
)") {
    return narrow(a.tensor(0), a.integer(1), a.integer(2), a.integer(3));
}
OP("narrow_copy(Tensor input, int dim, int start, int length) -> Tensor", COMMON,
   R"(A copy of a range of one dimension.

Args:
    input: the tensor.
    dim: the dimension.
    start: the first index.
    length: number of elements.

Example:
    >>> fb.narrow_copy(fb.arange(5), 0, 1, 3)
    tensor([1, 2, 3])
)") {
    const Tensor& t = a.tensor(0);
    check(a.integer(3) >= 0, "start (", a.integer(2), ") + length (", a.integer(3), ") exceeds dimension size (",
          t.dim() ? t.size(a.integer(1)) : 1, "); the length must be non-negative");
    return clone(narrow(t, a.integer(1), a.integer(2), a.integer(3)), MemoryFormat::Contiguous);
}

OP("select(Tensor input, int dim, int index) -> Tensor", FUNCTION | METHOD,
   R"(A view of one index of a dimension, which is removed.

Args:
    input: the tensor.
    dim: the dimension.
    index: the index; negative values count from the end.

Example:
    >>> fb.select(fb.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([3, 4])
)") {
    return select(a.tensor(0), a.integer(1), a.integer(2));
}

OP("unbind(Tensor input, int dim=0) -> Tensor[]", FUNCTION | METHOD, R"(Views of all slices along a dimension.

Args:
    input: the tensor.
    dim: the dimension to remove.

Example:
    >>> fb.unbind(fb.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
)") {
    return unbind(a.tensor(0), a.integer(1));
}

OP("diagonal(Tensor input, int offset=0, int dim1=0, int dim2=1) -> Tensor", FUNCTION | METHOD,
   R"(A view of the diagonal of two dimensions; it becomes the last dimension.

Args:
    input: the tensor.
    offset: 0 for the main diagonal, positive above it, negative below.
    dim1: the rows.
    dim2: the columns.

Example:
    >>> fb.diagonal(fb.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
)") {
    return diagonal(a.tensor(0), a.integer(1), a.integer(2), a.integer(3));
}
OP("linalg.diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", FUNCTION,
   R"(A view of the diagonal of each matrix.

Args:
    A: matrices.
    offset: 0 for the main diagonal, positive above it, negative below.
    dim1: the rows.
    dim2: the columns.

Example:
    >>> fb.linalg.diagonal(fb.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
)") {
    return diagonal(a.tensor(0), a.integer(1), a.integer(2), a.integer(3));
}

OP("unfold(Tensor input, int dimension, int size, int step) -> Tensor", METHOD,
   R"(A view of all windows along a dimension; the window is the last dimension.

Args:
    dimension: the dimension along which windows slide.
    size: size of each window.
    step: distance between windows.

Example:
    >>> fb.arange(5).unfold(0, 3, 1)
    tensor([[0, 1, 2],
            [1, 2, 3],
            [2, 3, 4]])
)") {
    return unfold(a.tensor(0), a.integer(1), a.integer(2), a.integer(3));
}

OP("as_strided(Tensor input, int[] size, int[] stride, int? storage_offset=None) -> Tensor", FUNCTION | METHOD,
   R"(A view of the tensor's storage with any shape and strides within its bounds.

Args:
    input: the tensor.
    size: the shape.
    stride: stride of each dimension, in elements.
    storage_offset: the first element; that of the input by default.

Example:
    >>> fb.as_strided(fb.arange(5), (3, 2), (1, 2))
    tensor([[0, 2],
            [1, 3],
            [2, 4]])
)") {
    return recorded_as_strided(a.tensor(0), a.dims(1), a.dims(2), a.integer_or_none(3));
}

OP("view_as_real(Tensor input) -> Tensor", FUNCTION | METHOD | ELEMENTWISE,
   R"(A view of a complex tensor as pairs of real numbers, in a new last dimension.

Args:
    input: a complex tensor.

Example:
    >>> fb.view_as_real(fb.tensor([1 + 2j]))
    tensor([[1., 2.]])
)") {
    return view_as_real(a.tensor(0));
}
OP("view_as_complex(Tensor input) -> Tensor", FUNCTION | METHOD | ELEMENTWISE,
   R"(A view of pairs of real numbers as complex numbers.

Args:
    input: float32 or float64, the last dimension of size 2.

Example:
    >>> fb.view_as_complex(fb.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
)") {
    return view_as_complex(a.tensor(0));
}
OP("real(Tensor input) -> Tensor", FUNCTION | ELEMENTWISE,
   R"(The real parts: a view of a complex tensor; a real tensor is returned unchanged.

Args:
    input: the tensor.

Example:
    >>> fb.real(fb.tensor([1 + 2j]))
    tensor([1.])
)") {
    return is_complex(a.tensor(0).dtype()) ? select(view_as_real(a.tensor(0)), -1, 0) : a.tensor(0);
}
OP("imag(Tensor input) -> Tensor", FUNCTION | ELEMENTWISE, R"(The imaginary parts, as a view.

Args:
    input: a complex tensor.

Example:
    >>> fb.imag(fb.tensor([1 + 2j]))
    tensor([2.])
)") {
    check(is_complex(a.tensor(0).dtype()), "is not implemented for tensors with non-complex dtypes, got ",
          a.tensor(0).dtype());
    return select(view_as_real(a.tensor(0)), -1, 1);
}

}  // namespace fb
