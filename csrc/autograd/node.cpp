#include "autograd/node.h"

namespace fb {

thread_local GradModes grad_modes;
thread_local const std::string* module_path = nullptr;
GraphOps graph_ops;
thread_local std::vector<const Node*> gated_nodes;

static std::atomic<uint64_t> next_sequence{1};

Node::Node(bool accumulates)
    : sequence(next_sequence.fetch_add(1, std::memory_order_relaxed)), accumulates(accumulates) {}

Node::Output Node::expected(uint32_t output, const Tensor& gradient) const {
    if (!accumulates) return outputs[output];
    const Tensor& leaf = static_cast<const AccumulateGrad*>(this)->leaf;
    return {leaf.shape(), grad_dtype(leaf).value_or(gradient.dtype()), leaf.device()};
}

void Node::renumber() { sequence = next_sequence.fetch_add(1, std::memory_order_relaxed); }

// Note [Deletion]: a node's destructor releases the nodes and tensors before it, whose destructors do the same; a long
// chain would overflow the stack. So the first deletion on a thread runs a loop, and nested deletions append to its
// queue.
void Node::dispose(Node* node) {
    static thread_local std::vector<Node*>* queue = nullptr;
    if (queue) {
        queue->push_back(node);
        return;
    }
    std::vector<Node*> pending{node};
    queue = &pending;
    while (!pending.empty()) {
        Node* last = pending.back();
        pending.pop_back();
        delete last;
    }
    queue = nullptr;
}

GradMeta& own_meta(const Tensor& t) {
    if (!t.impl()->autograd) t.impl()->autograd.set(std::make_unique<GradMeta>());
    return *grad_meta(t.impl());
}

Ref<Node> grad_fn(const Tensor& t) {
    TensorImpl* impl = t.impl();
    if (follows_base(impl)) {
        // The memory was written to since: the base's history is the valid one. Several threads may get here at once;
        // they compute the same.
        uint64_t now = impl->storage->version();
        bool history = has_history(impl->base.get());
        if (history) own_meta(t).set_history(graph_ops.view_node(Tensor(impl->base), t), 0);
        impl->version_seen.store(now, std::memory_order_release);
        if (history && own_meta(t).retains()) retain_grad(t);
    }
    GradMeta* meta = grad_meta(impl);
    return meta ? meta->grad_fn() : Ref<Node>();
}

Edge gradient_edge(const Tensor& t) {
    if (!requires_grad(t)) return {};
    if (follows_base(t.impl())) grad_fn(t);
    GradMeta& meta = own_meta(t);
    if (!meta.requires_grad()) {
        if (Edge edge = meta.edge(); edge.node) return edge;
    }
    return {meta.accumulator(t), 0};
}

Ref<Node> GradMeta::accumulator(const Tensor& leaf) {
    std::lock_guard guard(lock_);
    if (accumulator_ && accumulator_->try_retain()) return Ref<Node>::adopt(accumulator_);
    auto node = make_ref<AccumulateGrad>(leaf);
    accumulator_ = node.get();
    return Ref<Node>(node.get());
}

void set_history(const Tensor& t, const Ref<Node>& node, uint32_t output) {
    if (!t.impl()->autograd) t.impl()->autograd.set(std::make_unique<GradMeta>(node, output));
    else grad_meta(t.impl())->set_history(node, output);
    t.impl()->version_seen.store(t.storage().version(), std::memory_order_release);
    if (grad_meta(t.impl())->retains()) retain_grad(t);  // after an in-place op the new value's gradient is retained
}

void retain_grad(const Tensor& t) {
    Ref<Node> node = grad_fn(t);
    GradMeta& meta = own_meta(t);
    auto retained = make_ref<Retained>();
    meta.set_retained(retained);
    node->own_hooks().retained.emplace_back(meta.output(), retained);
}

void set_requires_grad(const Tensor& t, bool on) {
    if (on) {
        if (!differentiable(t.dtype()))
            fail_state("Only Tensors of floating point and complex dtype can require gradients, got ", t.dtype(),
                       "; make it floating point first, say with .float() or dtype=");
        if (t.impl()->inference && !grad_modes.inference)
            fail_state(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed: a tensor made in "
                "inference mode cannot require gradients; clone() it outside of inference_mode");
    }
    if (grad_fn(t)) {
        if (on) return;
        fail_state(
            "requires_grad can only be changed of leaf tensors; use detach() for a tensor that does not require "
            "gradients");
    }
    if (!on && !t.impl()->autograd) return;
    own_meta(t).set_leaf(on);
}

AccumulateGrad::AccumulateGrad(const Tensor& t) : Node(true), leaf(t) { add_output(t); }

AccumulateGrad::~AccumulateGrad() { grad_meta(leaf.impl())->forget_accumulator(this); }

// The strides of a leaf's gradient: the leaf's own if these are dense, so that optimizers iterate over both alike;
// row-major otherwise.
static bool has_layout_of(const Tensor& g, const Tensor& leaf) {
    if (g.is_contiguous() && leaf.is_contiguous()) return true;
    if (!is_dense(leaf)) return g.is_contiguous();
    for (int64_t d = 0; d < g.dim(); d++) {
        if (g.shape()[d] != 1 && g.strides()[d] != leaf.strides()[d]) return false;
    }
    return true;
}

static Tensor first_gradient(const Tensor& leaf, const Tensor& g) {
    if (grad_enabled() || g.impl()->functorial) return graph_ops.clone(g);
    settle(g);
    settle(leaf);
    // A gradient that only we own, with the leaf's layout, is kept as it is. Others are copied, because a later sum
    // would change them. A view of the whole of an otherwise unreferenced tensor counts as owned.
    const TensorImpl* base = g.impl()->base.get();
    bool hidden = base && base->use_count() == 1 && !base->pyobj && base->numel == g.numel();
    bool own = g.impl()->use_count() == 1 && g.storage_ref()->use_count() == (hidden ? 2 : 1) && !g.impl()->pyobj;
    if (!has_layout_of(g, leaf)) {
        return is_dense(leaf) ? graph_ops.clone_as(g, leaf.strides())
                              : graph_ops.clone_as(g, contiguous_strides(g.shape()));
    }
    return own ? g : graph_ops.clone(g);
}

Gradients AccumulateGrad::apply(Gradients&& gradients) {
    Tensor g = std::move(gradients[0]);
    gradients.clear();
    // A leaf that was frozen after the graph was recorded accumulates no gradient.
    if (!g || !requires_grad(leaf)) return {};
    GradMeta& meta = own_meta(leaf);
    Tensor first;
    for (bool done = false; !done;) {
        Tensor sum = meta.grad();
        if (!sum) {
            if (!first) {
                first = first_gradient(leaf, g);
                if (!grad_enabled()) first.impl()->base = nullptr;
            }
            done = meta.replace_grad(sum, first);
        } else if (grad_enabled()) {
            // Recorded, and hooks may run Python: no lock is held, and another thread's gradient may be added in
            // between.
            done = meta.replace_grad(sum, graph_ops.add(sum, g));
        } else if (sum.impl()->functorial || g.impl()->functorial) {
            grad_modes.handed_over = true;
            done = meta.replace_grad(sum, graph_ops.add(sum, g));
        } else {
            std::lock_guard guard(meta.summing);
            graph_ops.add_into(sum, g);
            done = true;
        }
    }
    if (meta.hooks) {
        // A copy: a hook may remove itself.
        auto after = meta.hooks->after;
        for (auto& entry : after) {
            Gradients subject;
            subject.push_back(leaf);
            entry.hook->call(subject, nullptr);
        }
    }
    return {};
}

}  // namespace fb
