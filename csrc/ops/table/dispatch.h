// The one door to an op: runs it, and records it when a gradient may be asked for.
#pragma once
#include "autograd/node.h"
#include "autograd/saved.h"
#include "ops/table/gradient.h"
#include "ops/table/registry.h"

namespace fb {

// Runs the op. The result is in a.out already when that was given; in-place forms have their history set.
Value invoke(const OpOverload& op, Args& a);
// "[[2, 3], [3]]": the shapes of the tensor arguments, for the profiler.
std::string shapes_of(const Args& a);

// Gives an op called by a gradient formula to the class of a tensor that takes over op calls; set by the bindings.
extern Value (*hand_over_op)(const OpOverload& op, Args& a, const Tensor& taker);

// Stands between ops and their kernels on this thread, below what is recorded: selective checkpoints keep results there
// and hand them out again. Only looked at while grad_modes.handed_over is set.
struct KernelHook {
    virtual ~KernelHook() = default;
    // A result to take instead of computing one; nothing to compute it.
    virtual bool replace(const OpOverload& op, const Args& a, Value& result) = 0;
    virtual void computed(const OpOverload& op, const Args& a, const Value& result) = 0;
};
extern thread_local KernelHook* kernel_hook;

// The op made of other ops that runs on this thread: their errors carry its name.
extern thread_local const char* composite_op;

// A recorded call of an op of the table.
class OpNode final : public Node {
  public:
    struct Slot : Output {  // a tensor argument: its shape and dtype, and itself where the formula needs it
        Saved saved;
    };

    explicit OpNode(const OpOverload& overload) : op(overload) {}
    Gradients apply(Gradients&& gradients) override;
    std::string name() const override;
    void release_saved() override;
    // Whoever reads what is kept does so inside of one: another thread may be through with this node, and release it.
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
    Small<Slot, 2> slots;      // one per tensor argument, lists spelled out; next[i] belongs to slots[i]
    Small<uint32_t, 3> first;  // of each tensor argument: its first slot; and one past the end
    Small<Value, 1> others;    // arguments that are no tensors
    Small<Saved, 1> results;   // kept results, undefined where not kept

  private:
    static constexpr uint32_t releasing = uint32_t(1) << 31;
    void drop_saved();
    std::atomic<uint32_t> uses_{0};
    std::atomic<bool> dropped_{false}, keeps_{false};  // keeps_: known after the formula ran
};

// Whether out= of this op must have the dtype of the result; and whether that holds for the op that runs on this
// thread.
bool takes_exact_out(const std::string& op);
extern thread_local bool exact_out;

// An in-place change of `t` is about to be recorded: refuses leaves.
void check_inplace(const Tensor& t);
// Whatever is recorded: a tensor made in inference mode is not written to outside of it.
inline void check_not_inference(const Tensor& t) {
    if (t.impl()->inference && !grad_modes.inference)
        fail_state(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone() to get a "
            "normal tensor before doing the in-place update");
}
// Gives `t`, just changed in place, the history of `node`, whose first input was the old value of `t`. A view passes it
// on to its base.
void rebase_history(const Tensor& t, const Ref<Node>& node);
bool any_requires_grad(const Args& a);
// Called by everything that makes a differentiable result outside of invoke (getitem).
bool should_record(Tensors tensors);
// Anomaly detection in the forward pass.
void check_finite(const OpOverload& op, const Args& a, const Value& value);

}  // namespace fb
