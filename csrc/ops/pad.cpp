#include "ops/pad.h"

#include "ops/create.h"
#include "ops/shape.h"

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
    if (has_format(t, MemoryFormat::ChannelsLast) && !t.is_contiguous())
        result = empty_format(shape, t.dtype(), t.device(), MemoryFormat::ChannelsLast);
    if (result.numel() == 0) return result;
    // Only the margins are filled: first those of the first padded dimension, then of the part that is left, and so on.
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

// Index of the source for every position of a padded dimension.
static Tensor source_indices(int64_t size, int64_t before, int64_t after, const std::string& mode, int64_t dim) {
    if (mode == "reflect") {
        check(before < size && after < size,
              "padding size should be less than the corresponding input dimension, but got: padding (", before, ", ",
              after, ") at dimension ", dim, " of size ", size);
    } else if (mode == "circular") {
        check(before <= size && after <= size, "padding value causes wrapping around more than once: padding (", before,
              ", ", after, ") at dimension ", dim, " of size ", size);
    }
    int64_t n = size + before + after;
    check(n >= 0 && before >= -size && after >= -size, "padding (", before, ", ", after, ") at dimension ", dim,
          " of size ", size, " leaves a negative size");
    check(size > 0 || n == 0, "cannot pad dimension ", dim, " of size 0 with its own elements");
    Tensor indices = empty({n}, DType::I64);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i - before;
        if (mode == "reflect") at = at < 0 ? -at : at >= size ? 2 * (size - 1) - at : at;
        else if (mode == "replicate") at = std::clamp<int64_t>(at, 0, size - 1);
        else at = at < 0 ? at + size : at >= size ? at - size : at;
        indices.data<int64_t>()[i] = at;
    }
    return indices;
}

Tensor pad_mode(const Tensor& t, const Dims& pad, const std::string& mode) {
    check(mode == "reflect" || mode == "replicate" || mode == "circular", "unrecognised padding mode '", mode,
          "'; expected 'constant', 'reflect', 'replicate' or 'circular'");
    check(pad.size() % 2 == 0 && pad.size() / 2 <= t.dim(), "padding ", pad, " does not fit a tensor of shape ",
          t.shape());
    Tensor result = t;
    for (int64_t i = 0; i < pad.size() / 2; i++) {
        int64_t d = t.dim() - 1 - i, before = pad[2 * i], after = pad[2 * i + 1];
        if (mode == "circular" && (before < 0 || after < 0)) {
            // What is cropped away takes no part in the circle.
            int64_t low = std::max<int64_t>(-before, 0), kept = t.shape()[d] - low - std::max<int64_t>(-after, 0);
            check(kept >= 0, "padding (", before, ", ", after, ") at dimension ", d, " of size ", t.shape()[d],
                  " leaves a negative size");
            result = narrow(result, d, low, kept);
            before = std::max<int64_t>(before, 0);
            after = std::max<int64_t>(after, 0);
        }
        Tensor indices = source_indices(result.shape()[d], before, after, mode, d);
        if (before || after) result = index_select(result, d, indices);
    }
    return share_memory(result, t) ? clone(result, MemoryFormat::Contiguous) : result;
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
