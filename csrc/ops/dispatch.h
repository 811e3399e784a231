// The one door to an op: runs it, and records it when a gradient may be asked for.
#pragma once
#include "autograd/node.h"
#include "autograd/saved.h"
#include "ops/gradient.h"
#include "ops/registry.h"

namespace fb {

// Runs the op. The result is in a.out already when that was given; in-place forms have their history set.
Value invoke(const OpOverload& op, Args& a);
// "[[2, 3], [3]]": the shapes of the tensor arguments, for the profiler.
std::string shapes_of(const Args& a);

// The op made of other ops that runs on this thread: their errors carry its name.
extern thread_local const char* composite_op;

// A recorded call of an op of the table.
class OpNode final : public Node {
  public:
    struct Slot {  // a tensor argument
        Saved saved;
        Dims shape;
        DType dtype = DType::F32;
    };

    explicit OpNode(const OpOverload& overload) : op(overload) {}
    Gradients apply(Gradients&& gradients) override;
    std::string name() const override;
    void release_saved() override;

    const OpOverload& op;
    Small<Slot, 2> slots;      // one per tensor argument, lists spelled out; next[i] belongs to slots[i]
    Small<uint32_t, 3> first;  // of each tensor argument: its first slot; and one past the end
    Small<Value, 1> others;    // arguments that are no tensors
    Small<Saved, 1> results;   // kept results, undefined where not kept
    bool released = false;
    bool gated = false;  // what arrives has not passed the relu that follows (Note [Gates])
};

// An in-place change of `t` is about to be recorded: refuses leaves.
void check_inplace(const Tensor& t);
// Gives `t`, just changed in place, the history of `node`, whose first input was the old value of `t`. A view passes it
// on to its base.
void rebase_history(const Tensor& t, const Ref<Node>& node);
bool any_requires_grad(const Args& a);
// Called by everything that makes a differentiable result outside of invoke (getitem).
bool should_record(Tensors tensors);
// Anomaly detection in the forward pass.
void check_finite(const OpOverload& op, const Args& a, const Value& value);

}  // namespace fb
