#include "ops/shape/pad.h"

#include "ops/shape/create.h"
#include "ops/shape/shape.h"

namespace fb {

Tensor constant_pad(const Tensor& t, const Dims& pad, const Scalar& value) {
    check(pad.size() % 2 == 0, "length of pad must be even but got ", pad.size(), " entries in ", pad);
    int64_t n = pad.size() / 2, first = t.dim() - n;
    check(n <= t.dim(), "length of pad should be no more than twice the number of dimensions (", t.dim(),
          ") of the input, got ", pad);
    Tensor source = t;
    Dims shape = t.shape();
    for (int64_t i = 0; i < n; i++) {
        int64_t d = t.dim() - 1 - i, before = pad[2 * i], after = pad[2 * i + 1], size;
        bool overflow =
            __builtin_add_overflow(t.shape()[d], before, &size) || __builtin_add_overflow(size, after, &size);
        check(!overflow && size >= 0, "the input size ", t.shape()[d], ", plus negative padding ", before, " and ",
              after, ", resulted in a negative output size at dimension ", d);
        shape[d] = size;
        // Cropping first leaves a view that only has to be placed.
        int64_t low = before < 0 ? -before : 0, high = t.shape()[d] + (after < 0 ? after : 0);
        source = slice(source, d, std::min(low, t.shape()[d]), std::max<int64_t>(high, 0));
    }
    Tensor result = empty(shape, t.dtype(), t.device());
    for (MemoryFormat format : {MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d}) {
        if (has_format(t, format) && !t.is_contiguous()) result = empty_format(shape, t.dtype(), t.device(), format);
    }
    if (result.numel() == 0) return result;
    // Only the margins are filled: first those of the first padded dimension, then of the remaining part, and so on.
    Tensor inside = result;
    for (int64_t d = first; d < t.dim(); d++) {
        int64_t i = t.dim() - 1 - d, before = std::max<int64_t>(pad[2 * i], 0),
                after = std::max<int64_t>(pad[2 * i + 1], 0);
        int64_t size = inside.shape()[d];
        before = std::min(before, size);
        after = std::min(after, size - before);
        if (before) fill(narrow(inside, d, 0, before), value);
        if (after) fill(narrow(inside, d, size - after, after), value);
        inside = narrow(inside, d, before, size - before - after);
    }
    if (inside.numel()) copy_into(inside, source);
    return result;
}

OP("constant_pad_nd(Tensor input, int[] pad, Scalar value=0) -> Tensor", FUNCTION,
   R"(The tensor with margins of one value.

Args:
    input: the tensor.
    pad: margins (before, after) of the last dimension, then of the one before it, and so on; negative ones crop.
    value: what the margins hold.

Example:
    >>> fb.constant_pad_nd(fb.tensor([1, 2]), (1, 2), 9)
    tensor([9, 1, 2, 9, 9])
)") {
    return constant_pad(a.tensor(0), a.dims(1), a.scalar(2));
}

}  // namespace fb
