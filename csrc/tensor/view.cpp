// Views: other shapes and strides over the same storage.
#include <numeric>

#include "base/wording.h"
#include "tensor/tensor.h"

namespace fb {

// Dimensions with more than one element, sorted by |stride|, must chain without gap (dense) or without overlap.
static bool chains(const Tensor& t, bool allow_gaps) {
    Dims order;
    for (int64_t i = 0; i < t.dim(); i++) {
        if (t.shape()[i] != 1) order.push_back(i);
    }
    const Dims& strides = t.strides();
    std::sort(order.begin(), order.end(),
              [&](int64_t a, int64_t b) { return std::abs(strides[a]) < std::abs(strides[b]); });
    int64_t step = 1;  // extent of the faster dimensions
    for (int64_t d : order) {
        int64_t stride = allow_gaps ? std::abs(strides[d]) : strides[d];
        if (allow_gaps ? stride < step : stride != step) return false;
        step += stride * (t.shape()[d] - 1);
    }
    return true;
}

bool is_dense(const Tensor& t) { return t.numel() == 0 || t.is_contiguous() || chains(t, false); }

bool may_overlap_itself(const Tensor& t) { return t.numel() > 1 && !t.is_contiguous() && !chains(t, true); }

static std::pair<const char*, const char*> byte_range(const Tensor& t) {
    const char *first = t.raw(), *last = t.raw();
    for (int64_t i = 0; i < t.dim(); i++) {
        int64_t reach = (t.shape()[i] - 1) * t.strides()[i] * t.itemsize();
        (reach < 0 ? first : last) += reach;
    }
    return {first, last + t.itemsize()};
}

bool share_memory(const Tensor& a, const Tensor& b) {
    if (a.numel() == 0 || b.numel() == 0 || a.device() != b.device()) return false;
    auto [a0, a1] = byte_range(a);
    auto [b0, b1] = byte_range(b);
    return a0 < b1 && b0 < a1;
}

Tensor alias(const Tensor& t) { return view_of(t, t.shape(), t.strides(), t.offset()); }

Tensor expand(const Tensor& t, const Dims& shape) {
    int64_t extra = shape.size() - t.dim();
    check(extra >= 0, "the number of sizes provided (", shape.size(),
          ") must be at least the number of dimensions of the tensor (", t.dim(), "), whose shape is ", t.shape());
    Dims sizes = shape, strides(shape.size(), 0);
    bool new_ones = false;
    for (int64_t i = 0; i < shape.size(); i++) {
        if (i < extra) {
            check(shape[i] >= 0, "size -1 is not allowed for the new leading dimension ", i, " in ", shape);
            new_ones |= shape[i] == 1;
            continue;
        }
        int64_t have = t.shape()[i - extra];
        if (sizes[i] == -1) sizes[i] = have;
        check(sizes[i] >= 0, "sizes must not be negative, got ", shape);
        if (sizes[i] == have) strides[i] = t.strides()[i - extra];
        else
            check(have == 1, "The expanded size of the tensor (", sizes[i], ") must match the existing size (", have,
                  ") at non-singleton dimension ", i, "; target sizes: ", shape, ", tensor sizes: ", t.shape());
    }
    // New dimensions of size one have the strides that unsqueeze() gives them.
    for (int64_t i = extra - 1; new_ones && i >= 0; i--)
        if (sizes[i] == 1 && i + 1 < sizes.size()) strides[i] = sizes[i + 1] * strides[i + 1];
    return view_of(t, sizes, strides, t.offset());
}

Tensor transpose(const Tensor& t, int64_t a, int64_t b) {
    a = wrap_dim(a, t.dim());
    b = wrap_dim(b, t.dim());
    if (t.dim() == 0) return alias(t);
    Dims shape = t.shape(), strides = t.strides();
    std::swap(shape[a], shape[b]);
    std::swap(strides[a], strides[b]);
    return view_of(t, shape, strides, t.offset());
}

Tensor permute(const Tensor& t, const Dims& order) {
    check(order.size() == t.dim(), "got ", order.size(), " dims ", order, " for a ", t.dim(),
          "-d tensor; expected one per dimension");
    Dims wrapped = wrap_dims(order, t.dim()), shape, strides;
    for (int64_t d : wrapped) {
        shape.push_back(t.shape()[d]);
        strides.push_back(t.strides()[d]);
    }
    return view_of(t, shape, strides, t.offset());
}

Tensor unsqueeze(const Tensor& t, int64_t dim) {
    dim = wrap_dim(dim, t.dim() + 1);
    Dims shape = t.shape(), strides = t.strides();
    strides.insert(dim, dim < t.dim() ? shape[dim] * strides[dim] : 1);
    shape.insert(dim, 1);
    return view_of(t, shape, strides, t.offset());
}

Tensor squeeze(const Tensor& t, int64_t dim) {
    dim = wrap_dim(dim, t.dim());
    if (t.dim() == 0 || t.shape()[dim] != 1) return alias(t);
    Dims shape = t.shape(), strides = t.strides();
    shape.erase(dim);
    strides.erase(dim);
    return view_of(t, shape, strides, t.offset());
}

Tensor select(const Tensor& t, int64_t dim, int64_t index) {
    if (t.dim() == 0)
        fail_index("invalid index of a 0-dim tensor: it has no dimension to index; use item() to read its value");
    dim = wrap_dim(dim, t.dim());
    int64_t size = t.shape()[dim];
    if (index < -size || index >= size)
        fail_index("index ", index, " is out of bounds for dimension ", dim, " with size ", size);
    if (index < 0) index += size;
    Dims shape = t.shape(), strides = t.strides();
    int64_t offset = t.offset() + index * strides[dim];
    shape.erase(dim);
    strides.erase(dim);
    return view_of(t, shape, strides, offset);
}

Tensor slice(const Tensor& t, int64_t dim, int64_t start, int64_t stop, int64_t step) {
    if (t.dim() == 0) fail_index("a 0-d tensor cannot be sliced; use item() to read its value");
    check(step != 0, "slice step must not be zero");
    dim = wrap_dim(dim, t.dim());
    int64_t size = t.shape()[dim];
    auto clamp = [&](int64_t i) {
        if (i < 0) i = i < -size ? -1 : i + size;
        int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
        return std::clamp(i, std::min(low, high), std::max(low, high));
    };
    // With a negative step, -1 ("before the first") is distinct from "the last": callers pass INT64_MIN for an open
    // end.
    start = clamp(start);
    stop = clamp(stop);
    int64_t count = step > 0 ? (stop > start ? (stop - start - 1) / step + 1 : 0)
                             : (start > stop ? (start - stop - 1) / -step + 1 : 0);
    Dims shape = t.shape(), strides = t.strides();
    shape[dim] = count;
    int64_t offset = t.offset() + (count ? start * strides[dim] : 0);
    if (count <= 1) step = step > 0 ? 1 : -1;  // a huge step must not overflow the stride of a single element
    strides[dim] = checked_mul(strides[dim], step, "the slice's stride");
    return view_of(t, shape, strides, offset);
}

Tensor narrow(const Tensor& t, int64_t dim, int64_t start, int64_t length) {
    check(t.dim() > 0, "narrow() cannot be applied to a 0-dim tensor.");
    dim = wrap_dim(dim, t.dim());
    int64_t size = t.shape()[dim];
    check(length >= 0, "narrow(): length must be non-negative. Got ", length);
    if (start < -size || start > size)
        fail_index("start out of range (expected to be in range of [", -size, ", ", size, "], but got ", start,
                   ") for dimension ", dim);
    if (start < 0) start += size;
    check(start <= size - length, "start (", start, ") + length (", length, ") exceeds dimension size (", size, ").");
    Dims shape = t.shape();
    shape[dim] = length;
    return view_of(t, shape, t.strides(), t.offset() + (length ? start * t.strides()[dim] : 0));
}

Tensor flip_view(const Tensor& t, int64_t dim) {
    dim = wrap_dim(dim, t.dim());
    if (t.dim() == 0) return alias(t);
    Dims strides = t.strides();
    int64_t size = t.shape()[dim];
    int64_t offset = t.offset() + (size > 0 && t.numel() > 0 ? (size - 1) * strides[dim] : 0);
    strides[dim] = -strides[dim];
    return view_of(t, t.shape(), strides, offset);
}

Dims infer_shape(const Dims& shape, int64_t numel) {
    Dims result = shape;
    int64_t hole = -1, known = 1;
    for (int64_t i = 0; i < shape.size(); i++) {
        if (shape[i] == -1) {
            check(hole < 0, "only one dimension can be inferred, got shape ", shape);
            hole = i;
        } else {
            check(shape[i] >= 0, "invalid shape dimension ", shape[i], " in ", shape);
            known = checked_mul(known, shape[i], "the requested shape");
        }
    }
    if (hole >= 0) {
        check(known != 0, numel ? "shape '" : "cannot reshape tensor of 0 elements into shape ", Bracketed{shape},
              numel ? "' is invalid for input of size "
                    : " because the unspecified dimension size -1 can be any value and is ambiguous; size ",
              numel);
        check(numel % known == 0, "shape '", Bracketed{shape}, "' is invalid for input of size ", numel);
        result[hole] = numel / known;
    } else {
        check(known == numel, "shape '", Bracketed{shape}, "' is invalid for input of size ", numel);
    }
    return result;
}

std::optional<Dims> view_strides(const Tensor& t, const Dims& shape) {
    if (t.numel() == 0) return t.shape() == shape ? t.strides() : contiguous_strides(shape);
    if (t.is_contiguous()) return contiguous_strides(shape);
    Dims strides;
    strides.resize(shape.size());
    int64_t d = shape.size() - 1;
    int64_t base = t.dim() ? t.strides().back() : 1, have = 1, want = 1;
    for (int64_t i = t.dim() - 1; i >= 0; i--) {
        have *= t.shape()[i];
        // The end of a chunk of contiguous dimensions.
        bool chunk_ends = i == 0 || (t.shape()[i - 1] != 1 && t.strides()[i - 1] != have * base);
        if (!chunk_ends) continue;
        while (d >= 0 && (want < have || shape[d] == 1)) {
            strides[d] = want * base;
            want *= shape[d];
            d--;
        }
        if (want != have) return std::nullopt;
        if (i > 0) base = t.strides()[i - 1], have = want = 1;
    }
    return d < 0 ? std::optional<Dims>(strides) : std::nullopt;
}

Tensor view(const Tensor& t, const Dims& shape) {
    Dims sizes = infer_shape(shape, t.numel());
    auto strides = view_strides(t, sizes);
    if (!strides) {
        fail_value("view of shape ", t.shape(), " with strides ", t.strides(), " as ", sizes,
                   " is not possible without a copy; use reshape() instead");
    }
    return view_of(t, sizes, *strides, t.offset());
}

}  // namespace fb
