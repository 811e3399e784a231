// Copies and writes of a whole tensor: contiguous, clone, copy_, fill_, resize_, set_.
#include "autograd/node.h"
#include "base/exclusive.h"
#include "ops/shape/create.h"
#include "ops/shape/shape.h"

namespace fb {

OP("contiguous(Tensor input, memory_format memory_format=0) -> Tensor", METHOD,
   R"(The tensor itself if it is contiguous, otherwise a contiguous copy.

Args:
    memory_format: the order: contiguous_format, channels_last or channels_last_3d.

Example:
    >>> fb.zeros(2, 3).t().contiguous().stride()
    (2, 1)
)") {
    return contiguous(a.tensor(0), static_cast<MemoryFormat>(a.integer(1)));
}

OP("clone(Tensor input, *, memory_format? memory_format=None) -> Tensor", FUNCTION | METHOD, R"(A copy.

Args:
    input: the tensor.
    memory_format: the order in memory; that of the input, when it is dense, by default.

Example:
    >>> x = fb.tensor([1, 2])
    >>> y = x.clone()
    >>> y[0] = 5
    >>> x
    tensor([1, 2])
)") {
    return clone(a.tensor(0), format_or(a, 1, MemoryFormat::Preserve));
}

OP("copy_(Tensor input, Operand src, bool non_blocking=False) -> Tensor", METHOD | MIXED,
   R"(Copies another tensor's elements into this one, broadcast and converted.

Args:
    src: tensor to copy from.
    non_blocking: accepted without effect; copies on the CPU are synchronous.

Example:
    >>> fb.zeros(2, 2).copy_(fb.tensor([1, 2]))
    tensor([[1., 2.],
            [1., 2.]])
)") {
    copy_into(a.tensor(0), a.tensor(1));
    return a.tensor(0);
}

// A view of one element for all that an expanded dimension repeats: filling it once fills all.
static Tensor unexpanded(const Tensor& t) {
    if (t.is_contiguous()) return t;
    Dims shape = t.shape();
    for (int64_t d = 0; d < t.dim(); d++) {
        if (t.strides()[d] == 0) shape[d] = std::min<int64_t>(shape[d], 1);
    }
    return view_of(t, shape, t.strides(), t.offset());
}

// Elements that share memory receive the same value, so overlap is harmless here; slices that do not overlap are
// written one after the other.
static void fill_everywhere(const Tensor& t, const Tensor& value) {
    Tensor target = unexpanded(t);
    if (!may_overlap_itself(target)) return copy_into(target, value);
    for (int64_t i = 0; i < target.shape()[0]; i++) fill_everywhere(select(target, 0, i), value);
}

OP("fill_(Tensor input, Operand value) -> Tensor", METHOD, R"(Writes one value everywhere.

Args:
    value: a number or a 0-d tensor.

Example:
    >>> fb.zeros(2).fill_(3)
    tensor([3., 3.])
)") {
    const Tensor& value = a.tensor(1);
    check(value.dim() == 0, "only supports 0-dimension value tensor but got tensor with ", value.dim(), " dimensions");
    if (value.is_wrapped_number() && is_complex(value.dtype()) && !is_complex(a.tensor(0).dtype())) {
        check(item(value).im == 0, "a complex value cannot be written into a tensor of dtype ", a.tensor(0).dtype(),
              " without loss");
    }
    fill_everywhere(a.tensor(0), value);
    return a.tensor(0);
}
OP("fill(Tensor input, Operand value) -> Tensor", FUNCTION, R"(A copy of the tensor with one value everywhere.

Args:
    input: a tensor with the shape, dtype and device of the result.
    value: a number or a 0-d tensor.

Example:
    >>> fb.fill(fb.zeros(2), 3)
    tensor([3., 3.])
)") {
    check(a.tensor(1).dim() == 0, "only supports 0-dimension value tensor but got tensor with ", a.tensor(1).dim(),
          " dimensions");
    Tensor result = empty_like(a.tensor(0), a.tensor(0).dtype());
    copy_into(result, a.tensor(1));
    return result;
}
OP("zero_(Tensor input) -> Tensor", FUNCTION | METHOD, R"(Writes zero everywhere.

Args:
    input: the tensor.

Example:
    >>> fb.ones(2).zero_()
    tensor([0., 0.])
)") {
    fill_everywhere(a.tensor(0), scalar_tensor(Scalar(0), a.tensor(0).dtype()));
    return a.tensor(0);
}

static Tensor resize(const Tensor& t, const Dims& shape, MemoryFormat format) {
    check(format != MemoryFormat::Preserve, "preserve_format is not supported here");
    if (requires_grad(t)) fail_state("cannot resize variables that require grad; resize a detach() of it");
    int64_t numel = checked_numel(shape);
    if (t.shape() == shape && format == MemoryFormat::Contiguous) return t;
    Dims strides = format_strides(shape, format);
    int64_t had = static_cast<int64_t>(t.storage().bytes()) / t.itemsize();
    exclusively([&] {
        if (numel) t.storage().grow(static_cast<size_t>(numel + t.offset()) * static_cast<size_t>(t.itemsize()));
        become(t, view_of(t, shape, strides, t.offset()));
    });
    unset_from(t, had);
    return t;
}
OP("resize_(Tensor input, *int[] size, *, memory_format? memory_format=None) -> Tensor", METHOD,
   R"(Changes the shape of this tensor in place; memory grows if needed, and new elements are uninitialized.

Args:
    size: the new shape.
    memory_format: order of the elements in memory.

Example:
    >>> fb.arange(4).resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])
)") {
    return resize(a.tensor(0), a.dims(1), format_or(a, 2, MemoryFormat::Contiguous));
}
OP("resize_as_(Tensor input, Tensor the_template, *, memory_format? memory_format=None) -> Tensor",
   FUNCTION | METHOD | MIXED, R"(Changes the shape of this tensor in place to that of another.

Args:
    input: the tensor.
    the_template: a tensor with the new shape.
    memory_format: order of the elements in memory.

Example:
    >>> fb.arange(4).resize_as_(fb.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
)") {
    const Tensor& like = a.tensor(1);
    MemoryFormat format = format_or(a, 2, MemoryFormat::Contiguous);
    if (format == MemoryFormat::Preserve) {
        format = MemoryFormat::Contiguous;
        for (MemoryFormat other : {MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d}) {
            int64_t rank = other == MemoryFormat::ChannelsLast ? 4 : 5;
            if (like.dim() == rank && !like.is_contiguous() && has_format(like, other)) format = other;
        }
    }
    return resize(a.tensor(0), like.shape(), format);
}

OP("set_(Tensor input, Tensor source) -> Tensor", METHOD,
   R"(Makes this tensor share another's memory, shape and strides.

Args:
    source: the tensor to be like.

Example:
    >>> fb.zeros(1).set_(fb.tensor([1.0, 2.0]))
    tensor([1., 2.])
)") {
    const Tensor &t = a.tensor(0), &source = a.tensor(1);
    check(t.dtype() == source.dtype(), "expected a source of dtype ", t.dtype(), ", got ", source.dtype());
    replace_contents(t, source);
    return t;
}

}  // namespace fb
