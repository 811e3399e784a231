// Tensors kept for backward: remembered with their version, or handed to the user's pack and unpack.
#pragma once
#include "autograd/node.h"

namespace fb {

// saved_tensors_hooks: pack is called when a tensor is kept, unpack when it is wanted back.
struct SavedHooks : RefCounted {
    virtual Ref<RefCounted> pack(const Tensor& t) = 0;
    virtual Tensor unpack(const RefCounted& packed) = 0;
};
// Those in force on this thread; an undefined entry switches them off (inside pack).
extern thread_local std::vector<Ref<SavedHooks>> saved_hooks;

class Saved {
  public:
    Saved() = default;
    // `is_result`: a result of the node that keeps it; kept without its history, which leads back to the node.
    Saved(const Tensor& t, bool is_result);

    bool defined() const { return tensor_.defined() || packed_; }
    // The shape, dtype and device a tensor had when it was kept; whoever keeps tensors remembers them.
    using Expected = Node::Output;
    // `what`: how messages call it; `maker`: the op that kept it. `edge`: where its history is found. Formulas trust
    // what they get: a tensor of another shape, dtype or device than the one kept is an error.
    Tensor unpack(const Edge& edge, const Expected& expected, const std::string& what, const std::string& maker,
                  Location kept_at) const;
    void reset();
    // Hooks for this tensor alone, when it is kept already; an error where there are some, or where it was changed.
    void set_hooks(Ref<SavedHooks> hooks);
    const Tensor& tensor() const { return tensor_; }  // undefined where it is packed
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
