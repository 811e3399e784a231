#include "tensor/tensor.h"

#include <cstring>

#include "base/bool.h"
#include "base/exclusive.h"
#include "base/profile.h"
#include "base/wording.h"
#include "memory/allocator.h"
#include "tensor/layout.h"

namespace fb {

void (*TensorImpl::release_object)(void*) = nullptr;

// ---- storage --------------------------------------------------------------------------------------------------------

static const DeviceMemory& memory_of(Device device) {
    const DeviceMemory* memory = device_memories[static_cast<size_t>(device.type)];
    if (!memory) fail_state("device '", to_string(device), "' has no backend in this build; use device='cpu'");
    return *memory;
}
static CachingAllocator& allocator_of(Device device) {
    return device.type == DeviceType::CPU ? host_allocator() : memory_of(device).allocator(device.index);
}
static Block* allocate(Device device, size_t bytes) {
    Block* block =
        allocator_of(device).allocate(bytes, device.type == DeviceType::CPU ? 0 : memory_of(device).stream());
    if (profiling.load(std::memory_order_relaxed)) [[unlikely]]
        record_memory(device, block->data, static_cast<int64_t>(bytes), allocator_of(device).stats().allocated);
    return block;
}
static void free(Device device, Block* block) {
    if (profiling.load(std::memory_order_relaxed)) [[unlikely]] {
        auto bytes = static_cast<int64_t>(block->requested);
        record_memory(device, block->data, -bytes, allocator_of(device).stats().allocated - bytes);
    }
    if (device.type == DeviceType::CPU) [[likely]]
        host_allocator().free(block);
    else memory_of(device).free(device.index, block);
}

// Addresses that no memory can have. They distinguish tensors of the meta device, so that views and overlaps are found
// as on every device, and reading one of them faults.
static void* meta_address(size_t bytes) {
    static std::atomic<uintptr_t> next{0};
    constexpr uintptr_t first = uintptr_t(1) << 60, range = first - 1;
    return reinterpret_cast<void*>(first + (next.fetch_add((bytes + 63) & ~size_t(63)) & range));
}

Storage::Storage(size_t bytes, Device device) : bytes_(bytes), device_(canonical(device)) {
    if (device_.type != DeviceType::CPU) [[unlikely]]
        other_devices.store(true, std::memory_order_relaxed);
    if (device_.type == DeviceType::Meta) [[unlikely]] {
        data_ = meta_address(bytes);
        return;
    }
    if (bytes == 0) {
        // raises an error if the device does not exist
        if (device_.type != DeviceType::CPU) memory_of(device_).allocator(device_.index);
        return;
    }
    block_ = allocate(device_, bytes);
    data_ = block_->data;
}

Storage::Storage(void* data, size_t bytes, Device device, std::function<void()> release, bool read_only)
    : data_(data), bytes_(bytes), device_(canonical(device)), read_only_(read_only) {
    if (release) release_ = std::make_unique<std::function<void()>>(std::move(release));
}

Storage::~Storage() {
    if (block_) free(device_, block_);
    if (release_) (*release_)();
}

// Copies within one device.
static void copy_bytes(Device device, void* to, const void* from, size_t bytes) {
    if (device.type == DeviceType::CPU) std::memcpy(to, from, bytes);
    else memory_of(device).copy(to, from, bytes);
}

void Storage::grow(size_t bytes) {
    if (bytes <= bytes_) return;
    check(resizable(),
          "this tensor's memory is shared with another library (NumPy, DLPack, a memoryview) and cannot be resized; "
          "resize a clone() instead");
    if (device_.type == DeviceType::Meta) {
        data_ = meta_address(bytes);
        bytes_ = bytes;
        return;
    }
    Block* block = allocate(device_, bytes);
    if (bytes_) copy_bytes(device_, block->data, data_, bytes_);
    if (block_) free(device_, block_);
    block_ = block;
    data_ = block->data;
    bytes_ = bytes;
}

void Storage::move_to(void* data, std::function<void()> release) {
    check(device_.type == DeviceType::CPU, "only memory of the CPU can be shared, this is on ", to_string(device_));
    Block* block = nullptr;
    std::shared_ptr<std::function<void()>> foreign;
    auto let_go = [](Block* block, const std::shared_ptr<std::function<void()>>& foreign) {
        if (block) host_allocator().free(block);
        if (foreign) (*foreign)();
    };
    auto now = std::make_unique<std::function<void()>>(std::move(release));
    bool was_lent = false;
    exclusively([&] {
        if (bytes_) std::memcpy(data, data_, bytes_);
        block = std::exchange(block_, nullptr);
        foreign = std::move(release_);
        data_ = data;
        was_lent = lent();
        if (was_lent)
            release_ = std::make_unique<std::function<void()>>([let_go, block, foreign, now = std::move(*now)] {
                let_go(block, foreign);
                now();
            });
        else release_ = std::move(now);
    });
    if (!was_lent) let_go(block, foreign);
}

void Tensor::will_write() const {
    if (storage().read_only()) {
        fail_value(
            "this tensor is read-only (it came from a read-only NumPy array or DLPack capsule); write to a clone() "
            "instead");
    }
    if (!impl_->untracked) storage().bump();
}

void Storage::bump() {
    version_.fetch_add(1, std::memory_order_relaxed);
    writer_.store(current_op, std::memory_order_relaxed);
    written_at_.store(current_location, std::memory_order_relaxed);
}

// ---- factory --------------------------------------------------------------------------------------------------------

static bool compute_contiguous(const TensorImpl& t) {
    if (t.numel == 0) return true;
    int64_t step = 1;
    for (int64_t i = t.shape.size() - 1; i >= 0; i--) {
        if (t.shape[i] == 1) continue;
        if (t.strides[i] != step) return false;
        step *= t.shape[i];
    }
    return true;
}

Tensor empty(const Dims& shape, DType dtype, Device device) {
    auto impl = make_ref<TensorImpl>();
    impl->numel = checked_numel(shape);
    impl->dtype = dtype;
    impl->shape = shape;
    impl->strides = contiguous_strides(shape);
    impl->storage = make_ref<Storage>(static_cast<size_t>(impl->numel) * static_cast<size_t>(itemsize(dtype)), device);
    return Tensor(std::move(impl));
}

// First and last element touched, relative to the offset.
static void extent(const Dims& shape, const Dims& strides, int64_t& low, int64_t& high) {
    low = high = 0;
    for (int64_t i = 0; i < shape.size(); i++) {
        if (shape[i] == 0) continue;
        int64_t reach =
            checked_mul(shape[i] - 1, strides[i], "Storage size calculation overflowed: the extent of the strides");
        if (__builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
            fail_value("strides ", strides, " overflow");
    }
}

Tensor empty_strided(const Dims& shape, const Dims& strides, DType dtype, Device device) {
    int64_t numel = checked_numel(shape);
    check(shape.size() == strides.size(), "mismatch in length of strides and shape: dimensionality of sizes (",
          shape.size(), ") must match dimensionality of strides (", strides.size(), ")");
    for (int64_t s : strides) check(s >= 0, "strides must not be negative for new memory, got ", strides);
    int64_t low, high = 0, elements = 0;
    if (numel) {
        extent(shape, strides, low, high);
        check(high < (int64_t(1) << 59), "shape ", shape, " with strides ", strides, " needs too much memory");
        elements = high + 1;
    }
    auto storage = make_ref<Storage>(static_cast<size_t>(elements) * static_cast<size_t>(itemsize(dtype)), device);
    return make_view(storage, dtype, shape, strides, 0);
}

Tensor make_view(const Ref<Storage>& storage, DType dtype, const Dims& shape, const Dims& strides, int64_t offset) {
    auto impl = make_ref<TensorImpl>();
    impl->numel = checked_numel(shape);
    check(shape.size() == strides.size(), "mismatch in length of strides and shape: dimensionality of sizes (",
          shape.size(), ") must match dimensionality of strides (", strides.size(), ")");
    check(offset >= 0, "storage offset must not be negative, got ", offset);
    if (impl->numel > 0) {
        int64_t low, high, last;
        extent(shape, strides, low, high);
        int64_t limit = static_cast<int64_t>(storage->bytes() / static_cast<size_t>(itemsize(dtype)));
        if (__builtin_add_overflow(offset, high, &last) || last >= limit || offset + low < 0) {
            fail_value("setStorage: sizes ", Bracketed{shape}, ", strides ", Bracketed{strides}, ", storage offset ",
                       offset, ", and itemsize ", itemsize(dtype), " requiring a storage size of ",
                       (static_cast<__int128>(offset) + high + 1) * itemsize(dtype) > INT64_MAX
                           ? INT64_MAX
                           : (offset + high + 1) * itemsize(dtype),
                       " are out of bounds for storage of size ", storage->bytes(), ", which has ", limit, " elements");
        }
    }
    // Nothing is ever read at the offset of a tensor without elements; keep it small so that later sums cannot
    // overflow.
    if (impl->numel == 0) offset = std::min(offset, int64_t(1) << 40);
    impl->storage = storage;
    impl->offset = offset;
    impl->shape = shape;
    impl->strides = strides;
    impl->dtype = dtype;
    impl->contiguous = compute_contiguous(*impl);
    return Tensor(std::move(impl));
}

void (*copy_elements)(const Tensor& to, const Tensor& from) = nullptr;

uint32_t LayoutFreedom::generation() { return (fork_generation.load(std::memory_order_relaxed) & 0x3fff) << 16; }
// The word without the pins of a parent process's threads.
uint32_t LayoutFreedom::current(uint32_t word) {
    bool stale = (word & (changing_bit | pin_bits)) && (word & (0x3fffu << 16)) != generation();
    return stale ? free_bit : word;
}

bool LayoutFreedom::pin() {
    Backoff backoff;
    uint32_t word = word_.load(std::memory_order_acquire);
    while (word) {
        uint32_t now = current(word);
        if (now & changing_bit) {
            backoff.pause();
            word = word_.load(std::memory_order_acquire);
            continue;
        }
        uint32_t pins = (now & pin_bits) + 1;
        if (word_.compare_exchange_weak(word, free_bit | generation() | pins, std::memory_order_acquire)) return true;
    }
    return false;
}

void LayoutFreedom::unpin() {
    uint32_t word = word_.load(std::memory_order_relaxed);
    while ((current(word) & pin_bits) && !word_.compare_exchange_weak(word, word - 1, std::memory_order_release)) {
    }
}

bool LayoutFreedom::begin_change() {
    struct Wait {
        LayoutFreedom& self;
        bool begun = false;
        // False while others rely on the layout, or change it.
        bool over() {
            uint32_t word = self.word_.load(std::memory_order_acquire);
            if (!word) return true;
            uint32_t now = current(word);
            if (now & (changing_bit | pin_bits)) return false;
            begun = self.word_.compare_exchange_strong(word, free_bit | changing_bit | generation(),
                                                       std::memory_order_acq_rel);
            return begun;
        }
    } wait{*this};
    Backoff backoff;
    for (int i = 0; i < 64; i++) {
        if (wait.over()) return wait.begun;
        backoff.pause();
    }
    // Threads that pinned the layout may need the interpreter before they finish.
    interpreter.without_lock(
        [](void* context) {
            for (Backoff backoff; !static_cast<Wait*>(context)->over();) backoff.pause();
        },
        &wait);
    return wait.begun;
}

static thread_local LayoutPins* innermost_pins = nullptr;

void LayoutPins::pin(TensorImpl* impl) {
    if (!impl->free_layout.pin()) return;
    if (pinned_.empty()) outer_ = std::exchange(innermost_pins, this);
    pinned_.push_back(impl);
}
void LayoutPins::release() {
    for (TensorImpl* impl : pinned_) {
        if (impl) impl->free_layout.unpin();
    }
    innermost_pins = outer_;
}
void LayoutPins::give_up(TensorImpl* impl) {
    for (LayoutPins* pins = innermost_pins; pins; pins = pins->outer_) {
        for (TensorImpl*& pinned : pins->pinned_) {
            if (pinned != impl) continue;
            impl->free_layout.unpin();
            pinned = nullptr;
        }
    }
}

void settle(const Tensor& t) {
    TensorImpl& impl = *t.impl();
    if (!impl.free_layout) return;
    LayoutPins::give_up(&impl);
    if (!impl.free_layout.begin_change()) return;
    struct End {
        LayoutFreedom& freedom;
        bool settled = false;
        ~End() { freedom.end_change(settled); }
    };
    Ref<Storage> old;  // destroyed after others may continue
    {
        End end{impl.free_layout};
        if (!impl.contiguous) {
            Tensor settled = empty(impl.shape, impl.dtype, t.device());
            copy_elements(settled, t);
            settled.storage().take_version(*impl.storage);
            old = std::exchange(impl.storage, settled.storage_ref());
            impl.offset = 0;
            impl.strides = settled.strides();
            impl.contiguous = true;
        }
        end.settled = true;
    }
}

void replace_contents(const Tensor& t, const Tensor& like) {
    if (t.is_same(like)) return;
    TensorImpl &to = *t.impl(), &from = *like.impl();
    Ref<Storage> old;
    exclusively([&] {
        old = std::exchange(to.storage, from.storage);
        to.offset = from.offset;
        to.shape = from.shape;
        to.strides = from.strides;
        to.numel = from.numel;
        to.dtype = from.dtype;
        to.contiguous = from.contiguous;
    });
}

Tensor reinterpret_view(const Tensor& base, DType dtype, const Dims& shape, const Dims& strides, int64_t offset) {
    Tensor view = make_view(base.storage_ref(), dtype, shape, strides, offset);
    TensorImpl &to = *view.impl(), &from = *base.impl();
    to.base = from.base ? from.base : Ref<TensorImpl>(&from);
    to.untracked = from.untracked;
    to.plain_view = from.plain_view;
    to.inference = from.inference;
    to.version_seen.store(view.storage().version(), std::memory_order_relaxed);
    return view;
}

Tensor view_of(const Tensor& base, const Dims& shape, const Dims& strides, int64_t offset) {
    return reinterpret_view(base, base.dtype(), shape, strides, offset);
}

void resize_output(const Tensor& t, const Dims& shape) {
    if (t.shape() == shape) return;
    int64_t numel = checked_numel(shape);
    TensorImpl& impl = *t.impl();
    exclusively([&] {
        size_t bytes = static_cast<size_t>(numel + impl.offset) * static_cast<size_t>(t.itemsize());
        impl.storage->grow(bytes);
        impl.shape = shape;
        impl.strides = contiguous_strides(shape);
        impl.numel = numel;
        impl.contiguous = true;
    });
}

DType dtype_of(const Scalar& value) {
    switch (value.kind) {
        case Kind::Bool:
            return DType::Bool;
        case Kind::Integral:
            return value.u ? DType::U64 : DType::I64;
        case Kind::Floating:
            return default_dtype();
        default:
            return complex_of(default_dtype());
    }
}

Tensor scalar_tensor(const Scalar& value, DType dtype, bool wrapped) {
    Tensor t;
    if (wrapped) {
        auto impl = make_ref<TensorImpl>();
        impl->numel = 1;
        impl->dtype = dtype;
        impl->storage = make_ref<Storage>(Storage::OneNumber{});
        t = Tensor(std::move(impl));
    } else {
        t = empty({}, dtype, cpu_device);
    }
    dispatch_values(dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        *t.data<T>() = value.to<T>();
    });
    t.impl()->wrapped_number = wrapped;
    return t;
}

void check_readable(const Tensor& t) {
    if (t.device().type == DeviceType::Meta)
        fail_state("this needs values, and a tensor on the meta device has none; make one with to_empty() or load it");
    if (t.impl()->functorial)
        fail_value(
            "this needs the values of one example, but inside vmap a tensor stands for all of them; compute with it "
            "instead of reading it");
}

Scalar item(const Tensor& t) {
    check_readable(t);
    check(t.numel() == 1, "a Tensor with ", t.numel(),
          " elements cannot be converted to Scalar: expected one element, shape is ", t.shape());
    if (t.device().type != DeviceType::CPU) {
        Tensor here = empty({}, t.dtype(), cpu_device);
        copy_elements(here, view_of(t, {}, {}, t.offset()));
        return item(here);
    }
    return dispatch_values(t.dtype(), [&](auto tag) -> Scalar {
        using T = typename decltype(tag)::type;
        T x = *t.data<Stored<T>>();
        if constexpr (std::is_same_v<T, bool>) return Scalar(x);
        else if constexpr (std::is_same_v<T, uint64_t>) return Scalar(x);
        else if constexpr (std::is_integral_v<T>) return Scalar(static_cast<int64_t>(x));
        else if constexpr (is_complex_type<T>) return Scalar(convert<c128>(x));
        else return Scalar(convert<double>(x));
    });
}

Dims channels_last_strides(const Dims& shape) {
    Dims strides(shape.size());
    int64_t step = 1;
    auto place = [&](int64_t d) {
        strides[d] = step;
        step = checked_mul(step, std::max<int64_t>(shape[d], 1), "the number of elements");
    };
    place(1);
    for (int64_t d = shape.size() - 1; d >= 2; d--) place(d);
    place(0);
    return strides;
}

bool is_channels_last(const Tensor& t) {
    Dims strides = channels_last_strides(t.shape());
    for (int64_t d = 0; d < t.dim(); d++) {
        if (t.shape()[d] != 1 && t.strides()[d] != strides[d]) return false;
    }
    return true;
}

Dims dense_strides(const Dims& shape, const Dims* operands, size_t count) {
    int64_t n = shape.size();
    Dims order;
    for (int64_t d = n - 1; d >= 0; d--) order.push_back(d);
    auto faster = [&](int64_t a, int64_t b) {  // 1: a is the faster dimension, -1: b, 0: undecided
        for (const Dims* strides = operands; strides < operands + count; strides++) {
            int64_t s = std::abs((*strides)[a]), t = std::abs((*strides)[b]);
            if (s == 0 || t == 0) continue;
            if (s != t) return s < t ? 1 : -1;
            if (shape[a] > shape[b]) return -1;
        }
        return 0;
    };
    for (int64_t i = 1; i < n; i++) {
        for (int64_t at = i, before = i - 1; before >= 0; before--) {
            int which = faster(order[before], order[at]);
            if (which > 0) break;
            if (which == 0) continue;
            std::swap(order[before], order[at]);
            at = before;
        }
    }
    Dims result(n, 0);
    int64_t step = 1;
    for (int64_t d : order) {
        result[d] = step;
        step *= std::max<int64_t>(shape[d], 1);
    }
    return result;
}

Tensor empty_like(const Tensor& t, DType dtype) { return empty_like(t, dtype, t.device()); }

Tensor empty_like(const Tensor& t, DType dtype, Device device) {
    if (t.is_contiguous()) return empty(t.shape(), dtype, device);
    Dims strides = is_dense(t) ? t.strides() : dense_strides(t.shape(), &t.strides(), 1);
    Tensor result = empty_strided(t.shape(), strides, dtype, device);
    result.impl()->free_layout = t.impl()->free_layout;
    return result;
}

}  // namespace fb
