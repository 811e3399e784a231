// The graph: nodes with edges to the nodes that produced their inputs, and the autograd data of a tensor.
//
// A node's sequence number is larger than those of all nodes it points to, so backward is a heap on these numbers: a
// node that is popped has received all its gradients.
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

// A Python callable, as the core sees it.
struct GradientHook : RefCounted {
    // Changes gradients in place; a node's post hook may also read `others`.
    virtual void call(Gradients& gradients, const Gradients* others) = 0;
};

// The gradient of a non-leaf tensor, kept for retain_grad; shared by the tensor and its node.
struct Retained : RefCounted {
    Tensor grad;    // guarded by `lock`: hooks may read it while another thread's backward adds to it
    SpinLock lock;  // held for a few instructions only
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
    std::vector<std::pair<uint32_t, Ref<Retained>>> retained;  // for retain_grad: set after the tensor's hooks ran
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
    // Gradients of the inputs, one per edge, from the gradients of the outputs. May be called without the interpreter
    // lock.
    virtual Gradients apply(Gradients&& gradients) = 0;
    virtual std::string name() const = 0;
    // Releases saved tensors; a second backward through this node is then an error.
    virtual void release_saved() {}

    // Deletes chains without recursion: dropping the last reference queues the node, and one loop deletes (Note
    // [Deletion]).
    void release() const {
        if (drop()) dispose(const_cast<Node*>(this));
    }
    // Must be called once the edges are known: their nodes may be younger than this object.
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
    const bool accumulates = false;          // this is an AccumulateGrad
    void* pyobj = nullptr;                   // borrowed: the Python object that wraps this node, if there is one

  private:
    static void dispose(Node* node);
};

// The autograd data of a tensor. Threads share it: one may run an op on the tensor, or a backward that ends there,
// while another reads it.
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
    // Sets the gradient if it still is `expected`.
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
    // The accumulator of a leaf, created on demand; it lives as long as a graph uses it.
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
    SpinLock lock_;  // held for a few instructions; replaced values are destroyed after it is released
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
// Whether the tensor is a view that takes part in the history its base got after the view was created.
inline bool follows_base(const TensorImpl* t) {
    return t->base && !t->plain_view && t->version_seen != t->storage->version() && differentiable(t->dtype);
}
inline bool requires_grad(const TensorImpl* t) {
    return has_history(t) || (follows_base(t) && has_history(t->base.get()));
}
inline bool requires_grad(const Tensor& t) { return requires_grad(t.impl()); }

// The node that produced the tensor; null for a leaf. Up to date for views whose base was written to.
Ref<Node> grad_fn(const Tensor& t);
inline bool is_leaf(const Tensor& t) { return !requires_grad(t) || !grad_fn(t); }
// Where the tensor's gradient goes: its node, or the accumulator of a leaf; empty when it requires none.
Edge gradient_edge(const Tensor& t);
void set_history(const Tensor& t, const Ref<Node>& node, uint32_t output);
// Keeps the gradient that reaches a non-leaf tensor.
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

// Bit mask of the inputs of the running node whose gradient this backward needs; inputs beyond the sixty-fourth always
// count as needed.
extern thread_local uint64_t wanted_inputs;

// The ops the graph needs; the autograd layer itself knows no op.
struct GraphOps {
    Tensor (*add)(const Tensor&, const Tensor&);             // recorded when recording is on
    void (*add_into)(const Tensor& to, const Tensor& from);  // never recorded
    Tensor (*clone)(const Tensor&);                          // recorded when recording is on
    Tensor (*clone_as)(const Tensor&, const Dims& strides);  // a copy with these strides; never recorded
    // Sums to the shape, converts and moves; raises an error where that is impossible.
    Tensor (*fit)(const Tensor& gradient, const Node::Output& expected);
    Ref<Node> (*view_node)(const Tensor& base, const Tensor& view);
    bool (*has_nan)(const Tensor&);
};
extern GraphOps graph_ops;

// Nodes of the running backward whose gradient has not passed the gate behind them (Note [Gates]).
extern thread_local std::vector<const Node*> gated_nodes;

}  // namespace fb
