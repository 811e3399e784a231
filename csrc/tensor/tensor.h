// Tensor: a reference-counted handle on shape, strides and dtype over a reference-counted storage. Knows neither
// autograd nor ops.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/device.h"
#include "base/dtype.h"
#include "base/location.h"
#include "base/refcount.h"
#include "base/shape.h"

namespace fb {

struct Block;

// Bytes with an owner. The version counter lives here so that views share it.
class Storage final : public RefCounted {
  public:
    // From the device's caching allocator. On the meta device the addresses have no memory behind them.
    Storage(size_t bytes, Device device);
    // One number stored inside the object itself: Python scalars passed to an op.
    struct OneNumber {};
    explicit Storage(OneNumber) : data_(number_), bytes_(sizeof number_) {}
    // Memory owned by others; `release` runs when the storage is destroyed.
    Storage(void* data, size_t bytes, Device device, std::function<void()> release, bool read_only = false);
    ~Storage() override;

    void* data() const { return data_; }
    size_t bytes() const { return bytes_; }
    Device device() const { return device_; }
    bool read_only() const { return read_only_; }
    bool resizable() const { return (block_ != nullptr && !lent()) || bytes_ == 0 || device_.type == DeviceType::Meta; }
    // Another library has a pointer to this memory: it must not move until every loan is returned.
    void lend() { loans_.fetch_add(1, std::memory_order_relaxed); }
    void give_back() { loans_.fetch_sub(1, std::memory_order_relaxed); }
    bool lent() const { return loans_.load(std::memory_order_relaxed) != 0; }
    uint64_t version() const { return version_.load(std::memory_order_relaxed); }
    // Counts a write, by the op and line running on this thread.
    void bump();
    void take_version(const Storage& other) {
        version_ = other.version();
        writer_.store(other.last_writer(), std::memory_order_relaxed);
        written_at_.store(other.last_write(), std::memory_order_relaxed);
    }
    const char* last_writer() const { return writer_.load(std::memory_order_relaxed); }
    Location last_write() const { return written_at_.load(std::memory_order_relaxed); }
    // Moves the bytes to `data`, and with them all views; `release` runs when the storage is destroyed. If another
    // library has a pointer to the old bytes, they stay as long as the storage.
    void move_to(void* data, std::function<void()> release);
    // Grows to at least `bytes`, keeping the contents; only for memory we own. Must be called in exclusively().
    void grow(size_t bytes);

  private:
    void* data_ = nullptr;
    size_t bytes_ = 0;
    Device device_;
    bool read_only_ = false;
    std::atomic<int64_t> loans_{0};
    std::atomic<uint64_t> version_{0};
    std::atomic<const char*> writer_{nullptr};
    std::atomic<Location> written_at_{Location{}};
    Block* block_ = nullptr;
    std::unique_ptr<std::function<void()>> release_;
    alignas(16) char number_[16];
};

// Defined by the autograd layer; the tensor only carries and destroys it.
struct AutogradMeta {
    virtual ~AutogradMeta() = default;
};
// A pointer that is set once, by whichever thread is first.
class AutogradSlot {
  public:
    AutogradSlot() = default;
    ~AutogradSlot() { delete get(); }
    AutogradSlot(const AutogradSlot&) = delete;
    AutogradSlot& operator=(const AutogradSlot&) = delete;
    AutogradMeta* get() const { return meta_.load(std::memory_order_acquire); }
    explicit operator bool() const { return get(); }
    void set(std::unique_ptr<AutogradMeta> meta) {
        AutogradMeta* none = nullptr;
        if (meta_.compare_exchange_strong(none, meta.get(), std::memory_order_acq_rel)) meta.release();
    }

  private:
    std::atomic<AutogradMeta*> meta_{nullptr};
};

// Whether a tensor's layout is free (Note [Layout freedom]), and how many threads rely on the current one.
class LayoutFreedom {
  public:
    operator bool() const { return word_.load(std::memory_order_acquire) != 0; }
    // For tensors that no other thread can see yet.
    LayoutFreedom& operator=(bool on) {
        word_.store(on ? free_bit : 0, std::memory_order_release);
        return *this;
    }
    LayoutFreedom& operator=(const LayoutFreedom& other) { return *this = static_cast<bool>(other); }
    // Fixes the layout until unpin(); false if it is not free, and so cannot change anyway.
    bool pin();
    void unpin();
    // Waits until no thread relies on the layout; false if another thread settled it meanwhile.
    bool begin_change();
    void end_change(bool settled) { word_.store(settled ? 0 : free_bit, std::memory_order_release); }

  private:
    // Pins are in the low half, above them the fork generation they belong to: those of a parent's threads do not
    // count.
    static constexpr uint32_t free_bit = uint32_t(1) << 31, changing_bit = uint32_t(1) << 30, pin_bits = 0xffff;
    static uint32_t generation();
    static uint32_t current(uint32_t word);
    std::atomic<uint32_t> word_{0};
};

struct TensorImpl final : public RefCounted {
    Ref<Storage> storage;
    int64_t offset = 0;  // in elements
    Dims shape, strides;
    int64_t numel = 0;
    DType dtype = DType::F32;
    bool contiguous = true;
    bool wrapped_number = false;  // a Python scalar: does not promote tensors of its kind
    // The strides have not been read yet, and are not the row-major ones promised to the user: see settle().
    LayoutFreedom free_layout;
    bool untracked = false;                 // `.data` and its views: writes do not count as a new version
    bool plain_view = false;                // a view created while nothing was recorded: not part of the base's history
    bool inference = false;                 // created in inference mode
    bool functorial = false;                // its Python object's class handles op calls (flambeau.func)
    Ref<TensorImpl> base;                   // the tensor this one is a view of (itself never a view)
    std::atomic<uint64_t> version_seen{0};  // of a view: the storage version its history belongs to
    AutogradSlot autograd;
    // The Python object of this tensor, if there is one. Usually it owns this; an object with its own state (a
    // subclass, attributes) that only the core still needs is owned by this instead.
    void* pyobj = nullptr;
    bool owns_pyobj = false;
    ~TensorImpl() override {
        if (owns_pyobj) release_object(pyobj);
    }
    static void (*release_object)(void* pyobj);  // set by the bindings
};

class Tensor {
  public:
    Tensor() = default;
    explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}

    bool defined() const { return static_cast<bool>(impl_); }
    explicit operator bool() const { return defined(); }
    TensorImpl* impl() const { return impl_.get(); }
    bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

    const Dims& shape() const { return impl_->shape; }
    const Dims& strides() const { return impl_->strides; }  // in elements, signed
    int64_t dim() const { return impl_->shape.size(); }
    int64_t size(int64_t d) const { return impl_->shape[wrap_dim(d, dim())]; }  // wraps and checks; 0-d has no size
    int64_t stride(int64_t d) const { return impl_->strides[wrap_dim(d, dim())]; }
    int64_t numel() const { return impl_->numel; }
    DType dtype() const { return impl_->dtype; }
    int itemsize() const { return fb::itemsize(impl_->dtype); }
    Device device() const { return impl_->storage->device(); }
    int64_t offset() const { return impl_->offset; }
    Storage& storage() const { return *impl_->storage; }
    const Ref<Storage>& storage_ref() const { return impl_->storage; }
    bool is_contiguous() const { return impl_->contiguous; }
    bool is_wrapped_number() const { return impl_->wrapped_number; }

    // Address of element [0, …, 0].
    char* raw() const { return static_cast<char*>(impl_->storage->data()) + impl_->offset * itemsize(); }
    template <class T>
    T* data() const {
        return reinterpret_cast<T*>(raw());
    }
    // Must be called before writing: rejects read-only memory, increments the version.
    void will_write() const;

  private:
    Ref<TensorImpl> impl_;
};

// Tensors passed to a function for the duration of the call; not refcounted. f({x, y})
class Borrowed {
  public:
    Borrowed(const Tensor& t) : tensor_(&t) {}
    operator const Tensor&() const { return *tensor_; }
    const Tensor* operator->() const { return tensor_; }

  private:
    const Tensor* tensor_;
};
using Tensors = std::initializer_list<Borrowed>;

// Set by the first storage on another device than the CPU: before that, device checks can be skipped.
inline std::atomic<bool> other_devices{false};

// ---- factory --------------------------------------------------------------------------------------------------------

// Uninitialised, row-major.
Tensor empty(const Dims& shape, DType dtype, Device device);
// Uninitialised with given strides (≥ 0); storage just large enough.
Tensor empty_strided(const Dims& shape, const Dims& strides, DType dtype, Device device);
// Note [Layout freedom]: convolutions are fastest channels-last, while their callers expect row-major strides. A result
// may be kept channels-last as long as no one reads its strides (free_layout); ops that keep their input's layout pass
// the freedom on. Code about to read strides or memory, or to create a view, settles the tensor first: its elements
// move into row-major order, in new memory. A tensor with free layout is the only owner of its storage.
// Several threads may do so at once: an op that accepts free layouts pins them while it runs, and settling waits for
// the others' pins. A settled tensor never becomes free again, so all other code needs no lock.
void settle(const Tensor& t);
// Pins free layouts for its lifetime. A thread that settles a tensor it has pinned itself gives up that pin.
class LayoutPins {
  public:
    LayoutPins() = default;
    ~LayoutPins() {
        if (!pinned_.empty()) [[unlikely]]
            release();
    }
    LayoutPins(const LayoutPins&) = delete;
    LayoutPins& operator=(const LayoutPins&) = delete;
    void add(const Tensor& t) {
        if (t.impl()->free_layout) [[unlikely]]
            pin(t.impl());
    }

  private:
    friend void settle(const Tensor& t);
    void pin(TensorImpl* impl);
    void release();
    static void give_up(TensorImpl* impl);
    std::vector<TensorImpl*> pinned_;
    LayoutPins* outer_ = nullptr;
};
// Gives `t` the memory, shape, strides, offset and dtype of `like`, while no thread reads it (Note [Changing tensors in
// place]).
void replace_contents(const Tensor& t, const Tensor& like);
// Copies elements, also from one device to another; set by the ops.
extern void (*copy_elements)(const Tensor& to, const Tensor& from);
// A new tensor over existing storage. Checks that every element is inside the storage.
Tensor make_view(const Ref<Storage>& storage, DType dtype, const Dims& shape, const Dims& strides, int64_t offset);
// A view of `base` that may reinterpret its bytes as another dtype. Same check.
Tensor reinterpret_view(const Tensor& base, DType dtype, const Dims& shape, const Dims& strides, int64_t offset);
// A view of `base` with other shape/strides/offset.
Tensor view_of(const Tensor& base, const Dims& shape, const Dims& strides, int64_t offset);
// Gives `t` new memory of this shape unless it already has the shape: PyTorch's resizing of out=.
void resize_output(const Tensor& t, const Dims& shape);

struct Scalar {
    Kind kind = Kind::Integral;
    int64_t i = 0;   // bool and integers (uint64 beyond int64 sets `u`)
    bool u = false;  // `i` holds the bits of a uint64
    double re = 0, im = 0;
    Scalar() = default;
    Scalar(bool v) : kind(Kind::Bool), i(v), re(v) {}
    Scalar(int v) : Scalar(int64_t(v)) {}
    Scalar(int64_t v) : kind(Kind::Integral), i(v), re(static_cast<double>(v)) {}
    Scalar(uint64_t v) : kind(Kind::Integral), i(static_cast<int64_t>(v)), u(v >> 63), re(static_cast<double>(v)) {}
    Scalar(double v) : kind(Kind::Floating), re(v) {}
    Scalar(c128 v) : kind(Kind::Complex), re(v.real()), im(v.imag()) {}
    bool is_integral() const { return kind <= Kind::Integral; }
    template <class T>
    T to() const {
        if (is_integral()) return u ? convert<T>(static_cast<uint64_t>(i)) : convert<T>(i);
        if constexpr (is_complex_type<T>) return T(typename T::value_type(re), typename T::value_type(im));
        else if constexpr (std::is_same_v<T, bool>) return re != 0 || im != 0;
        else return convert<T>(re);
    }
};

// dtype a Python scalar has on its own: bool, int64, default dtype, its complex counterpart.
DType dtype_of(const Scalar& value);
// 0-d tensor on the CPU, where all ops accept numbers; `wrapped` marks it as a Python number for promotion.
Tensor scalar_tensor(const Scalar& value, DType dtype, bool wrapped = false);
// To be called before reading elements: batched tensors (inside vmap) and meta tensors have none to read.
void check_readable(const Tensor& t);
inline bool has_values(const Tensor& t) { return t.device().type != DeviceType::Meta; }
// The value of a one-element tensor.
Scalar item(const Tensor& t);

// ---- views (no copy) ------------------------------------------------------------------------------------------------

bool is_dense(const Tensor& t);  // non-overlapping and without holes, in some dimension order
bool may_overlap_itself(const Tensor& t);
// Whether the byte ranges [first, last) of two tensors overlap.
bool share_memory(const Tensor& a, const Tensor& b);

Tensor expand(const Tensor& t, const Dims& shape);  // error names the clashing dimension
Tensor transpose(const Tensor& t, int64_t a, int64_t b);
Tensor permute(const Tensor& t, const Dims& order);
Tensor unsqueeze(const Tensor& t, int64_t dim);
Tensor squeeze(const Tensor& t, int64_t dim);  // no-op when the size is not 1
Tensor select(const Tensor& t, int64_t dim, int64_t index);
// start/stop/step as in Python after clamping; step may be negative but not zero.
Tensor slice(const Tensor& t, int64_t dim, int64_t start, int64_t stop, int64_t step = 1);
Tensor narrow(const Tensor& t, int64_t dim, int64_t start, int64_t length);
Tensor flip_view(const Tensor& t, int64_t dim);
Tensor alias(const Tensor& t);  // same everything, new handle
// Strides with which `t` has `shape` without a copy, or nothing.
std::optional<Dims> view_strides(const Tensor& t, const Dims& shape);
// Replaces a single -1 and checks the element count.
Dims infer_shape(const Dims& shape, int64_t numel);
Tensor view(const Tensor& t, const Dims& shape);  // raises an error if a copy would be needed
// Row-major strides, or those of `t` when it is dense in another order (PyTorch's preserve_format).
Tensor empty_like(const Tensor& t, DType dtype);
Tensor empty_like(const Tensor& t, DType dtype, Device device);

}  // namespace fb
