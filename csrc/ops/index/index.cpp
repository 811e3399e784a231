// Basic indexing: reads the items, creates the view, and leaves masks and index tensors to index_advanced.
#include "ops/index/index.h"

#include "ops/index/index_advanced.h"
#include "ops/order/reduce.h"

namespace fb {
namespace {

struct Reader {
    const Tensor& t;
    Dims shape, strides;
    int64_t offset;
    int64_t next = 0;  // dimension of t consumed by the next item
    std::vector<AdvancedItem> advanced;

    explicit Reader(const Tensor& tensor) : t(tensor), offset(tensor.offset()) {}

    void keep() {
        shape.push_back(t.shape()[next]);
        strides.push_back(t.strides()[next]);
        next++;
    }

    void integer(int64_t index) {
        int64_t size = t.shape()[next];
        if (index < -size || index >= size) {
            fail_index("index ", index, " is out of bounds for dimension ", next, " with size ", size);
        }
        offset += (index < 0 ? index + size : index) * t.strides()[next];
        next++;
    }

    void slice(const IndexItem& item) {
        int64_t size = t.shape()[next], stride = t.strides()[next], step = item.step;
        check(step != 0, "slice step must not be zero");
        int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
        auto clamp = [&](int64_t i) {
            if (i < 0) i = i < -size ? -1 : i + size;
            return i < low ? low : i > high ? high : i;
        };
        int64_t start = clamp(item.start), stop = clamp(item.stop), count = 0;
        if (step > 0 && stop > start) count = (stop - start - 1) / step + 1;
        // -(step + 1) + 1u in unsigned arithmetic: the magnitude of the smallest int64 does not fit otherwise.
        if (step < 0 && start > stop)
            count = static_cast<int64_t>(uint64_t(start - stop - 1) / (uint64_t(-(step + 1)) + 1u)) + 1;
        if (count) offset += start * stride;
        if (count <= 1) step = step > 0 ? 1 : -1;  // a huge step must not overflow the stride of a single element
        shape.push_back(count);
        strides.push_back(checked_mul(stride, step, "the slice's stride"));
        next++;
    }

    void mask(const Tensor& m) {
        for (int64_t d = 0; d < m.dim(); d++) {
            if (m.shape()[d] != t.shape()[next + d]) {
                fail_index("The shape of the mask ", m.shape(), " at index ", d,
                           " does not match the shape of the indexed tensor ", t.shape(), " at index ", next + d);
            }
        }
        advanced.push_back({shape.size(), m});
        for (int64_t d = 0; d < m.dim(); d++) keep();
    }

    // A view without elements has no first element, and its offset could be anywhere.
    Tensor view() const { return view_of(t, shape, strides, shape.contains(0) ? t.offset() : offset); }

    void scalar_mask(bool value) {
        advanced.push_back(
            {shape.size(), value ? zeros({1}, DType::I64, t.device()) : empty({0}, DType::I64, t.device())});
        shape.push_back(1);
        strides.push_back(0);
    }
};

// Masks from before the bool dtype: uint8, nonzero is true.
bool is_mask(const Tensor& t) { return t.dtype() == DType::Bool || t.dtype() == DType::U8; }

int64_t consumed(const IndexItem& item) {
    switch (item.type) {
        case IndexItem::Type::Integer:
        case IndexItem::Type::Slice:
            return 1;
        case IndexItem::Type::Tensor:
            return is_mask(item.indices) ? item.indices.dim() : 1;
        default:
            return 0;
    }
}

void read(Reader& r, const std::vector<IndexItem>& items) {
    int64_t needed = 0, ellipses = 0;
    for (const IndexItem& item : items) {
        needed += consumed(item);
        ellipses += item.type == IndexItem::Type::Ellipsis;
    }
    if (ellipses > 1) fail_index("an index can only have a single ellipsis ('...')");
    if (needed > r.t.dim()) fail_index("too many indices for tensor of dimension ", r.t.dim(), ": got ", needed);
    for (const IndexItem& item : items) {
        switch (item.type) {
            case IndexItem::Type::None:
                r.strides.push_back(r.next < r.t.dim() ? r.t.shape()[r.next] * r.t.strides()[r.next] : 1);
                r.shape.push_back(1);
                break;
            case IndexItem::Type::Ellipsis:
                for (int64_t n = r.t.dim() - needed; n > 0; n--) r.keep();
                break;
            case IndexItem::Type::Integer:
                r.integer(item.start);
                break;
            case IndexItem::Type::Slice:
                r.slice(item);
                break;
            case IndexItem::Type::Bool:
                r.scalar_mask(item.start != 0);
                break;
            case IndexItem::Type::Tensor: {
                const Tensor& indices = item.indices;
                if (is_mask(indices)) {
                    if (indices.dim() == 0) r.scalar_mask(fb::item(indices).i != 0);
                    else r.mask(to_dtype(indices, DType::Bool));
                } else if (!is_integral(indices.dtype())) {
                    fail_index("tensors used as indices must be long, int, byte or bool tensors, got ",
                               indices.dtype());
                } else if (indices.dim() == 0) {
                    Scalar i = fb::item(indices);
                    if (i.u)
                        fail_index("index ", static_cast<uint64_t>(i.i), " is out of bounds for dimension ", r.next);
                    r.integer(i.i);
                } else {
                    r.advanced.push_back({r.shape.size(), indices});
                    r.keep();
                }
            }
        }
    }
    while (r.next < r.t.dim()) r.keep();
}

}  // namespace

Tensor index_get(const Tensor& t, const std::vector<IndexItem>& items) {
    Reader r(t);
    read(r, items);
    Tensor base = r.view();
    return r.advanced.empty() ? base : advanced_get(base, r.advanced);
}

void index_set(const Tensor& t, const std::vector<IndexItem>& items, const Tensor& value) {
    Reader r(t);
    read(r, items);
    Tensor base = r.view();
    if (!r.advanced.empty()) return advanced_set(base, r.advanced, value, false);
    // NumPy and PyTorch drop leading dimensions of size one of the value.
    copy_into(base, drop_leading_ones(value, base.dim()));
}

void index_add_to(const Tensor& t, const std::vector<IndexItem>& items, const Tensor& value) {
    Reader r(t);
    read(r, items);
    Tensor base = r.view();
    // Without an index tensor everything is one position: index 0 of a new first dimension.
    if (r.advanced.empty()) advanced_set(unsqueeze(base, 0), {{0, zeros({1}, DType::I64, t.device())}}, value, true);
    else advanced_set(base, r.advanced, value, true);
}

Tensor as_indices(const Tensor& t) {
    if (t.dtype() == DType::I64) return t;
    if (!is_integral(t.dtype())) fail_index("indices must be of an integer dtype, got ", t.dtype());
    Tensor result = to_dtype(t, DType::I64);
    if (t.dtype() == DType::U64) {
        // Values beyond int64 look negative.
        int64_t least = result.numel() && has_values(t) ? item(amin(result)).i : 0;
        if (least < 0) fail_index("index ", static_cast<uint64_t>(least), " is out of bounds for every size");
    }
    return result;
}

}  // namespace fb
