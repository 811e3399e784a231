// Gradients: one formula per op, written with differentiable ops (var.h), so that it can be differentiated again.
//
//   GRAD("mul", IN(1), IN(0)) {
//       c.set(0, c.g() * conj(c.in(1)));
//       c.set(1, c.g() * conj(c.in(0)));
//   }
//
// The key is an op's name (all its overloads), the beginning of one signature ("max(Tensor input, int dim"), or several
// of these joined by |. After it stands, for each tensor argument in order, what its gradient needs to be kept from the
// forward pass: IN(i), the argument number i of the signature, RESULT(k), the result number k; joined by |. Only what
// the wanted gradients need is kept. Shapes, dtypes and all arguments that are no tensors are always there.
// The formula gives each argument its gradient with c.set(); set() sums over broadcast dimensions and converts to the
// argument's dtype (the real part, when the argument is real), and does nothing when the gradient is not wanted. An
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
    GradFn fn = nullptr;     // neither fn nor python: results do not depend on the inputs smoothly (argmax, rand_like)
    void* python = nullptr;  // a formula in Python instead
    uint32_t constants = 0;  // bit k: result k does not depend on the inputs smoothly and gets no history
};
std::deque<Gradient>& gradient_table();
void link_gradient(const Gradient& gradient);

constexpr uint32_t IN(int i) { return 1u << i; }
// In the place of what is kept: the argument only gives its shape or dtype, and has no part in the gradient.
constexpr uint32_t CONST = 1u << 31;
constexpr uint32_t RESULT(int k) { return 1u << (24 + k); }
constexpr uint32_t most_results = 7;  // that a formula can ask for by number

struct RegisterGradient {
    RegisterGradient(const char* keys, std::initializer_list<uint32_t> uses, GradFn fn);
};

#define GRAD(keys, ...) GRAD_(FB_CONCAT(grad_, __COUNTER__), keys __VA_OPT__(, ) __VA_ARGS__)
#define GRAD_(id, keys, ...)                                                                                  \
    static void id(::fb::GradCall& c);                                                                        \
    [[maybe_unused]] static const ::fb::RegisterGradient FB_CONCAT(id, _registered)(keys, {__VA_ARGS__}, id); \
    static void id([[maybe_unused]] ::fb::GradCall& c)
// Ops whose results are constant as far as calculus goes: they are not recorded.
#define NO_GRAD(keys) \
    [[maybe_unused]] static const ::fb::RegisterGradient FB_CONCAT(no_grad_, __COUNTER__)(keys, {}, nullptr)

class OpNode;

// One run of a formula.
class GradCall {
  public:
    GradCall(const OpNode& node, Gradients& gradients, Gradients& results)
        : node_(node), gradients_(gradients), results_(results) {}

    // Gradient of a result; zeros when none arrived (has() tells).
    Var g(int result = 0) const;
    bool has(int result) const;
    bool needs(int arg) const;  // of a list: of any of its tensors
    bool needs(int arg, int k) const;
    // Kept tensors. k: the position in a list argument.
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
    // Arguments that are no tensors.
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

    // Note [Gates]: the gradient of relu(f(x)) is zero where f(x) is not positive, a whole pass over memory. An f with
    // the flag GATED can leave those elements out while it computes its own gradient. So the formula of relu asks
    // leave_gate(); where it says yes, it sends the gradient on as it came, and gated() tells the formula of f. Nobody
    // may be able to see the difference: f's node has no other user and no hooks, and nothing records.
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

// The formula's Python object is called through this; set by the bindings.
extern void (*call_python_gradient)(void* formula, GradCall& call);

}  // namespace fb
