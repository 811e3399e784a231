#include "autograd/saved.h"

#include "base/exclusive.h"

namespace fb {

thread_local std::vector<Ref<SavedHooks>> saved_hooks;

static Tensor without_history(const Tensor& t) {
    LayoutPins pins;
    pins.add(t);
    Tensor result = make_view(t.storage_ref(), t.dtype(), t.shape(), t.strides(), t.offset());
    result.impl()->untracked = t.impl()->untracked;
    return result;
}

Saved::Saved(const Tensor& t, bool is_result) {
    if (t.impl()->inference && !grad_modes.inference)
        fail_state(
            "Inference tensors cannot be saved for backward. Please use clone() outside of inference_mode to make a "
            "normal tensor, or use no_grad instead of inference_mode");
    is_result_ = is_result;
    Tensor kept = is_result ? without_history(t) : t;
    // A Python number is not passed to hooks, although it is saved as a tensor.
    if (!saved_hooks.empty() && saved_hooks.back() && !t.impl()->wrapped_number) {
        hooks_ = saved_hooks.back();
        packed_ = hooks_->pack(is_result ? kept : without_history(t));
        return;
    }
    version_ = t.storage().version();
    tensor_ = std::move(kept);
}

void Saved::set_hooks(Ref<SavedHooks> hooks) {
    if (!defined()) fail_state("Calling register_hooks on a saved tensor whose value is None is forbidden");
    if (packed_)
        fail_state(
            "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks "
            "is "
            "allowed at a time");
    if (tensor_.storage().version() != version_)
        fail_state(
            "a saved tensor has been modified by an inplace operation since it was saved, so register_hooks comes too "
            "late");
    Ref<RefCounted> packed = hooks->pack(is_result_ ? tensor_ : without_history(tensor_));
    exclusively([&] {
        packed_ = std::move(packed);
        hooks_ = std::move(hooks);
        tensor_ = Tensor();
    });
}

void Saved::reset() {
    tensor_ = Tensor();
    packed_ = nullptr;
    hooks_ = nullptr;
}

void Saved::check_unchanged(const Tensor& t, const Expected& expected, const std::string& what,
                            const std::string& maker, Location kept_at) const {
    if (t.shape() == expected.shape && t.dtype() == expected.dtype && t.device() == expected.device) return;
    std::string kept = describe_location(kept_at);
    fail_state(what, " of ", maker, kept.empty() ? "" : " at " + kept, " was saved for backward with shape ",
               expected.shape, ", dtype ", expected.dtype, " on ", to_string(expected.device), " and now has shape ",
               t.shape(), ", dtype ", t.dtype(), " on ", to_string(t.device()), "; ",
               packed_ ? "an unpack hook must return what pack was given: convert it back there"
                       : "it was replaced (.data =, set_, resize_): change it after backward(), or change a clone()");
}

Tensor Saved::unpack(const Edge& edge, const Expected& expected, const std::string& what, const std::string& maker,
                     Location kept_at) const {
    if (packed_) {
        Tensor t = hooks_->unpack(*packed_);
        check_unchanged(t, expected, what, maker, kept_at);
        if (!grad_enabled()) return t;
        // Its history is that of the tensor that was saved, whatever the hook did.
        if (edge.node || requires_grad(t)) t = without_history(t);
        if (edge.node) set_history(t, edge.node, edge.output);
        return t;
    }
    uint64_t now = tensor_.storage().version();
    if (now != version_) {
        std::string kept = describe_location(kept_at), changed = describe_location(tensor_.storage().last_write());
        const char* writer = tensor_.storage().last_writer();
        fail_state(
            "one of the variables needed for gradient computation has been modified by an inplace operation: ", what,
            " of ", maker, kept.empty() ? "" : " at " + kept, " (shape ", tensor_.shape(), ", dtype ", tensor_.dtype(),
            ") was saved at version ", version_, " and is now at version ", now, "; it was changed by ",
            writer ? writer : "another operation", changed.empty() ? "" : " at " + changed,
            ". Change a clone() instead, or use the form of the operation that is not in place");
    }
    check_unchanged(tensor_, expected, what, maker, kept_at);
    if (!grad_enabled()) return tensor_;
    // The tensor's own history may have changed since (detach_, requires_grad_); the saved edge has not.
    GradMeta* meta = grad_meta(tensor_.impl());
    bool accumulates = edge.node && edge.node->accumulates;
    bool same = edge.node ? meta && (accumulates ? meta->requires_grad() : meta->grad_fn() == edge.node)
                          : !requires_grad(tensor_);
    if (same) return tensor_;
    Tensor t = without_history(tensor_);
    if (edge.node) set_history(t, edge.node, edge.output);
    return t;
}

}  // namespace fb
