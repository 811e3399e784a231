// The only entry point of ops: runs an op, and records it if a gradient may be needed.
#pragma once
#include "autograd/node.h"
#include "autograd/saved.h"
#include "ops/table/gradient.h"
#include "ops/table/registry.h"

namespace fb {

// Runs the op. If a.out was given, the result is in it; in-place forms have their history set.
Value invoke(const OpOverload& op, Args& a);
// "[[2, 3], [3]]": the shapes of the tensor arguments, for the profiler.
std::string shapes_of(const Args& a);

// Hands an op called by a gradient formula to the class of a tensor that handles op calls; set by the bindings.
extern Value (*hand_over_op)(const OpOverload& op, Args& a, const Tensor& taker);

// A layer between ops and their kernels on this thread, below autograd: selective checkpoints store results there and
// replay them. Only consulted while grad_modes.handed_over is set.
struct KernelHook {
    virtual ~KernelHook() = default;
    // Supplies a stored result instead of computing one; returns false to compute.
    virtual bool replace(const OpOverload& op, const Args& a, Value& result) = 0;
    virtual void computed(const OpOverload& op, const Args& a, const Value& result) = 0;
};
extern thread_local KernelHook* kernel_hook;

// The composite op running on this thread: errors of the ops it calls carry its name.
extern thread_local const char* composite_op;

// A recorded call of an op of the table.
class OpNode final : public Node {
  public:
    struct Slot : Output {  // a tensor argument: its shape and dtype, and the tensor if the formula needs it
        Saved saved;
    };

    explicit OpNode(const OpOverload& overload) : op(overload) {}
    Gradients apply(Gradients&& gradients) override;
    std::string name() const override;
    void release_saved() override;
    // Must be held while reading saved values: another thread may finish this node and release it.
    class Use {
      public:
        explicit Use(OpNode& node) : node_(node), released_(node.uses_.fetch_add(1) & releasing) {}
        ~Use() {
            if (node_.uses_.fetch_sub(1) == (releasing | 1)) node_.drop_saved();
        }
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;
        bool released() const { return released_; }

      private:
        OpNode& node_;
        bool released_;
    };

    const OpOverload& op;
    Small<Slot, 2> slots;      // one per tensor argument, lists flattened; next[i] belongs to slots[i]
    Small<uint32_t, 3> first;  // the first slot of each tensor argument, and one past the end
    Small<Value, 1> others;    // non-tensor arguments
    Small<Saved, 1> results;   // saved results, undefined where not saved

  private:
    static constexpr uint32_t releasing = uint32_t(1) << 31;
    void drop_saved();
    std::atomic<uint32_t> uses_{0};
    std::atomic<bool> dropped_{false}, keeps_{false};  // keeps_: known after the formula ran
};

// Whether out= of this op must have the dtype of the result; and whether that holds for the op running on this thread.
bool takes_exact_out(const std::string& op);
extern thread_local bool exact_out;

// Called before recording an in-place change of `t`: rejects leaves.
void check_inplace(const Tensor& t);
// A tensor created in inference mode must not be written to outside of it, whether or not the write is recorded.
inline void check_not_inference(const Tensor& t) {
    if (t.impl()->inference && !grad_modes.inference)
        fail_state(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone() to get a "
            "normal tensor before doing the in-place update");
}
// Gives `t`, just changed in place, the history of `node`, whose first input was the old value of `t`. A view also
// updates the history of its base.
void rebase_history(const Tensor& t, const Ref<Node>& node);
bool any_requires_grad(const Args& a);
// Called by everything that creates a differentiable result outside of invoke (getitem).
bool should_record(Tensors tensors);
// Anomaly detection in the forward pass.
void check_finite(const OpOverload& op, const Args& a, const Value& value);

}  // namespace fb
