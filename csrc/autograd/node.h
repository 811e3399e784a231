// The graph: nodes with edges to the nodes that made their inputs, and what a tensor remembers of it.
//
// A node's sequence number is larger than those of all nodes it points to, so backward is a heap on it: whatever is
// popped has received all its gradients.
#pragma once
#include <optional>
#include <string>

#include "autograd/mode.h"
#include "base/fork.h"
#include "base/small.h"
#include "tensor/tensor.h"

namespace fb {

class Node;
using Gradients = Small<Tensor, 2>;  // undefined tensors stand for zero

struct Edge {
    Ref<Node> node;
    uint32_t output = 0;  // which output of the node
};

// Python callables, seen from here.
struct GradientHook : RefCounted {
    // Changes gradients in place; `others` are what a node's post hook may look at as well.
    virtual void call(Gradients& gradients, const Gradients* others) = 0;
};

// The gradient of a tensor that is no leaf, kept for retain_grad; the tensor and its node share it.
struct Retained : RefCounted {
    Tensor grad;    // guarded by `lock`: hooks may look at it while another thread's backward adds to it
    SpinLock lock;  // of a few instructions
    Tensor get() {
        std::lock_guard guard(lock);
        return grad;
    }
    void set(Tensor g) {
        std::lock_guard guard(lock);
        std::swap(grad, g);
    }
};

struct NodeHooks {
    struct OnOutput {
        uint32_t output;
        int64_t id;
        Ref<GradientHook> hook;
    };
    struct OnNode {
        int64_t id;
        Ref<GradientHook> hook;
    };
    std::vector<OnOutput> tensor;                              // Tensor.register_hook, in order
    std::vector<std::pair<uint32_t, Ref<Retained>>> retained;  // retain_grad: set last, after the tensor's hooks
    std::vector<OnNode> before, after;
};

class Node : public RefCounted {
  public:
    struct Output {
        Dims shape;
        DType dtype = DType::F32;
        Device device;
    };

    explicit Node(bool accumulates = false);
    // Gradients of the inputs, one per edge, from those of the outputs. May be called without the interpreter lock.
    virtual Gradients apply(Gradients&& gradients) = 0;
    virtual std::string name() const = 0;
    // Lets saved tensors go; a second backward through this node is then an error.
    virtual void release_saved() {}

    // Not a virtual call deeper for every node of a chain: the last reference queues the node, and one loop deletes.
    void release() const {
        if (drop()) dispose(const_cast<Node*>(this));
    }
    // To be called when the edges are known: their nodes may be younger than this object.
    void renumber();
    void add_output(const Tensor& t) { outputs.push_back({t.shape(), t.dtype(), t.device()}); }
    // What a gradient of an output must look like. That of a leaf follows the leaf, whose data may be replaced.
    Output expected(uint32_t output, const Tensor& gradient) const;
    NodeHooks& own_hooks() {
        if (!hooks) hooks = std::make_unique<NodeHooks>();
        return *hooks;
    }

    uint64_t sequence;
    Small<Edge, 2> next;
    Small<Output, 1> outputs;
    std::unique_ptr<NodeHooks> hooks;
    Location where = current_location;       // of the call that was recorded
    const std::string* scope = module_path;  // of the module it was recorded in
    const bool accumulates = false;          // an AccumulateGrad
    void* pyobj = nullptr;  // borrowed: the Python object that stands for this node, while there is one

  private:
    static void dispose(Node* node);
};

// What a tensor knows of the graph. Threads share it: one runs an op on the tensor, or a backward that ends there,
// while another looks at it.
class GradMeta final : public AutogradMeta {
  public:
    GradMeta() = default;
    GradMeta(const Ref<Node>& node, uint32_t output)
        : state_(node ? is_output : none), output_(output), grad_fn_(node) {}
    // Whether the tensor takes part in the graph, as a leaf or as a node's output.
    bool tracked() const { return state_.load(std::memory_order_relaxed) != none; }
    bool requires_grad() const { return state_.load(std::memory_order_relaxed) == is_leaf; }
    Edge edge() {
        std::lock_guard guard(lock_);
        return {grad_fn_, output_};
    }
    Ref<Node> grad_fn() {
        if (state_.load(std::memory_order_relaxed) != is_output) return {};
        std::lock_guard guard(lock_);
        return grad_fn_;
    }
    uint32_t output() {
        std::lock_guard guard(lock_);
        return output_;
    }
    void set_history(Ref<Node> node, uint32_t output) {
        std::lock_guard guard(lock_);
        state_.store(node ? is_output : none, std::memory_order_relaxed);
        std::swap(grad_fn_, node);
        output_ = output;
    }
    void set_leaf(bool requires_grad) {
        Ref<Node> old;
        std::lock_guard guard(lock_);
        state_.store(requires_grad ? is_leaf : none, std::memory_order_relaxed);
        std::swap(grad_fn_, old);
        output_ = 0;
    }

    Tensor grad() {
        Ref<Retained> instead;
        {
            std::lock_guard guard(lock_);
            if (!retained_) return grad_;
            instead = retained_;
        }
        return instead->get();
    }
    void set_grad(Tensor g) {
        Ref<Retained> instead = retained();
        if (instead) return instead->set(std::move(g));
        std::lock_guard guard(lock_);
        std::swap(grad_, g);
    }
    // Sets the gradient where it still is `expected`.
    bool replace_grad(const Tensor& expected, Tensor g) {
        std::lock_guard guard(lock_);
        if (!grad_.is_same(expected)) return false;
        std::swap(grad_, g);
        return true;
    }
    bool retains() const { return retains_.load(std::memory_order_relaxed); }
    Ref<Retained> retained() {
        std::lock_guard guard(lock_);
        return retained_;
    }
    void set_retained(Ref<Retained> retained) {
        std::lock_guard guard(lock_);
        retains_.store(static_cast<bool>(retained), std::memory_order_relaxed);
        std::swap(retained_, retained);
    }
    // The accumulator of a leaf, made when there is none; it lives as long as a graph uses it.
    Ref<Node> accumulator(const Tensor& leaf);
    void forget_accumulator(const Node* node) {
        std::lock_guard guard(lock_);
        if (accumulator_ == node) accumulator_ = nullptr;
    }

    // Which dtype the gradients of a leaf have: its own, one that was set, or any (Tensor.grad_dtype).
    static constexpr int own_dtype = -1, any_dtype = -2;
    std::atomic<int> grad_dtype{own_dtype};

    std::unique_ptr<NodeHooks> hooks;  // of a leaf: `tensor` before, `after` once the gradient is accumulated
    SpinLock summing;                  // held while a gradient is added to `grad`

  private:
    enum State : uint8_t { none, is_leaf, is_output };
    std::atomic<State> state_{none};
    std::atomic<bool> retains_{false};
    SpinLock lock_;  // of a few instructions: what it replaces dies after it
    uint32_t output_ = 0;
    Ref<Node> grad_fn_;
    Tensor grad_;
    Ref<Retained> retained_;  // instead of `grad_`, after retain_grad
    Node* accumulator_ = nullptr;
};

inline GradMeta* grad_meta(const TensorImpl* t) { return static_cast<GradMeta*>(t->autograd.get()); }
GradMeta& own_meta(const Tensor& t);
// The dtype that gradients of a leaf are converted to, none where they keep their own.
inline std::optional<DType> grad_dtype(const Tensor& leaf) {
    const GradMeta* meta = grad_meta(leaf.impl());
    int dtype = meta ? meta->grad_dtype.load(std::memory_order_relaxed) : GradMeta::own_dtype;
    if (dtype == GradMeta::own_dtype) return leaf.dtype();
    if (dtype == GradMeta::any_dtype) return std::nullopt;
    return static_cast<DType>(dtype);
}

inline bool differentiable(DType d) { return kind(d) >= Kind::Floating; }

inline bool has_history(const TensorImpl* t) {
    const GradMeta* m = grad_meta(t);
    return m && m->tracked();
}
// A view takes part in the history its base got after the view was made.
inline bool follows_base(const TensorImpl* t) {
    return t->base && !t->plain_view && t->version_seen != t->storage->version() && differentiable(t->dtype);
}
inline bool requires_grad(const TensorImpl* t) {
    return has_history(t) || (follows_base(t) && has_history(t->base.get()));
}
inline bool requires_grad(const Tensor& t) { return requires_grad(t.impl()); }

// The node that made the tensor; none for a leaf. Up to date for views whose base was written to.
Ref<Node> grad_fn(const Tensor& t);
inline bool is_leaf(const Tensor& t) { return !requires_grad(t) || !grad_fn(t); }
// Where the tensor's gradient goes: its node, or the accumulator of a leaf; empty when it needs none.
Edge gradient_edge(const Tensor& t);
void set_history(const Tensor& t, const Ref<Node>& node, uint32_t output);
// Keeps the gradient that reaches a tensor which is no leaf.
void retain_grad(const Tensor& t);
void set_requires_grad(const Tensor& t, bool on);

// Sums gradients into a leaf's .grad.
class AccumulateGrad final : public Node {
  public:
    explicit AccumulateGrad(const Tensor& leaf);
    ~AccumulateGrad() override;
    Gradients apply(Gradients&& gradients) override;
    std::string name() const override { return "AccumulateGrad"; }
    const Tensor leaf;
};

// Which inputs of the node that runs on this thread lead anywhere the backward wants to go, one bit each; inputs beyond
// the sixty-fourth always count.
extern thread_local uint64_t wanted_inputs;

// What the graph needs of the ops, which it does not know.
struct GraphOps {
    Tensor (*add)(const Tensor&, const Tensor&);             // recorded when recording is on
    void (*add_into)(const Tensor& to, const Tensor& from);  // never recorded
    Tensor (*clone)(const Tensor&);                          // recorded when recording is on
    Tensor (*clone_as)(const Tensor&, const Dims& strides);  // a copy with these strides; never recorded
    // Sums, converts and moves; an error when it cannot.
    Tensor (*fit)(const Tensor& gradient, const Node::Output& expected);
    Ref<Node> (*view_node)(const Tensor& base, const Tensor& view);
    bool (*has_nan)(const Tensor&);
};
extern GraphOps graph_ops;

// Nodes of the backward that runs on this thread whose gradient has not passed the gate behind them (Note [Gates]).
extern thread_local std::vector<const Node*> gated_nodes;

}  // namespace fb
