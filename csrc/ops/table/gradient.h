// Gradients: one formula per op, written with differentiable ops (var.h), so that it can be differentiated again.
//
//   GRAD("mul", IN(1), IN(0)) {
//       c.set(0, c.g() * conj(c.in(1)));
//       c.set(1, c.g() * conj(c.in(0)));
//   }
//
// The key is an op's name (all its overloads), the beginning of one signature ("max(Tensor input, int dim"), or several
// of these joined by |. It is followed by one entry per tensor argument, in order: the values its gradient needs from
// the forward pass, IN(i), argument number i of the signature, or RESULT(k), result number k, joined by |. Only what
// the wanted gradients need is saved. Shapes, dtypes and all non-tensor arguments are always available.
// The formula sets each argument's gradient with c.set(), which sums over broadcast dimensions and converts to the
// argument's dtype (the real part, if the argument is real), and does nothing if the gradient is not wanted. An
// argument that is not set has a gradient of zero.
#pragma once
#include "autograd/node.h"
#include "ops/table/registry.h"
#include "ops/table/var.h"

namespace fb {

class GradCall;
using GradFn = void (*)(GradCall& c);

struct Gradient {
    std::string key;
    std::vector<uint32_t> uses;
    // neither fn nor python: results are not differentiable functions of the inputs (argmax, rand_like)
    GradFn fn = nullptr;
    void* python = nullptr;  // a formula in Python instead
    uint32_t constants = 0;  // bit k: result k is not a differentiable function of the inputs and gets no history
};
// Whether NO_GRAD says so of an op.
inline bool constant(const OpOverload& op) { return op.gradient && !op.gradient->fn && !op.gradient->python; }
std::deque<Gradient>& gradient_table();
void link_gradient(const Gradient& gradient);

constexpr uint32_t IN(int i) { return 1u << i; }
// In place of saved values: the argument only provides its shape or dtype, and has no gradient.
constexpr uint32_t CONST = 1u << 31;
constexpr uint32_t RESULT(int k) { return 1u << (24 + k); }
constexpr uint32_t most_results = 7;  // number of results that a formula can refer to

struct RegisterGradient {
    RegisterGradient(const char* keys, std::initializer_list<uint32_t> uses, GradFn fn);
};

#define GRAD(keys, ...) GRAD_(FB_CONCAT(grad_, __COUNTER__), keys __VA_OPT__(, ) __VA_ARGS__)
#define GRAD_(id, keys, ...)                                                                                  \
    static void id(::fb::GradCall& c);                                                                        \
    [[maybe_unused]] static const ::fb::RegisterGradient FB_CONCAT(id, _registered)(keys, {__VA_ARGS__}, id); \
    static void id([[maybe_unused]] ::fb::GradCall& c)
// Ops whose results are not differentiable: they are not recorded.
#define NO_GRAD(keys) \
    [[maybe_unused]] static const ::fb::RegisterGradient FB_CONCAT(no_grad_, __COUNTER__)(keys, {}, nullptr)

class OpNode;

// One run of a formula.
class GradCall {
  public:
    GradCall(const OpNode& node, Gradients& gradients, Gradients& results)
        : node_(node), gradients_(gradients), results_(results) {}

    // Gradient of a result; zeros if none arrived (see has()).
    Var g(int result = 0) const;
    bool has(int result) const;
    bool needs(int arg) const;  // for a list: whether any of its tensors needs it
    bool needs(int arg, int k) const;
    // Saved tensors. k: the position in a list argument.
    Var in(int arg, int k = 0) const;
    Var out(int result = 0) const;
    int count(int arg) const;  // tensors in a list argument; 0 or 1 for an optional one
    bool given(int arg) const;
    const Dims& shape(int arg, int k = 0) const;
    int64_t dim(int arg, int k = 0) const { return shape(arg, k).size(); }
    DType dtype(int arg, int k = 0) const;
    Device device() const;  // of the results
    const Dims& out_shape(int result = 0) const;
    DType out_dtype(int result = 0) const;
    // Non-tensor arguments.
    const Value& value(int arg) const;
    const Scalar& scalar(int arg) const { return std::get<Scalar>(value(arg)); }
    int64_t integer(int arg) const { return scalar(arg).i; }
    double number(int arg) const { return scalar(arg).re; }
    bool flag(int arg) const { return scalar(arg).i != 0; }
    const Dims& dims(int arg) const { return std::get<Dims>(value(arg)); }
    const std::string& text(int arg) const { return std::get<std::string>(value(arg)); }
    std::optional<int64_t> integer_or_none(int arg) const {
        return given(arg) ? std::optional(integer(arg)) : std::nullopt;
    }
    std::optional<double> number_or_none(int arg) const {
        return given(arg) ? std::optional(number(arg)) : std::nullopt;
    }
    std::optional<Dims> dims_or_none(int arg) const { return given(arg) ? std::optional(dims(arg)) : std::nullopt; }

    // Note [Gates]: the gradient of relu(f(x)) is zero where f(x) is not positive, which costs a whole pass over
    // memory. An f with the flag GATED can omit those elements while it computes its own gradient. So the formula of
    // relu asks leave_gate(); if that returns true, it passes the gradient on unchanged, and gated() tells the formula
    // of f. The difference must not be observable: f's node has no other user and no hooks, and nothing is recorded.
    bool leave_gate() const;
    bool gated() const;

    void set(int arg, const Var& gradient) { set(arg, 0, gradient); }
    void set(int arg, int k, const Var& gradient);

    const OpNode& node() const { return node_; }

  private:
    const OpNode& node_;
    Gradients& gradients_;
    Gradients& results_;
};

// Calls a formula written in Python; set by the bindings.
extern void (*call_python_gradient)(void* formula, GradCall& call);

}  // namespace fb
