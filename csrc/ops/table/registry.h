// The op table. One signature string per overload determines parsing, function, method, in-place and out= forms,
// docstring and stub; nothing here knows Python.
//
//   "sum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor"
//
// Argument types: Tensor, Operand (tensor or number; a number arrives as a wrapped 0-d tensor), Tensor[], Scalar, int,
// int[], float, bool, str, dtype, device, layout, memory_format, Generator, any. A trailing ? admits None. `int[]` also
// takes a single int; as the first argument after `input` of a method, or the first of a function marked `*int[]`, it
// may be spelled out: x.view(2, 3). Results: Tensor, Tensor[] (tuple), list (Tensor[] as a list), (Tensor values,
// Tensor indices), bool, int, Scalar, None, any.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "ops/table/signature.h"
#include "ops/table/values.h"

namespace fb {

using OpFn = Value (*)(Args&);

enum OpFlags : unsigned {
    FUNCTION = 1,
    METHOD = 2,
    INPLACE = 4,     // also name_(), writing the result into the first argument
    OUT = 8,         // also out=
    FREE = 16,       // accepts tensors with free layout (Note [Layout freedom])
    COMPOSITE = 32,  // composed of other ops, which are recorded instead
    WIDER = 64,      // several results, and out= may have wider dtypes
    GATED = 128,     // its gradient can include that of a relu that follows (Note [Gates])
    MIXED = 256,     // accepts tensors on different devices: copies, and ops that only read shapes
    COMMON = FUNCTION | METHOD | OUT,
    POINTWISE = FUNCTION | METHOD | INPLACE | OUT,
};

struct OpEntry;

// Adds an overload. Overloads of one name are tried in the order of registration. The docstring is given once per name.
// "linalg.solve(…)" puts the function into the linalg namespace (never a method).
struct Register {
    Register(const char* signature, unsigned flags, OpFn fn, const char* doc = nullptr);
    // Further names of an existing op: alias("subtract", "sub").
    struct Alias {
        Alias(const char* name, const char* target);
    };
};

struct Gradient;  // ops/table/gradient.h

struct OpOverload {
    std::string text;
    unsigned flags = 0;
    OpFn fn = nullptr;
    // Filled in by link_ops() from here on.
    Signature signature;
    const OpEntry* entry = nullptr;
    const Gradient* gradient = nullptr;
    bool mutates = false;         // name_() registered as an op of its own: changes its first argument
    int requires_grad = -1;       // index of the argument of this name, in creation ops
    std::vector<int> place;       // of each argument: its index among the tensors, or among the others
    int tensors = 0, others = 0;  // number of each
};
struct OpEntry {
    std::string name;
    std::string doc;
    std::deque<OpOverload> overloads;
    std::string alias_of;  // empty for a real op
};
// In order of registration.
std::deque<OpEntry>& op_table();
OpEntry& op_entry(const std::string& name);
// Parses the signatures and links gradients to their ops; called once, before the first call.
void link_ops();

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
