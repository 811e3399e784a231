// Tensors saved for backward, with their version, or packed by the user's saved_tensors_hooks.
#pragma once
#include "autograd/node.h"

namespace fb {

// saved_tensors_hooks: pack is called when a tensor is saved, unpack when it is needed again.
struct SavedHooks : RefCounted {
    virtual Ref<RefCounted> pack(const Tensor& t) = 0;
    virtual Tensor unpack(const RefCounted& packed) = 0;
};
// The hooks active on this thread; an undefined entry disables them (inside pack).
extern thread_local std::vector<Ref<SavedHooks>> saved_hooks;

class Saved {
  public:
    Saved() = default;
    // `is_result`: the tensor is an output of the node that saves it, and is kept without its history, which would be a
    // reference cycle.
    Saved(const Tensor& t, bool is_result);

    bool defined() const { return tensor_.defined() || packed_; }
    // The shape, dtype and device of a tensor when it was saved; stored by the owner of the Saved.
    using Expected = Node::Output;
    // `what` is the tensor's name in messages, `maker` the op that saved it, `edge` its place in the graph. Raises an
    // error if the tensor has another shape, dtype or device than when it was saved, since formulas trust them.
    Tensor unpack(const Edge& edge, const Expected& expected, const std::string& what, const std::string& maker,
                  Location kept_at) const;
    void reset();
    // Hooks for this tensor alone, after it was saved; an error if it has hooks already or was changed since.
    void set_hooks(Ref<SavedHooks> hooks);
    const Tensor& tensor() const { return tensor_; }  // undefined if it is packed
    const RefCounted* packed() const { return packed_.get(); }
    SavedHooks* hooks() const { return hooks_.get(); }

  private:
    void check_unchanged(const Tensor& t, const Expected& expected, const std::string& what, const std::string& maker,
                         Location kept_at) const;

    Tensor tensor_;
    bool is_result_ = false;
    uint64_t version_ = 0;
    Ref<RefCounted> packed_;
    Ref<SavedHooks> hooks_;
};

}  // namespace fb
