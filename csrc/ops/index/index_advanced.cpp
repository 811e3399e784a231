#include "ops/index/index_advanced.h"

#include "device/index.h"
#include "ops/index/index.h"
#include "ops/table/overlap.h"

namespace fb {
namespace {

// The positions of the base's indexed dimensions, and the byte offset for every position of the broadcast indices.
struct Located {
    Dims index_shape;
    Tensor offsets;
    Tensor rows;         // the base without its indexed dimensions
    int64_t before = 0;  // number of its dimensions that precede those of the indices in the result
    Dims shape;          // of the result
};

Tensor without(const Tensor& base, const Dims& dims) {
    Dims shape, strides;
    for (int64_t d = 0; d < base.dim(); d++) {
        if (dims.contains(d)) continue;
        shape.push_back(base.shape()[d]);
        strides.push_back(base.strides()[d]);
    }
    // With an indexed dimension of size 0 there are no rows: they get a shape, but no data.
    if (base.numel() == 0) return expand(empty(Dims(shape.size(), 1), base.dtype(), base.device()), shape);
    return view_of(base, shape, strides, base.offset());
}

void place(Located& l, const Tensor& base, const Dims& dims) {
    bool adjacent = true;
    for (int64_t k = 1; k < dims.size(); k++) adjacent &= dims[k] == dims[k - 1] + 1;
    l.before = adjacent ? dims[0] : 0;
    l.rows = without(base, dims);
    for (int64_t d = 0; d < l.before; d++) l.shape.push_back(l.rows.shape()[d]);
    for (int64_t size : l.index_shape) l.shape.push_back(size);
    for (int64_t d = l.before; d < l.rows.dim(); d++) l.shape.push_back(l.rows.shape()[d]);
}

Located locate(const Tensor& base, const std::vector<AdvancedItem>& items) {
    Located l;
    int64_t size = base.itemsize();
    Dims dims;
    if (items.size() == 1 && items[0].indices.dtype() == DType::Bool) {
        Tensor mask = contiguous(items[0].indices);
        Dims strides;
        for (int64_t d = 0; d < mask.dim(); d++) {
            dims.push_back(items[0].dim + d);
            strides.push_back(base.strides()[items[0].dim + d] * size);
        }
        l.offsets =
            mask.numel() ? device::indexing(mask).mask_offsets(mask, strides) : empty({0}, DType::I64, base.device());
        l.index_shape = {l.offsets.numel()};
        place(l, base, dims);
        return l;
    }
    std::vector<Tensor> indices;
    for (const AdvancedItem& item : items) {
        if (item.indices.dtype() != DType::Bool) {
            indices.push_back(item.indices);
            dims.push_back(item.dim);
            continue;
        }
        Tensor where = nonzero(item.indices);
        for (int64_t d = 0; d < item.indices.dim(); d++) {
            indices.push_back(select(where, 1, d));
            dims.push_back(item.dim + d);
        }
    }
    l.index_shape = indices[0].shape();
    for (const Tensor& t : indices) {
        try {
            l.index_shape = broadcast_shapes(l.index_shape, t.shape());
        } catch (const Error&) {
            std::ostringstream shapes;
            for (const Tensor& each : indices) shapes << (shapes.tellp() > 0 ? ", " : "") << each.shape();
            fail_index("shape mismatch: indexing tensors could not be broadcast together with shapes ", shapes.str());
        }
    }
    l.offsets = empty(l.index_shape, DType::I64, base.device());
    for (size_t k = 0; k < indices.size(); k++) {
        int64_t d = dims[static_cast<int64_t>(k)];
        device::indexing(base).add_offsets(l.offsets, indices[k], d, base.shape()[d], base.strides()[d] * size, true,
                                           k == 0);
    }
    place(l, base, dims);
    return l;
}

// Viewed with one dimension in place of all those of the indices.
Tensor flat_indices(const Tensor& t, const Located& l) {
    Dims shape(t.shape().begin(), t.shape().begin() + l.before);
    shape.push_back(l.offsets.numel());
    for (int64_t d = l.before + l.index_shape.size(); d < t.dim(); d++) shape.push_back(t.shape()[d]);
    return reshape(t, shape);
}

bool is_whole_mask(const Tensor& base, const std::vector<AdvancedItem>& items) {
    return items.size() == 1 && items[0].indices.dtype() == DType::Bool && items[0].indices.shape() == base.shape();
}

}  // namespace

Tensor drop_leading_ones(const Tensor& value, int64_t dim) {
    Tensor result = value;
    while (result.dim() > dim && result.shape()[0] == 1) result = squeeze(result, 0);
    return result;
}

Tensor advanced_get(const Tensor& base, const std::vector<AdvancedItem>& items) {
    if (is_whole_mask(base, items) && base.is_contiguous())
        return device::indexing(base).mask_select(base, contiguous(items[0].indices));
    Located l = locate(base, items);
    Tensor result = empty(l.shape, base.dtype(), base.device());
    if (result.numel()) device::indexing(base).gather_rows(flat_indices(result, l), l.rows, l.offsets, l.before);
    return result;
}

void advanced_set(const Tensor& base, const std::vector<AdvancedItem>& items, const Tensor& value, bool accumulate) {
    check(!may_overlap_itself(base), overlap_text);
    if (accumulate && is_storage(base.dtype())) {
        Tensor wide = to_dtype(base, value_dtype(base.dtype()));
        advanced_set(wide, items, to_dtype(value, wide.dtype()), true);
        base.will_write();
        return copy_into(base, wide);
    }
    if (is_whole_mask(base, items) && value.numel() == 1 && !accumulate) {
        base.will_write();
        Tensor mask = items[0].indices;
        if (share_memory(mask, base)) mask = clone(mask);
        device::indexing(base).mask_fill(base, base, mask, to_dtype(view(value, {}), base.dtype()));
        return;
    }
    Located l = locate(base, items);
    Tensor source = to_dtype(drop_leading_ones(value, l.shape.size()), base.dtype());
    if (share_memory(source, base)) source = clone(source);
    try {
        source = expand(source, l.shape);
    } catch (const Error&) {
        fail_value("shape mismatch: value tensor of shape ", value.shape(),
                   " cannot be broadcast to indexing result of shape ", l.shape);
    }
    base.will_write();
    if (l.offsets.numel() == 0 || source.numel() == 0) return;
    device::indexing(base).scatter_rows(l.rows, flat_indices(source, l), l.offsets, l.before,
                                        accumulate ? device::Combine::Add : device::Combine::Assign);
}

Tensor nonzero(const Tensor& t) { return device::indexing(t).mask_coordinates(contiguous(to_dtype(t, DType::Bool))); }

}  // namespace fb
