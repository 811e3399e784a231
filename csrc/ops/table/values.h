// Arguments and results of ops in C++.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "base/generator.h"
#include "tensor/tensor.h"

namespace fb {

// A Python object passed through C++; borrowed for the call. Only the bindings access it.
struct Object {
    void* ptr = nullptr;
};

using Value = std::variant<std::monostate, Tensor, std::vector<Tensor>, Scalar, Dims, DType, Device, std::string,
                           Ref<Generator>, Object>;

class Args {
  public:
    static constexpr int max_args = 20;
    // Only the first `count` are constructed: an op has about three arguments, and every call creates one of these.
    union {
        Value values[max_args];
    };
    const int count;

    explicit Args(int n = 0) : count(n) {
        for (int i = 0; i < n; i++) new (&values[i]) Value;
    }
    ~Args() {
        for (int i = 0; i < count; i++) values[i].~Value();
    }
    Args(const Args&) = delete;
    Args& operator=(const Args&) = delete;

    bool given(int i) const { return !std::holds_alternative<std::monostate>(values[i]); }
    const Tensor& tensor(int i) const { return std::get<Tensor>(values[i]); }
    Tensor tensor_or_none(int i) const { return given(i) ? tensor(i) : Tensor(); }
    const std::vector<Tensor>& tensors(int i) const { return std::get<std::vector<Tensor>>(values[i]); }
    const Scalar& scalar(int i) const { return std::get<Scalar>(values[i]); }
    int64_t integer(int i) const { return scalar(i).i; }
    double number(int i) const { return scalar(i).re; }
    bool flag(int i) const { return scalar(i).i != 0; }
    const Dims& dims(int i) const { return std::get<Dims>(values[i]); }
    const std::string& text(int i) const { return std::get<std::string>(values[i]); }
    std::optional<int64_t> integer_or_none(int i) const { return given(i) ? std::optional(integer(i)) : std::nullopt; }
    std::optional<double> number_or_none(int i) const { return given(i) ? std::optional(number(i)) : std::nullopt; }
    std::optional<Scalar> scalar_or_none(int i) const { return given(i) ? std::optional(scalar(i)) : std::nullopt; }
    std::optional<Dims> dims_or_none(int i) const { return given(i) ? std::optional(dims(i)) : std::nullopt; }
    std::optional<DType> dtype_or_none(int i) const {
        return given(i) ? std::optional(std::get<DType>(values[i])) : std::nullopt;
    }
    std::optional<Device> device_or_none(int i) const {
        return given(i) ? std::optional(std::get<Device>(values[i])) : std::nullopt;
    }
    std::optional<std::string> text_or_none(int i) const { return given(i) ? std::optional(text(i)) : std::nullopt; }
    Ref<Generator> generator(int i) const {
        return given(i) ? std::get<Ref<Generator>>(values[i]) : default_generator();
    }

    // Where the caller wants the result (out= or the in-place form). An op that can write there directly takes it
    // through output(); any other result is copied there afterwards, with the same checks.
    Tensor out;
    bool inplace = false;
};

}  // namespace fb
