// The graph: nodes with edges to the nodes that made their inputs, and what a tensor remembers of it.
//
// A node's sequence number is larger than those of all nodes it points to, so backward is a heap on it: whatever is
// popped has received all its gradients.
#pragma once
#include <mutex>
#include <string>
#include <thread>

#include "autograd/mode.h"
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
    Tensor grad;
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
    void add_output(const Tensor& t) { outputs.push_back({t.shape(), t.dtype()}); }
    // What the gradient of an output must look like. That of a leaf follows the leaf, whose data may be replaced.
    Output expected(uint32_t output) const;
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

// For a few instructions only.
class SpinLock {
  public:
    void lock() {
        while (flag_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
    }
    void unlock() { flag_.clear(std::memory_order_release); }

  private:
    std::atomic_flag flag_;
};

// What a tensor knows of the graph.
struct GradMeta final : AutogradMeta {
    bool requires_grad = false;  // of a leaf
    uint32_t output = 0;
    Ref<Node> grad_fn;
    Tensor grad;
    Ref<Retained> retained;       // instead of `grad`, after retain_grad
    Node* accumulator = nullptr;  // lives as long as a graph uses it; guarded by `lock`
    SpinLock lock;
    std::unique_ptr<NodeHooks> hooks;  // of a leaf: `tensor` before, `after` once the gradient is accumulated
};

inline GradMeta* grad_meta(const TensorImpl* t) { return static_cast<GradMeta*>(t->autograd.get()); }
GradMeta& own_meta(const Tensor& t);

inline bool differentiable(DType d) { return is_floating(d) || is_complex(d); }

inline bool has_history(const TensorImpl* t) {
    const GradMeta* m = grad_meta(t);
    return m && (m->requires_grad || m->grad_fn);
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
    Tensor (*fit)(const Tensor& gradient, const Dims& shape,
                  DType dtype);  // sums and converts; an error when it cannot
    Ref<Node> (*view_node)(const Tensor& base, const Tensor& view);
    bool (*has_nan)(const Tensor&);
};
extern GraphOps graph_ops;

// Locks that many objects share, found by address.
std::mutex& lock_for(const void* object);

}  // namespace fb
