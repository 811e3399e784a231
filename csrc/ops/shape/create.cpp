// Creation: empty, zeros, ones, full, their _like and new_ forms.
#include "ops/shape/create.h"

#include <atomic>
#include <cstring>
#include <limits>

#include "device/move.h"
#include "tensor/layout.h"

namespace fb {

// ---- memory formats -------------------------------------------------------------------------------------------------

Dims format_strides(const Dims& shape, MemoryFormat format) {
    bool is_3d = format == MemoryFormat::ChannelsLast3d;
    if (!is_3d && format != MemoryFormat::ChannelsLast) return contiguous_strides(shape);
    int64_t want = is_3d ? 5 : 4;
    check(shape.size() == want, "required rank ", want, " tensor to use the ",
          is_3d ? "channels_last_3d" : "channels_last", " format, got shape ", shape);
    return channels_last_strides(shape);
}

bool has_format(const Tensor& t, MemoryFormat format) {
    if (format == MemoryFormat::Preserve) return true;
    if (format == MemoryFormat::Contiguous) return t.is_contiguous();
    int64_t want = format == MemoryFormat::ChannelsLast ? 4 : 5;
    return t.dim() == want && is_channels_last(t);
}

Tensor empty_format(const Dims& shape, DType dtype, Device device, MemoryFormat format) {
    if (format == MemoryFormat::Contiguous || format == MemoryFormat::Preserve) return empty(shape, dtype, device);
    return empty_strided(shape, format_strides(shape, format), dtype, device);
}

Tensor clone(const Tensor& t, MemoryFormat format) {
    if (format == MemoryFormat::Preserve) return clone(t);
    Tensor result = empty_format(t.shape(), t.dtype(), t.device(), format);
    copy_into(result, t);
    return result;
}

Tensor contiguous(const Tensor& t, MemoryFormat format) {
    check(format != MemoryFormat::Preserve,
          "preserve_format has no meaning for contiguous(); use contiguous_format or channels_last");
    if (format == MemoryFormat::Contiguous) return contiguous(t);
    Dims strides = format_strides(t.shape(), format);  // checks the rank
    return has_format(t, format) ? t : clone(t, format);
}

// ---- options --------------------------------------------------------------------------------------------------------

Options options(const Args& a, int first, Device device) {
    if (a.given(first + 1) && a.integer(first + 1) != 0) {
        fail(ErrorKind::NotImplemented,
             "not implemented for sparse types: only the strided layout is available, use layout=strided");
    }
    return {a.dtype_or_none(first), a.device_or_none(first + 2).value_or(device)};
}

DType dtype_or(const Args& a, const Options& o, DType fallback) {
    if (!a.out) return o.dtype.value_or(fallback);
    check(!o.dtype || *o.dtype == a.out.dtype(), "dtype ", o.dtype.value_or(fallback),
          " does not match dtype of out parameter (", a.out.dtype(), ")");
    return a.out.dtype();
}

Tensor int_tensor(const Dims& values, Device device) {
    Tensor t = empty({values.size()}, DType::I64, device);
    if (t.numel()) device::moving(t).write(t, values.begin());
    return t;
}

namespace {

Tensor make(Args& a, const Dims& shape, DType dtype, const Options& o) {
    if (a.out) return output(a, shape, dtype, {});
    return empty(shape, dtype, o.device);
}

// Like fill(), without a loop plan for contiguous tensors: the small tensors of everyday code.
Tensor filled(const Tensor& t, const Scalar& value) {
    if (!t.is_contiguous()) {
        fill(t, value);
        return t;
    }
    alignas(16) char bits[16];
    dispatch_values(t.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        T x = value.to<T>();
        std::memcpy(bits, &x, sizeof(T));
    });
    device::moving(t).fill(t, bits);
    return t;
}

Tensor make_full(Args& a, const Dims& shape, const Scalar& value, DType dtype, const Options& o) {
    return filled(make(a, shape, dtype, o), value);
}

// With deterministic algorithms, uninitialised memory is filled with NaN, True or the largest integer.
std::atomic<bool> shows_unset{false};

void show_unset(const Tensor& t) {
    if (!t.numel()) return;
    DType d = t.dtype();
    uint64_t bits = static_cast<uint64_t>(itemsize(d)) * 8 - info(d).is_signed;
    uint64_t most = bits >= 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
    Scalar mark = kind(d) >= Kind::Floating ? Scalar(std::numeric_limits<double>::quiet_NaN())
                  : d == DType::Bool        ? Scalar(true)
                                            : Scalar(most);
    fill(t, mark);
}

}  // namespace

void unset_from(const Tensor& t, int64_t first) {
    if (!shows_unset.load(std::memory_order_relaxed) || !has_values(t)) [[likely]]
        return;
    int64_t all = static_cast<int64_t>(t.storage().bytes()) / t.itemsize();
    if (all > first) show_unset(make_view(t.storage_ref(), t.dtype(), {all - first}, {1}, first));
}

namespace {

Tensor unset(const Tensor& t) {
    unset_from(t, 0);
    return t;
}

// input, then the five options, then memory_format.
Tensor make_like(const Args& a, int first) {
    const Tensor& t = a.tensor(0);
    Options o = options(a, first, t.device());
    MemoryFormat format = format_or(a, first + 5, MemoryFormat::Preserve);
    DType dtype = o.dtype.value_or(t.dtype());
    if (format != MemoryFormat::Preserve) return empty_format(t.shape(), dtype, o.device, format);
    return empty_like(t, dtype, o.device);
}

Tensor make_new(const Args& a, const Dims& shape, int first) {
    Options o = options(a, first, a.tensor(0).device());
    return empty(shape, o.dtype.value_or(a.tensor(0).dtype()), o.device);
}

}  // namespace

// _show_unset(on): whether empty() and others fill their memory; see flambeau.utils.deterministic.
OP("_show_unset(bool on) -> None", FUNCTION) {
    shows_unset.store(a.flag(0));
    return {};
}

#define FB_LIKE_OPTIONS FB_OPTIONS ", memory_format? memory_format=None"

OP("empty(*int[] size, *, " FB_OPTIONS ", memory_format? memory_format=None) -> Tensor", FUNCTION | OUT,
   R"(A tensor whose elements have not been set.

Args:
    size: the shape, as integers or one sequence.
    dtype: element type; the default dtype if not given.
    layout: only strided.
    device: device of the tensor; the default device if not given.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.
    memory_format: order of the elements in memory.

Example:
    >>> fb.empty(2, 3).shape
    flambeau.Size([2, 3])
)") {
    Options o = options(a, 1);
    DType dtype = dtype_or(a, o, default_dtype());
    MemoryFormat format = format_or(a, 6, MemoryFormat::Contiguous);
    check(format != MemoryFormat::Preserve, "preserve_format needs a tensor to follow; use empty_like");
    if (a.out) {
        // Only the elements of out=, which may be a view of more.
        Tensor t = make(a, a.dims(0), dtype, o);
        if (shows_unset.load(std::memory_order_relaxed) && has_values(t)) show_unset(t);
        return t;
    }
    return unset(empty_format(a.dims(0), dtype, o.device, format));
}

OP("zeros(*int[] size, *, " FB_OPTIONS ") -> Tensor", FUNCTION | OUT, R"(A tensor of zeros.

Args:
    size: the shape, as integers or one sequence.
    dtype: element type; the default dtype if not given.
    layout: only strided.
    device: device of the tensor.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.

Example:
    >>> fb.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
)") {
    Options o = options(a, 1);
    return make_full(a, a.dims(0), Scalar(0), dtype_or(a, o, default_dtype()), o);
}

OP("ones(*int[] size, *, " FB_OPTIONS ") -> Tensor", FUNCTION | OUT, R"(A tensor of ones.

Args:
    size: the shape, as integers or one sequence.
    dtype: element type; the default dtype if not given.
    layout: only strided.
    device: device of the tensor.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.

Example:
    >>> fb.ones(2, 2)
    tensor([[1., 1.],
            [1., 1.]])
)") {
    Options o = options(a, 1);
    return make_full(a, a.dims(0), Scalar(1), dtype_or(a, o, default_dtype()), o);
}

OP("full(int[] size, Scalar fill_value, *, " FB_OPTIONS ") -> Tensor", FUNCTION | OUT,
   R"(A tensor that has one value everywhere.

Args:
    size: the shape.
    fill_value: the value.
    dtype: element type; by default bool, int64 or the default dtype, as the value is.
    layout: only strided.
    device: device of the tensor.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.

Example:
    >>> fb.full((2, 2), 7)
    tensor([[7, 7],
            [7, 7]])
)") {
    Options o = options(a, 2);
    return make_full(a, a.dims(0), a.scalar(1), dtype_or(a, o, dtype_of(a.scalar(1))), o);
}

OP("empty_like(Tensor input, *, " FB_LIKE_OPTIONS ") -> Tensor", FUNCTION,
   R"(A tensor with the shape of another, its elements not set.

Args:
    input: a tensor with the shape, dtype, device and memory order of the result.
    dtype: another element type.
    layout: only strided.
    device: another device.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.
    memory_format: another order of the elements in memory.

Example:
    >>> fb.empty_like(fb.zeros(2, 3)).shape
    flambeau.Size([2, 3])
)") {
    return unset(make_like(a, 1));
}

OP("zeros_like(Tensor input, *, " FB_LIKE_OPTIONS ") -> Tensor", FUNCTION, R"(Zeros with the shape of another tensor.

Args:
    input: a tensor with the shape, dtype, device and memory order of the result.
    dtype: another element type.
    layout: only strided.
    device: another device.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.
    memory_format: another order of the elements in memory.

Example:
    >>> fb.zeros_like(fb.tensor([1, 2]))
    tensor([0, 0])
)") {
    return filled(make_like(a, 1), Scalar(0));
}

OP("ones_like(Tensor input, *, " FB_LIKE_OPTIONS ") -> Tensor", FUNCTION, R"(Ones with the shape of another tensor.

Args:
    input: a tensor with the shape, dtype, device and memory order of the result.
    dtype: another element type.
    layout: only strided.
    device: another device.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.
    memory_format: another order of the elements in memory.

Example:
    >>> fb.ones_like(fb.tensor([1, 2]))
    tensor([1, 1])
)") {
    return filled(make_like(a, 1), Scalar(1));
}

OP("full_like(Tensor input, Scalar fill_value, *, " FB_LIKE_OPTIONS ") -> Tensor", FUNCTION,
   R"(One value everywhere, with the shape of another tensor.

Args:
    input: a tensor with the shape, dtype, device and memory order of the result.
    fill_value: the value.
    dtype: another element type.
    layout: only strided.
    device: another device.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.
    memory_format: another order of the elements in memory.

Example:
    >>> fb.full_like(fb.tensor([1, 2]), 5)
    tensor([5, 5])
)") {
    return filled(make_like(a, 2), a.scalar(1));
}

OP("new_empty(Tensor input, *int[] size, *, " FB_OPTIONS ") -> Tensor", METHOD,
   R"(A tensor with this one's dtype and device, its elements not set.

Args:
    size: the shape.
    dtype: another element type.
    layout: only strided.
    device: another device.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.

Example:
    >>> fb.tensor([1]).new_empty(2, 3).shape
    flambeau.Size([2, 3])
)") {
    return unset(make_new(a, a.dims(1), 2));
}

OP("new_zeros(Tensor input, *int[] size, *, " FB_OPTIONS ") -> Tensor", METHOD,
   R"(Zeros with this tensor's dtype and device.

Args:
    size: the shape.
    dtype: another element type.
    layout: only strided.
    device: another device.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.

Example:
    >>> fb.tensor([1]).new_zeros(3)
    tensor([0, 0, 0])
)") {
    return filled(make_new(a, a.dims(1), 2), Scalar(0));
}

OP("new_ones(Tensor input, *int[] size, *, " FB_OPTIONS ") -> Tensor", METHOD,
   R"(Ones with this tensor's dtype and device.

Args:
    size: the shape.
    dtype: another element type.
    layout: only strided.
    device: another device.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.

Example:
    >>> fb.tensor([1]).new_ones(3)
    tensor([1, 1, 1])
)") {
    return filled(make_new(a, a.dims(1), 2), Scalar(1));
}

OP("new_full(Tensor input, int[] size, Scalar fill_value, *, " FB_OPTIONS ") -> Tensor", METHOD,
   R"(One value everywhere, with this tensor's dtype and device.

Args:
    size: the shape.
    fill_value: the value.
    dtype: another element type.
    layout: only strided.
    device: another device.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.

Example:
    >>> fb.tensor([1.0]).new_full((2,), 3)
    tensor([3., 3.])
)") {
    return filled(make_new(a, a.dims(1), 3), a.scalar(2));
}

OP("new_empty_strided(Tensor input, int[] size, int[] stride, " FB_OPTIONS ") -> Tensor", METHOD,
   R"(An uninitialized tensor with given strides and this tensor's dtype and device.

Args:
    size: the shape.
    stride: elements between neighbours, per dimension.
    dtype: another element type.
    layout: only strided.
    device: another device.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.

Example:
    >>> fb.tensor([1.0]).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
)") {
    Options o = options(a, 3, a.tensor(0).device());
    return unset(empty_strided(a.dims(1), a.dims(2), o.dtype.value_or(a.tensor(0).dtype()), o.device));
}

OP("empty_strided(int[] size, int[] stride, *, " FB_OPTIONS ") -> Tensor", FUNCTION,
   R"(An uninitialized tensor with given strides.

Args:
    size: the shape.
    stride: elements between neighbours, per dimension.
    dtype: element type; the default dtype if not given.
    layout: only strided.
    device: device of the tensor.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.

Example:
    >>> fb.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
)") {
    Options o = options(a, 2);
    return unset(empty_strided(a.dims(0), a.dims(1), o.dtype.value_or(default_dtype()), o.device));
}

OP("empty_permuted(int[] size, int[] physical_layout, *, " FB_OPTIONS ") -> Tensor", FUNCTION,
   R"(An uninitialized dense tensor with its dimensions in a given order in memory.

Args:
    size: the shape.
    physical_layout: the dimensions from the slowest to the fastest in memory.
    dtype: element type; the default dtype if not given.
    layout: only strided.
    device: device of the tensor.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.

Example:
    >>> fb.empty_permuted((2, 3, 5), (0, 2, 1)).stride()
    (15, 1, 3)
)") {
    Options o = options(a, 2);
    int64_t n = a.dims(0).size();
    check(a.dims(1).size() == n, "Number of dimensions in size does not match the length of the physical_layout: got ",
          a.dims(0), " and ", a.dims(1));
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) check(a.dims(1)[i] != a.dims(1)[j], "Duplicate dim not allowed: ", a.dims(1));
    }
    Dims order = wrap_dims(a.dims(1), n), shape, back(n, 0);
    for (int64_t i = 0; i < n; i++) {
        shape.push_back(a.dims(0)[order[i]]);
        back[order[i]] = i;
    }
    return permute(unset(empty(shape, o.dtype.value_or(default_dtype()), o.device)), back);
}

OP("scalar_tensor(Scalar s, *, " FB_OPTIONS ") -> Tensor", FUNCTION, R"(A 0-d tensor of one number.

Args:
    s: the number.
    dtype: element type; the default dtype if not given.
    layout: only strided.
    device: device of the tensor.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.

Example:
    >>> fb.scalar_tensor(3)
    tensor(3.)
)") {
    Options o = options(a, 1);
    DType dtype = o.dtype.value_or(a.scalar(0).kind == Kind::Complex ? dtype_of(a.scalar(0)) : default_dtype());
    return to_device(scalar_tensor(a.scalar(0), dtype), o.device);
}

}  // namespace fb
