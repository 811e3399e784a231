// Small: a vector whose first N elements live inside the object.
#pragma once
#include <cstddef>
#include <new>
#include <utility>

namespace fb {

template <class T, size_t N>
class Small {
  public:
    Small() = default;
    explicit Small(size_t n) { resize(n); }
    Small(Small&& other) noexcept { take(other); }
    Small& operator=(Small&& other) noexcept {
        if (this != &other) {
            clear();
            take(other);
        }
        return *this;
    }
    Small(const Small& other) {
        for (const T& x : other) push_back(x);
    }
    Small& operator=(const Small& other) {
        if (this != &other) {
            clear();
            for (const T& x : other) push_back(x);
        }
        return *this;
    }
    ~Small() { clear(); }

    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T* begin() { return data_; }
    T* end() { return data_ + size_; }
    const T* begin() const { return data_; }
    const T* end() const { return data_ + size_; }
    T& operator[](size_t i) { return data_[i]; }
    const T& operator[](size_t i) const { return data_[i]; }
    T& back() { return data_[size_ - 1]; }

    void push_back(T value) {
        grow(size_ + 1);
        new (data_ + size_) T(std::move(value));
        size_++;
    }
    void resize(size_t n) {
        grow(n);
        for (; size_ < n; size_++) new (data_ + size_) T();
        while (size_ > n) data_[--size_].~T();
    }
    void clear() {
        while (size_ > 0) data_[--size_].~T();
        if (data_ != room()) ::operator delete(data_);
        data_ = room();
        capacity_ = N;
    }

  private:
    T* room() { return reinterpret_cast<T*>(inline_); }
    void grow(size_t n) {
        if (n <= capacity_) return;
        size_t capacity = n > capacity_ * 2 ? n : capacity_ * 2;
        T* data = static_cast<T*>(::operator new(capacity * sizeof(T)));
        for (size_t i = 0; i < size_; i++) {
            new (data + i) T(std::move(data_[i]));
            data_[i].~T();
        }
        if (data_ != room()) ::operator delete(data_);
        data_ = data;
        capacity_ = capacity;
    }
    void take(Small& other) {
        if (other.data_ != other.room()) {
            data_ = std::exchange(other.data_, other.room());
            size_ = std::exchange(other.size_, 0);
            capacity_ = std::exchange(other.capacity_, N);
            return;
        }
        for (T& x : other) push_back(std::move(x));
        other.clear();
    }

    T* data_ = room();
    size_t size_ = 0;
    size_t capacity_ = N;
    alignas(T) char inline_[N * sizeof(T)];
};

}  // namespace fb
