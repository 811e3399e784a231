// Intrusive reference counting: the object is destroyed, and its memory freed, when the last Ref goes.
#pragma once
#include <atomic>
#include <cstdint>
#include <utility>

namespace fb {

class RefCounted {
  public:
    RefCounted() = default;
    RefCounted(const RefCounted&) = delete;
    RefCounted& operator=(const RefCounted&) = delete;
    virtual ~RefCounted() = default;
    void retain() const { count_.fetch_add(1, std::memory_order_relaxed); }
    // The only reference can be dropped without an atomic subtraction: no other thread can copy it. Classes that are
    // also found through plain pointers (try_retain) define their own release(), with drop() alone.
    void release() const {
        if (count_.load(std::memory_order_acquire) == 1 || drop()) delete this;
    }
    // The first reference, taken by make_ref: no other thread knows the object yet.
    void start() const { count_.store(1, std::memory_order_relaxed); }
    // For holders of a plain pointer: false if the object is already being destroyed.
    bool try_retain() const {
        int64_t n = count_.load(std::memory_order_relaxed);
        while (n > 0 && !count_.compare_exchange_weak(n, n + 1, std::memory_order_acq_rel)) {
        }
        return n > 0;
    }
    int64_t use_count() const { return count_.load(std::memory_order_relaxed); }

  protected:
    // True when this was the last reference.
    bool drop() const { return count_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

  private:
    mutable std::atomic<int64_t> count_{0};
};

template <class T>
class Ref {
  public:
    Ref() = default;
    Ref(std::nullptr_t) {}
    explicit Ref(T* p) : p_(p) {
        if (p_) p_->retain();
    }
    Ref(const Ref& other) : Ref(other.p_) {}
    Ref(Ref&& other) noexcept : p_(std::exchange(other.p_, nullptr)) {}
    Ref& operator=(Ref other) noexcept {
        std::swap(p_, other.p_);
        return *this;
    }
    ~Ref() {
        if (p_) p_->release();
    }
    T* get() const { return p_; }
    T* operator->() const { return p_; }
    T& operator*() const { return *p_; }
    explicit operator bool() const { return p_; }
    bool operator==(const Ref& other) const { return p_ == other.p_; }
    // Takes over a reference that was retained already.
    static Ref adopt(T* p) {
        Ref ref;
        ref.p_ = p;
        return ref;
    }
    // Gives up ownership without releasing.
    T* detach() { return std::exchange(p_, nullptr); }

  private:
    T* p_ = nullptr;
};

template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {
    T* made = new T(std::forward<Args>(args)...);
    made->start();
    return Ref<T>::adopt(made);
}

}  // namespace fb
