// Runs ops and records them, including in-place changes and views in the graph.
#include "ops/table/dispatch.h"

#include "base/profile.h"
#include "ops/table/common.h"
#include "ops/table/free_layout.h"
#include "ops/table/views.h"

namespace fb {

// A copy in pinned memory; set by the bindings.
Tensor (*pin_result)(const Tensor&) = nullptr;

bool any_requires_grad(const Args& a) {
    for (int i = 0; i < a.count; i++) {
        if (const Tensor* t = std::get_if<Tensor>(&a.values[i])) {
            if (*t && requires_grad(t->impl())) return true;
        } else if (const auto* list = std::get_if<std::vector<Tensor>>(&a.values[i])) {
            for (const Tensor& t : *list) {
                if (requires_grad(t.impl())) return true;
            }
        }
    }
    return false;
}

namespace {

template <class F>
void each_tensor(const Args& a, F f) {
    for (int i = 0; i < a.count; i++) {
        if (const Tensor* t = std::get_if<Tensor>(&a.values[i])) {
            if (*t) f(*t);
        } else if (const auto* list = std::get_if<std::vector<Tensor>>(&a.values[i])) {
            for (const Tensor& t : *list) f(t);
        }
    }
}

template <class F>
void each_result(const Value& value, F f) {
    if (const Tensor* t = std::get_if<Tensor>(&value)) {
        if (*t) f(*t, 0u);
    } else if (const auto* list = std::get_if<std::vector<Tensor>>(&value)) {
        for (uint32_t i = 0; i < list->size(); i++) {
            if ((*list)[i]) f((*list)[i], i);
        }
    }
}

Value compute_pinned(const OpOverload& op, Args& a) {
    LayoutPins pins;
    each_tensor(a, [&](const Tensor& t) { pins.add(t); });
    if (a.out) pins.add(a.out);
    return op.fn(a);
}

// Runs the kernel, pinning the free layouts it reads.
Value compute(const OpOverload& op, Args& a) {
    if ((op.flags & FREE) && free_layouts.load(std::memory_order_relaxed)) {
        bool free = a.out && a.out.impl()->free_layout;
        each_tensor(a, [&](const Tensor& t) { free |= t.impl()->free_layout; });
        if (free) [[unlikely]]
            return compute_pinned(op, a);
    }
    return op.fn(a);
}

// Runs the kernel; results not written to the given target are copied there.
Value call_kernel(const OpOverload& op, Args& a, const GradModes& modes) {
    bool hooked = modes.handed_over && kernel_hook && !a.out && !op.mutates;
    if (hooked) [[unlikely]] {
        Value value;
        if (!kernel_hook->replace(op, a, value)) {
            value = compute(op, a);
            kernel_hook->computed(op, a, value);
        }
        return value;
    }
    Value value = compute(op, a);
    if (a.out) {
        if (const Tensor* t = std::get_if<Tensor>(&value); t && *t && !t->is_same(a.out)) {
            store_output(a.out, a.inplace, *t);
            value = a.out;
        }
    }
    return value;
}

// A result that is a view keeps its base only if the caller can know the base.
void keep_real_base(const Tensor& t, const Args& a) {
    TensorImpl* base = t.impl()->base.get();
    if (!base) return;
    bool known = false;
    each_tensor(a, [&](const Tensor& in) { known |= in.impl() == base || in.impl()->base.get() == base; });
    if (!known) t.impl()->base = nullptr;
}

[[noreturn]] void refuse_out() {
    fail_state(
        "functions with out=... arguments don't support automatic differentiation, but one of the arguments requires "
        "grad; "
        "drop out=, or call it under no_grad()");
}

Value run_plain(const OpOverload& op, Args& a, const GradModes& modes) {
    bool recording = modes.grad;
    if (a.inplace || op.mutates) {
        const Tensor& target = a.inplace ? a.out : a.tensor(0);
        if (recording) check_inplace(target);
        else check_not_inference(target);
    } else if (a.out) {
        if (recording && requires_grad(a.out) && (!constant(op) || op.requires_grad >= 0)) refuse_out();
        check_not_inference(a.out);
    }
    Value value = call_kernel(op, a, modes);
    if (!recording) {
        bool inference = modes.inference;
        each_result(value, [&](const Tensor& t, uint32_t) {
            // The target of an in-place op keeps its properties.
            bool given = false;
            each_tensor(a, [&](const Tensor& in) { given |= in.is_same(t); });
            if (given || t.is_same(a.out)) return;
            // A view inherits its base's.
            if (t.impl()->base) t.impl()->plain_view = true;
            else t.impl()->inference = inference;
        });
    }
    return value;
}

void fill_node(OpNode& node, const Args& a) {
    const OpOverload& op = node.op;
    node.others.resize(static_cast<size_t>(op.others));
    auto add = [&](const Tensor& t) {
        OpNode::Slot& slot = (node.slots.push_back({}), node.slots.back());
        slot.shape = t.shape();
        slot.dtype = t.dtype();
        slot.device = t.device();
        node.next.push_back(gradient_edge(t));
    };
    for (int i = 0; i < a.count; i++) {
        ArgType type = op.signature.params[i].type;
        if (type == ArgType::Tensor || type == ArgType::Operand) {
            node.first.push_back(static_cast<uint32_t>(node.slots.size()));
            if (a.given(i) && a.tensor(i)) add(a.tensor(i));
        } else if (type == ArgType::TensorList) {
            node.first.push_back(static_cast<uint32_t>(node.slots.size()));
            if (a.given(i)) {
                for (const Tensor& t : a.tensors(i)) add(t);
            }
        } else if (type != ArgType::Any && type != ArgType::Generator) {
            node.others[static_cast<size_t>(op.place[i])] = a.values[i];
        }
    }
    node.first.push_back(static_cast<uint32_t>(node.slots.size()));
    node.renumber();
}

// The values needed by the wanted gradients.
uint32_t uses_of(const OpNode& node) {
    uint32_t uses = 0;
    const std::vector<uint32_t>& declared = node.op.gradient->uses;
    for (size_t i = 0; i + 1 < node.first.size() && i < declared.size(); i++) {
        for (uint32_t slot = node.first[i]; slot < node.first[i + 1]; slot++) {
            if (node.next[slot].node) uses |= declared[i];
        }
    }
    return uses;
}

// Cuts the edges of arguments that only provide a shape; returns true if no edge is left.
bool drop_constants(OpNode& node) {
    const std::vector<uint32_t>& declared = node.op.gradient->uses;
    bool dropped = false, left = false;
    for (size_t i = 0; i + 1 < node.first.size(); i++) {
        bool constant = i < declared.size() && declared[i] == CONST;
        for (uint32_t slot = node.first[i]; slot < node.first[i + 1]; slot++) {
            if (constant) node.next[slot] = {};
            left |= static_cast<bool>(node.next[slot].node);
        }
        dropped |= constant;
    }
    return dropped && !left;
}

void keep_inputs(OpNode& node, const Args& a, uint32_t uses, bool inplace) {
    for (int i = 0; i < a.count; i++) {
        if (!(uses & IN(i))) continue;
        uint32_t slot = node.first[static_cast<size_t>(node.op.place[i])];
        if (const Tensor* t = std::get_if<Tensor>(&a.values[i])) {
            // About to be overwritten: the old value must be copied.
            bool overwritten = inplace && t->is_same(a.inplace ? a.out : a.tensor(0));
            if (*t) node.slots[slot].saved = Saved(overwritten ? clone(*t) : *t, false);
        } else if (const auto* list = std::get_if<std::vector<Tensor>>(&a.values[i])) {
            for (const Tensor& t : *list) node.slots[slot++].saved = Saved(t, false);
        }
    }
}

Value run_recorded(const OpOverload& op, Args& a, const GradModes& modes) {
    bool inplace = a.inplace || op.mutates;
    if (a.out && !inplace) refuse_out();
    const Gradient* gradient = op.gradient;
    if (gradient && !gradient->fn && !gradient->python && !inplace) return call_kernel(op, a, modes);
    Tensor target = a.inplace ? a.out : inplace ? a.tensor(0) : Tensor();
    if (inplace) check_inplace(target);

    auto node = make_ref<OpNode>(op);
    fill_node(*node, a);
    if (gradient && drop_constants(*node) && !inplace) return call_kernel(op, a, modes);
    uint32_t uses = gradient ? uses_of(*node) : 0;
    if (uses) keep_inputs(*node, a, uses, inplace);
    uint64_t version = inplace ? target.storage().version() : 0;
    Value value = call_kernel(op, a, modes);

    if (inplace) {
        if (!differentiable(target.dtype())) return value;
        node->add_output(target);
        if (uses & RESULT(0)) node->results.push_back(Saved(target, true));
        // Only the geometry has changed (transpose_): the base is not affected.
        if (target.storage().version() == version) set_history(target, Ref<Node>(node.get()), 0);
        else rebase_history(target, Ref<Node>(node.get()));
        return value;
    }
    bool same = false;  // nothing was computed: contiguous() of a contiguous tensor
    each_result(value,
                [&](const Tensor& t, uint32_t) { each_tensor(a, [&](const Tensor& in) { same |= in.is_same(t); }); });
    if (same) return value;
    Ref<Node> base(node.get());
    uint32_t results = 0;
    each_result(value, [&](const Tensor&, uint32_t i) { results = i + 1; });
    if (uses >> 24) node->results.resize(results);
    if (results) node->outputs.resize(results);
    each_result(value, [&](const Tensor& t, uint32_t i) {
        node->outputs[i] = {t.shape(), t.dtype(), t.device()};
        keep_real_base(t, a);
        if (i < most_results && (uses & RESULT(static_cast<int>(i)))) node->results[i] = Saved(t, true);
        bool constant = gradient && i < 32 && (gradient->constants >> i & 1);
        if (differentiable(t.dtype()) && !constant) set_history(t, base, i);
    });
    return value;
}

}  // namespace

thread_local const char* composite_op = nullptr;
std::atomic<bool> free_layouts{false};
thread_local KernelHook* kernel_hook = nullptr;
Value (*hand_over_op)(const OpOverload& op, Args& a, const Tensor& taker) = nullptr;

std::string shapes_of(const Args& a) {
    std::string text;
    each_tensor(a, [&](const Tensor& t) {
        text += text.empty() ? "[[" : ", [";
        for (int64_t i = 0; i < t.dim(); i++) text += (i ? ", " : "") + std::to_string(t.shape()[i]);
        text += "]";
    });
    return text.empty() ? "[]" : text + "]";
}

// "Expected all tensors to be on the same device": numbers and other 0-d tensors on the CPU can be combined with
// tensors on any device, unless they are written to.
static void check_devices(const OpOverload& op, const Args& a) {
    auto goes_along = [&](const Tensor& t) { return t.device().type == DeviceType::CPU && t.dim() == 0; };
    auto refuse = [&](const std::string& one, Device first, const std::string& other, Device second) {
        fail_state("Expected all tensors to be on the same device, but found at least two devices, ", to_string(first),
                   " and ", to_string(second), "! The argument '", one, "' is on ", to_string(first), ", '", other,
                   "' on ", to_string(second), "; move one of them with .to()");
    };
    std::string name;
    std::optional<Device> device;
    auto look = [&](const Tensor& t, const std::string& called, bool written) {
        if (!t || (goes_along(t) && !written)) return;
        if (!device) {
            device = t.device();
            name = called;
        } else if (*device != t.device()) {
            refuse(name, *device, called, t.device());
        }
    };
    for (int i = 0; i < a.count; i++) {
        const std::string& called = op.signature.params[static_cast<size_t>(i)].name;
        if (const Tensor* t = std::get_if<Tensor>(&a.values[i])) {
            look(*t, called, op.mutates && i == 0);
        } else if (const auto* list = std::get_if<std::vector<Tensor>>(&a.values[i])) {
            for (size_t k = 0; k < list->size(); k++) look((*list)[k], called + "[" + std::to_string(k) + "]", false);
        }
    }
    if (a.out) look(a.out, a.inplace ? op.signature.params[0].name : "out", true);
}

Value invoke(const OpOverload& op, Args& a) {
    ProfileScope profile(ProfileEvent::Op, [&] { return op.entry->name; }, [&] { return shapes_of(a); });
    if (other_devices.load(std::memory_order_relaxed) && !(op.flags & MIXED)) [[unlikely]]
        check_devices(op, a);
    const GradModes& modes = grad_modes;  // looked up once: each access to a thread-local variable costs a call
    if (modes.handed_over) [[unlikely]] {
        Tensor taker;
        each_tensor(a, [&](const Tensor& t) {
            if (t.impl()->functorial) taker = t;
        });
        if (taker) return hand_over_op(op, a, taker);
    }
    if (!(op.flags & FREE) && free_layouts.load(std::memory_order_relaxed)) {
        each_tensor(a, [](const Tensor& t) {
            if (t.impl()->free_layout) [[unlikely]]
                settle(t);
        });
        if (a.out) settle(a.out);
    }
    if (op.flags & COMPOSITE) {
        struct Named {
            const char* previous = composite_op;
            Named() {
                if (!composite_op) composite_op = current_op;
            }
            ~Named() { composite_op = previous; }
        } named;
        return op.fn(a);
    }
    Value value = modes.grad && any_requires_grad(a) ? run_recorded(op, a, modes) : run_plain(op, a, modes);
    if (op.requires_grad > 0) [[unlikely]] {
        int before = op.requires_grad - 1;
        if (a.given(before) && op.signature.params[static_cast<size_t>(before)].name == "pin_memory" && a.flag(before))
            value = pin_result(std::get<Tensor>(value));
    }
    if (op.requires_grad >= 0 && a.given(op.requires_grad) && a.flag(op.requires_grad))
        set_requires_grad(std::get<Tensor>(value), true);
    if (modes.anomaly_forward) check_finite(op, a, value);
    return value;
}

bool should_record(Tensors tensors) {
    if (!grad_enabled()) return false;
    for (const Tensor& t : tensors) {
        if (requires_grad(t)) return true;
    }
    return false;
}

// ---- the node -------------------------------------------------------------------------------------------------------

std::string OpNode::name() const {
    std::string text;
    bool upper = true;
    for (char ch : op.entry->name) {
        if (ch == '_' || ch == '.') {
            upper = true;
        } else {
            text += upper ? static_cast<char>(std::toupper(ch)) : ch;
            upper = false;
        }
    }
    return text + "Backward0";
}

Gradients OpNode::apply(Gradients&& gradients) {
    if (!op.gradient || (!op.gradient->fn && !op.gradient->python)) {
        if (op.gradient) return Gradients(next.size());
        fail(ErrorKind::NotImplemented, "the derivative for ", op.entry->name, " is not implemented");
    }
    Use use(*this);
    if (use.released())
        fail_state(
            "Trying to backward through the graph a second time (or directly access saved tensors after they have "
            "already "
            "been freed): its saved values were freed by the first backward. Specify retain_graph=True there, or "
            "compute "
            "the "
            "graph "
            "again");
    Gradients results(next.size());
    GradCall call(*this, gradients, results);
    if (op.gradient->python) call_python_gradient(op.gradient->python, call);
    else op.gradient->fn(call);
    if (!gated_nodes.empty()) std::erase(gated_nodes, this);
    bool keeps = false;
    for (Slot& slot : slots) keeps |= slot.saved.defined();
    for (Saved& saved : this->results) keeps |= saved.defined();
    keeps_.store(keeps, std::memory_order_relaxed);
    return results;
}

void OpNode::release_saved() {
    if (!keeps_.load(std::memory_order_relaxed)) return;
    // The thread that finds no users left drops the values.
    if ((uses_.fetch_or(releasing) & ~releasing) == 0) drop_saved();
}

void OpNode::drop_saved() {
    if (dropped_.exchange(true)) return;
    for (Slot& slot : slots) slot.saved.reset();
    for (Saved& saved : this->results) saved.reset();
}

// ---- in place -------------------------------------------------------------------------------------------------------

void check_inplace(const Tensor& t) {
    const TensorImpl* impl = t.impl();
    check_not_inference(t);
    if (!impl->autograd && !impl->base) return;
    if (requires_grad(t) && is_leaf(t))
        fail_state(
            "a leaf Variable that requires grad is being used in an in-place operation; do it under no_grad(), or on a "
            "clone()");
    if (!impl->base) return;
    Tensor base(impl->base);
    if (impl->plain_view) {
        if (!requires_grad(base)) return;
        if (Ref<Node> maker = grad_fn(t)) {
            std::string function = maker->name();  // the Function's name, without the suffix of its node's name
            if (function.ends_with("Backward")) function.resize(function.size() - std::string_view("Backward").size());
            fail_state("Output ", grad_meta(impl)->output(), " of ", function,
                       " is a view and is being modified inplace. This view was created inside a custom Function (or "
                       "because an input was returned as-is), whose backward the change would override; clone() the "
                       "output of the Function first");
        }
        fail_state(
            "A view was created in no_grad mode and is being modified inplace with grad mode enabled; its base "
            "requires "
            "grad, and the change would be lost for it. Make the view with gradients enabled, or change it under "
            "no_grad() as well");
        return;
    }
    if (requires_grad(base) && is_leaf(base))
        fail_state(
            "a view of a leaf Variable that requires grad is being used in an in-place operation; do it under "
            "no_grad(), or on a clone()");
}

void rebase_history(const Tensor& t, const Ref<Node>& node) {
    TensorImpl* impl = t.impl();
    if (!impl->base || impl->plain_view) {
        set_history(t, node, 0);
        return;
    }
    Tensor base(impl->base);
    set_history(base, change_of_view(base, t, node), 0);
    impl->version_seen.store(t.storage().version() - 1);  // its history is derived from the base's when next requested
}

}  // namespace fb
