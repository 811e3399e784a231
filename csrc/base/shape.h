// Dims: a short list of sizes, strides or axes, kept inline up to six entries.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <ostream>
#include <vector>

#include "base/error.h"

namespace fb {

inline constexpr int max_dims = 64;

class Dims {
  public:
    static constexpr int inline_capacity = 6;
    Dims() = default;
    explicit Dims(int64_t n, int64_t value = 0) {
        resize(n);
        std::fill(begin(), end(), value);
    }
    Dims(std::initializer_list<int64_t> values) { assign(values.begin(), values.end()); }
    Dims(const std::vector<int64_t>& values) { assign(values.begin(), values.end()); }
    template <class It>
    Dims(It first, It last) {
        assign(first, last);
    }
    Dims(const Dims& other) { assign(other.begin(), other.end()); }
    Dims(Dims&& other) noexcept { take(other); }
    Dims& operator=(const Dims& other) {
        if (this != &other) assign(other.begin(), other.end());
        return *this;
    }
    Dims& operator=(Dims&& other) noexcept {
        if (this != &other) {
            if (data_ != inline_) delete[] data_;
            take(other);
        }
        return *this;
    }
    ~Dims() {
        if (data_ != inline_) delete[] data_;
    }

    int64_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    int64_t* begin() { return data_; }
    int64_t* end() { return data_ + size_; }
    const int64_t* begin() const { return data_; }
    const int64_t* end() const { return data_ + size_; }
    int64_t& operator[](int64_t i) { return data_[i]; }
    int64_t operator[](int64_t i) const { return data_[i]; }
    int64_t& back() { return data_[size_ - 1]; }
    int64_t back() const { return data_[size_ - 1]; }

    void resize(int64_t n) {
        reserve(n);
        for (int64_t i = size_; i < n; i++) data_[i] = 0;
        size_ = static_cast<int32_t>(n);
    }
    void push_back(int64_t value) {
        reserve(size_ + 1);
        data_[size_++] = value;
    }
    void insert(int64_t at, int64_t value) {
        reserve(size_ + 1);
        for (int64_t i = size_; i > at; i--) data_[i] = data_[i - 1];
        data_[at] = value;
        size_++;
    }
    void erase(int64_t at) {
        for (int64_t i = at; i + 1 < size_; i++) data_[i] = data_[i + 1];
        size_--;
    }
    bool operator==(const Dims& other) const {
        return size_ == other.size_ && std::equal(begin(), end(), other.begin());
    }
    bool contains(int64_t value) const { return std::find(begin(), end(), value) != end(); }

  private:
    template <class It>
    void assign(It first, It last) {
        int64_t n = std::distance(first, last);
        size_ = 0;
        reserve(n);
        std::copy(first, last, data_);
        size_ = static_cast<int32_t>(n);
    }
    void reserve(int64_t n) {
        if (n <= capacity_) return;
        int64_t capacity = std::max<int64_t>(n, capacity_ * 2);
        int64_t* data = new int64_t[capacity];
        std::copy(begin(), end(), data);
        if (data_ != inline_) delete[] data_;
        data_ = data;
        capacity_ = static_cast<int32_t>(capacity);
    }
    void take(Dims& other) noexcept {
        size_ = other.size_;
        if (other.data_ == other.inline_) {
            data_ = inline_;
            capacity_ = inline_capacity;
            std::copy(other.begin(), other.end(), inline_);
        } else {
            data_ = other.data_;
            capacity_ = other.capacity_;
            other.data_ = other.inline_;
            other.capacity_ = inline_capacity;
        }
        other.size_ = 0;
    }

    int64_t* data_ = inline_;
    int32_t size_ = 0;
    int32_t capacity_ = inline_capacity;
    int64_t inline_[inline_capacity];
};

// "(2, 3)", "(4,)", "()".
std::ostream& operator<<(std::ostream& out, const Dims& dims);

// Product with overflow check; negative sizes are an error.
int64_t checked_numel(const Dims& shape);
// a * b; overflow is an error that names `what`.
int64_t checked_mul(int64_t a, int64_t b, const char* what);

// Row-major strides in elements; sizes of zero count as one, as in PyTorch.
Dims contiguous_strides(const Dims& shape);

// Wraps a possibly negative dim; an IndexError names the range. A 0-d tensor accepts -1 and 0.
int64_t wrap_dim(int64_t dim, int64_t ndim);
// Wraps all dims; repeats are an error.
Dims wrap_dims(const Dims& dims, int64_t ndim);

// NumPy broadcasting; the error names both shapes and the clashing dimension.
Dims broadcast_shapes(const Dims& a, const Dims& b);

}  // namespace fb
