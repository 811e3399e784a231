// Var: a tensor in a gradient formula. Every operation on it is an op of the table, recorded if higher-order gradients
// are wanted. It does not convert to Tensor implicitly, so a function that is not differentiable cannot be called by
// mistake.
#pragma once
#include <concepts>
#include <optional>
#include <string>
#include <vector>

#include "ops/table/registry.h"

namespace fb {

class Var {
  public:
    Var() = default;
    Var(const Tensor& t) : tensor(t) {}
    Var(Tensor&& t) : tensor(std::move(t)) {}
    Var(double number);  // a Python number: takes the dtype of the other operand
    Var(int number);
    Var(const Scalar& number);

    bool defined() const { return tensor.defined(); }
    const Dims& shape() const { return tensor.shape(); }
    int64_t size(int64_t d) const { return tensor.size(d); }
    int64_t dim() const { return tensor.dim(); }
    int64_t numel() const { return tensor.numel(); }
    DType dtype() const { return tensor.dtype(); }
    Device device() const { return tensor.device(); }

    Tensor tensor;
};

namespace call_detail {

// An argument passed to an op.
struct Given {
    enum class Kind { Tensor, Tensors, Number, Bool, Dims, Text, DType, Device, None } kind;
    Value value;
    Given(const Var& v)
        : kind(v.defined() ? Kind::Tensor : Kind::None), value(v.defined() ? Value(v.tensor) : Value()) {}
    Given(const std::vector<Var>& list);
    Given(bool b) : kind(Kind::Bool), value(Scalar(b)) {}
    Given(int n) : kind(Kind::Number), value(Scalar(n)) {}
    Given(int64_t n) : kind(Kind::Number), value(Scalar(n)) {}
    Given(double x) : kind(Kind::Number), value(Scalar(x)) {}
    Given(const Scalar& s) : kind(Kind::Number), value(s) {}
    Given(const Dims& d) : kind(Kind::Dims), value(d) {}
    Given(const std::string& s) : kind(Kind::Text), value(s) {}
    Given(const char* s) : kind(Kind::Text), value(std::string(s)) {}
    Given(DType d) : kind(Kind::DType), value(d) {}
    Given(fb::Device d) : kind(Kind::Device), value(d) {}
    Given(std::nullopt_t) : kind(Kind::None) {}
    template <class T>
    Given(const std::optional<T>& o) : Given(o ? Given(*o) : Given(std::nullopt)) {}
};

// The overload that accepts these arguments; raises an internal error if there is none.
const OpOverload& choose(const char* name, const Given* args, size_t count);
Value invoke_given(const OpOverload& op, Given* args, size_t count);

template <size_t N>
struct Name {
    char text[N];
    constexpr Name(const char (&s)[N]) {
        for (size_t i = 0; i < N; i++) text[i] = s[i];
    }
};

}  // namespace call_detail

// call<"addmm">(x, a, b): any op by its name, arguments in the order of its signature.
template <call_detail::Name name, class... A>
Value call_value(const A&... args) {
    call_detail::Given given[] = {call_detail::Given(args)...};
    // The kinds of the arguments, and so the overload, are the same at every call from here, except for None in place
    // of a Var.
    static const OpOverload* chosen = &call_detail::choose(name.text, given, sizeof...(A));
    return call_detail::invoke_given(*chosen, given, sizeof...(A));
}
template <call_detail::Name name, class... A>
Var call(const A&... args) {
    return Var(std::get<Tensor>(call_value<name>(args...)));
}
template <call_detail::Name name, class... A>
std::vector<Var> call_all(const A&... args) {
    Value value = call_value<name>(args...);
    std::vector<Var> result;
    for (Tensor& t : std::get<std::vector<Tensor>>(value)) result.emplace_back(std::move(t));
    return result;
}

// Common ops by their own names.
#define FB_VAR_OP(name)                        \
    template <std::same_as<Var> V, class... A> \
    Var name(const V& x, const A&... rest) {   \
        return call<#name>(x, rest...);        \
    }
FB_VAR_OP(abs)
FB_VAR_OP(acos)
FB_VAR_OP(all)
FB_VAR_OP(amax)
FB_VAR_OP(angle)
FB_VAR_OP(any)
FB_VAR_OP(argmax)
FB_VAR_OP(argsort)
FB_VAR_OP(asin)
FB_VAR_OP(atan)
FB_VAR_OP(atan2)
FB_VAR_OP(bmm)
FB_VAR_OP(clamp)
FB_VAR_OP(clone)
FB_VAR_OP(contiguous)
FB_VAR_OP(cos)
FB_VAR_OP(cosh)
FB_VAR_OP(cumprod)
FB_VAR_OP(cumsum)
FB_VAR_OP(diagonal)
FB_VAR_OP(digamma)
FB_VAR_OP(eq)
FB_VAR_OP(erf)
FB_VAR_OP(exp)
FB_VAR_OP(expand)
FB_VAR_OP(flip)
FB_VAR_OP(gather)
FB_VAR_OP(ge)
FB_VAR_OP(gt)
FB_VAR_OP(imag)
FB_VAR_OP(index_add)
FB_VAR_OP(index_select)
FB_VAR_OP(isnan)
FB_VAR_OP(le)
FB_VAR_OP(lgamma)
FB_VAR_OP(log)
FB_VAR_OP(log1p)
FB_VAR_OP(logical_and)
FB_VAR_OP(logical_not)
FB_VAR_OP(logical_or)
FB_VAR_OP(lt)
FB_VAR_OP(masked_fill)
FB_VAR_OP(matmul)
FB_VAR_OP(mm)
FB_VAR_OP(movedim)
FB_VAR_OP(mul)
FB_VAR_OP(narrow)
FB_VAR_OP(ne)
FB_VAR_OP(neg)
FB_VAR_OP(permute)
FB_VAR_OP(pow)
FB_VAR_OP(prod)
FB_VAR_OP(real)
FB_VAR_OP(reciprocal)
FB_VAR_OP(reshape)
FB_VAR_OP(roll)
FB_VAR_OP(rsqrt)
FB_VAR_OP(scatter)
FB_VAR_OP(scatter_add)
FB_VAR_OP(select)
FB_VAR_OP(sgn)
FB_VAR_OP(sigmoid)
FB_VAR_OP(sign)
FB_VAR_OP(sin)
FB_VAR_OP(sinh)
FB_VAR_OP(sort)
FB_VAR_OP(sqrt)
FB_VAR_OP(square)
FB_VAR_OP(squeeze)
FB_VAR_OP(sum)
FB_VAR_OP(tan)
FB_VAR_OP(tanh)
FB_VAR_OP(transpose)
FB_VAR_OP(tril)
FB_VAR_OP(triu)
FB_VAR_OP(unsqueeze)
FB_VAR_OP(where)
#undef FB_VAR_OP

Var operator+(const Var& x, const Var& y);
Var operator-(const Var& x, const Var& y);
Var operator*(const Var& x, const Var& y);
Var operator/(const Var& x, const Var& y);
Var operator-(const Var& x);
// Comparisons return bool tensors.
Var operator>(const Var& x, const Var& y);
Var operator<(const Var& x, const Var& y);
Var operator>=(const Var& x, const Var& y);
Var operator<=(const Var& x, const Var& y);
Var operator==(const Var& x, const Var& y);

// Complex conjugate; free for real tensors.
Var conj(const Var& x);
// Sums over broadcast dimensions to the given shape.
Var sum_to(const Var& x, const Dims& shape);
// Converts; a complex tensor is converted to real by its real part.
Var cast(const Var& x, DType dtype);
// New tensors on the same device, without history.
Var zeros_like(const Var& x);
Var ones_like(const Var& x);
Var zeros_of(const Dims& shape, DType dtype, Device device);
Var full_of(const Dims& shape, const Scalar& value, DType dtype, Device device);
// Copies to another device.
Var on_device(const Var& x, Device device);
// The value of a condition of one element. Always false on the meta device: a formula may use it only to choose between
// computations with results of the same shape.
bool is_true(const Var& condition);
// The tensor without its history.
Var detached(const Var& x);
// mask ? x : 0, also where x is not finite.
Var masked(const Var& x, const Var& mask);

}  // namespace fb
