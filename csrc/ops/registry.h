// The op table. One signature string per overload gives parsing, function, method, in-place and out= forms, docstring
// and stub; nothing here knows Python.
//
//   "sum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor"
//
// Argument types: Tensor, Operand (tensor or number; a number arrives as a wrapped 0-d tensor), Tensor[], Scalar, int,
// int[], float, bool, str, dtype, device, layout, memory_format, Generator, any. A trailing ? admits None. `int[]` also
// takes a single int; as the first argument after `input` of a method, or the first of a function marked `*int[]`, it
// may be spelled out: x.view(2, 3). Results: Tensor, Tensor[] (tuple), list (Tensor[] as a list), (Tensor values,
// Tensor indices), bool, int, Scalar, None, any.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "base/generator.h"
#include "tensor/tensor.h"

namespace fb {

// A Python object carried through C++ untouched; borrowed for the call. Only the bindings look inside.
struct Object {
    void* ptr = nullptr;
};

using Value = std::variant<std::monostate, Tensor, std::vector<Tensor>, Scalar, Dims, DType, Device, std::string,
                           Ref<Generator>, Object>;

class Args {
  public:
    static constexpr int max_args = 20;
    Value values[max_args];
    int count = 0;

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
    // through output(); whatever it returns otherwise is copied there afterwards, with the same checks.
    Tensor out;
    bool inplace = false;
};

using OpFn = Value (*)(Args&);

enum OpFlags : unsigned {
    FUNCTION = 1,
    METHOD = 2,
    INPLACE = 4,  // also name_(), writing the result into the first argument
    OUT = 8,      // also out=
    COMMON = FUNCTION | METHOD | OUT,
    POINTWISE = FUNCTION | METHOD | INPLACE | OUT,
};

// Adds an overload. Overloads of one name are tried in the order of registration. The docstring is given once per name.
// "linalg.solve(…)" puts the function into the linalg namespace (never a method).
struct Register {
    Register(const char* signature, unsigned flags, OpFn fn, const char* doc = nullptr);
    // Further names of an existing op: alias("subtract", "sub").
    struct Alias {
        Alias(const char* name, const char* target);
    };
};

struct OpOverload {
    std::string signature;
    unsigned flags;
    OpFn fn;
    void* python = nullptr;  // a Python composite instead of fn
};
struct OpEntry {
    std::string name;
    std::string doc;
    std::vector<OpOverload> overloads;
    std::string alias_of;  // empty for a real op
};
// In order of registration.
std::vector<OpEntry>& op_table();
OpEntry& op_entry(const std::string& name);

#define FB_CONCAT_(a, b) a##b
#define FB_CONCAT(a, b) FB_CONCAT_(a, b)
// OP("signature", flags, R"(doc)") { body using `Args& a`; return Value; }
#define OP(signature, flags, ...) OP_(FB_CONCAT(op_, __COUNTER__), signature, flags __VA_OPT__(, ) __VA_ARGS__)
#define OP_(id, signature, flags, ...)                                                                      \
    static ::fb::Value id(::fb::Args& a);                                                                   \
    [[maybe_unused]] static const ::fb::Register FB_CONCAT(id, _registered)(signature, flags,               \
                                                                            id __VA_OPT__(, ) __VA_ARGS__); \
    static ::fb::Value id([[maybe_unused]] ::fb::Args& a)
#define OP_ALIAS(name, target) \
    [[maybe_unused]] static const ::fb::Register::Alias FB_CONCAT(alias_, __COUNTER__)(name, target)

}  // namespace fb
