#include "ops/table/common.h"

#include "base/wording.h"
#include "device/move.h"
#include "ops/table/dispatch.h"
#include "ops/table/out_rules.h"
#include "ops/table/overlap.h"
#include "tensor/layout.h"

namespace fb {

Tensor contiguous(const Tensor& t) {
    if (t.is_contiguous()) return t;
    Tensor result = empty(t.shape(), t.dtype(), t.device());
    device::moving(result).copy(result, t);
    return result;
}

Tensor clone(const Tensor& t) {
    Tensor result = empty_like(t, t.dtype());
    device::moving(result).copy(result, t);
    return result;
}

Tensor to_dtype(const Tensor& t, DType dtype) {
    if (t.dtype() == dtype) return t;
    Tensor result = empty_like(t, dtype);
    device::moving(result).copy(result, t);
    return result;
}

void copy_into(const Tensor& to, const Tensor& from) {
    to.will_write();
    check(!may_overlap_itself(to), overlap_text);
    Tensor source = expand(from, to.shape());
    bool same_view = same_place(to, source) && to.dtype() == source.dtype() && to.strides() == source.strides();
    if (same_view) return;
    if (share_memory(to, source)) source = clone(source);
    move_elements(to, source);
}

void move_elements(const Tensor& to, const Tensor& from) {
    if (!has_values(from) && has_values(to))
        fail(ErrorKind::NotImplemented,
             "Cannot copy out of meta tensor; no data! A tensor on the meta device has a "
             "shape and a dtype only: load it, or make one with to_empty() or empty_like(device=...)");
    device::moving(to.device().type == DeviceType::CPU ? from : to).copy(to, from);
}

Tensor to_device(const Tensor& t, Device device) {
    if (t.device() == canonical(device)) return t;
    Tensor result = empty_like(t, t.dtype(), device);
    move_elements(result, t);
    return result;
}

Device common_device(Tensors inputs) {
    Device first = (*inputs.begin())->device();
    if (!other_devices.load(std::memory_order_relaxed)) return first;
    for (const Tensor& t : inputs) {
        if (t.dim() || t.device().type != DeviceType::CPU) return t.device();
    }
    return first;
}

void fill(const Tensor& t, const Scalar& value) {
    t.will_write();
    check(!may_overlap_itself(t), overlap_text);
    if (t.numel() == 0) return;
    device::moving(t).copy(t, scalar_tensor(value, t.dtype()));
}

Tensor full(const Dims& shape, const Scalar& value, DType dtype, Device device) {
    Tensor t = empty(shape, dtype, device);
    if (t.numel()) device::moving(t).copy(t, scalar_tensor(value, dtype));
    return t;
}

Tensor reshape(const Tensor& t, const Dims& shape) {
    Dims sizes = infer_shape(shape, t.numel());
    if (auto strides = view_strides(t, sizes)) return view_of(t, sizes, *strides, t.offset());
    return view(contiguous(t), sizes);
}

void check_output(const Tensor& out, bool inplace, const Dims& shape, DType dtype) {
    if (inplace) {
        check(out.shape() == shape, "the in-place target has shape ", out.shape(), " but the result has shape ", shape,
              ": the output shape of an in-place op cannot change by broadcasting");
    }
    if (!inplace && exact_out && dtype != out.dtype())
        fail_type(OutDType{dtype, out.dtype()},
                  dtype == DType::Bool ? "; the op does not support non-boolean outputs" : "");
    if (!can_cast(dtype, out.dtype())) fail_cast(dtype, out.dtype());
    check(!may_overlap_itself(out), overlap_text);
}

// The position of a view in the grid spanned by strides, largest first: its first index and size along each of them,
// and the remainder below the smallest. False if it crosses the end of a line, so that positions are not unique.
static bool place_in_grid(const Tensor& t, const Dims& strides, Dims& first, Dims& sizes, int64_t& rest) {
    rest = t.offset();
    for (int64_t k = 0; k < strides.size(); k++) {
        first.push_back(rest / strides[k]);
        rest %= strides[k];
        int64_t size = 1;
        for (int64_t d = 0; d < t.dim(); d++) {
            if (t.shape()[d] <= 1 || t.strides()[d] != strides[k]) continue;
            if (size > 1) return false;  // two dimensions along one line
            size = t.shape()[d];
        }
        sizes.push_back(size);
        if (k > 0 && (strides[k - 1] % strides[k] || first[k] + size > strides[k - 1] / strides[k])) return false;
    }
    return true;
}

// Whether two views certainly have no element in common, such as disjoint columns of a matrix.
static bool boxes_apart(const Tensor& a, const Tensor& b) {
    if (a.dtype() != b.dtype() || &a.storage() != &b.storage()) return false;
    Dims strides;
    for (const Tensor* t : {&a, &b}) {
        for (int64_t d = 0; d < t->dim(); d++) {
            if (t->shape()[d] <= 1) continue;
            int64_t stride = t->strides()[d], at = 0;
            if (stride <= 0) return false;
            while (at < strides.size() && strides[at] > stride) at++;
            if (at == strides.size() || strides[at] != stride) strides.insert(at, stride);
        }
    }
    Dims first_a, first_b, sizes_a, sizes_b;
    int64_t rest_a, rest_b;
    if (!place_in_grid(a, strides, first_a, sizes_a, rest_a) || !place_in_grid(b, strides, first_b, sizes_b, rest_b))
        return false;
    if (rest_a != rest_b) return true;
    for (int64_t k = 0; k < strides.size(); k++) {
        if (first_a[k] + sizes_a[k] <= first_b[k] || first_b[k] + sizes_b[k] <= first_a[k]) return true;
    }
    return false;
}

// A result of broadcast inputs, some of which are not row-major.
static Tensor broadcast_output(const Dims& shape, DType dtype, Tensors inputs) {
    Device device = common_device(inputs);
    std::vector<Dims> strides;
    for (const Tensor& t : inputs) {
        int64_t first = shape.size() - t.dim();
        if (first < 0) return empty(shape, dtype, device);  // no broadcasting: a reduction, say
        Dims seen(shape.size(), 0);
        for (int64_t d = 0; d < t.dim(); d++) {
            if (t.shape()[d] == shape[first + d]) seen[first + d] = t.strides()[d];
            else if (t.shape()[d] != 1) return empty(shape, dtype, device);
        }
        if (!t.impl()->free_layout) strides.push_back(seen);  // otherwise promised to be row-major
    }
    return empty_strided(shape, dense_strides(shape, strides.data(), strides.size()), dtype, device);
}

Tensor output(Args& a, const Dims& shape, DType dtype, Tensors inputs) {
    if (!a.out) {
        // The first input with the result's shape decides the layout, unless it repeats elements.
        bool all_contiguous = true;
        for (const Tensor& t : inputs) {
            if (t.shape() == shape && (t.is_contiguous() || !t.strides().contains(0))) {
                if (!t.is_contiguous() && (all_contiguous || t.impl()->free_layout)) return empty_like(t, dtype);
                break;
            }
            all_contiguous &= t.is_contiguous();
        }
        if (!all_contiguous) return broadcast_output(shape, dtype, inputs);
        return empty(shape, dtype, common_device(inputs));
    }
    check_output(a.out, a.inplace, shape, dtype);
    for (const Tensor& t : inputs) {
        if (t.is_same(a.out) || !share_memory(a.out, t)) continue;
        if (boxes_apart(a.out, t)) continue;
        bool same_view = same_place(t, a.out) && t.strides() == a.out.strides() && t.dtype() == a.out.dtype() &&
                         t.shape() == a.out.shape();
        check(same_view,
              "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
              "memory location; clone() one of them");
    }
    if (a.out.shape() != shape) {
        for (const Tensor& t : inputs)
            check(!t.is_same(a.out), "unsupported operation: out= is an input of shape ", t.shape(),
                  " but the result has shape ", shape,
                  ", so that it would be resized before it is read; clone() it first");
        resize_output(a.out, shape);
    }
    a.out.will_write();
    return a.out;
}

void store_output(const Tensor& out, bool inplace, const Tensor& result) {
    check_output(out, inplace, result.shape(), result.dtype());
    if (out.shape() != result.shape()) resize_output(out, result.shape());
    copy_into(out, result);
}

// A lower-ranked group (0-d tensors, Python numbers) only counts if its kind is higher.
static DType combine(DType higher, DType lower) {
    if (is_complex(higher)) return higher;
    if (is_floating_point(higher)) return is_complex(lower) ? complex_of(higher) : higher;
    if (higher == DType::Bool || kind(lower) >= Kind::Floating) return promote(higher, lower);
    return higher;
}

template <class Range>
static DType result_type_of(const Range& tensors) {
    std::optional<DType> by_rank[3];  // tensors with dimensions, 0-d tensors, Python numbers
    for (const Tensor& t : tensors) {
        int rank = t.is_wrapped_number() ? 2 : t.dim() == 0 ? 1 : 0;
        DType d = t.dtype();
        if (rank == 2 && is_floating(d)) d = default_dtype();
        if (rank == 2 && is_complex(d)) d = complex_of(default_dtype());
        by_rank[rank] = by_rank[rank] ? promote(*by_rank[rank], d) : d;
    }
    std::optional<DType> result;
    for (int rank = 2; rank >= 0; rank--) {
        if (by_rank[rank]) result = result ? combine(*by_rank[rank], *result) : *by_rank[rank];
    }
    check(result.has_value(), "needs at least one tensor");
    return *result;
}

DType result_type(Tensors tensors) { return result_type_of(tensors); }
DType result_type(const std::vector<Tensor>& tensors) { return result_type_of(tensors); }

}  // namespace fb
