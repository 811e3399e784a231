// What is recorded on this thread.
#pragma once

namespace fb {

struct GradModes {
    bool grad = true;              // ops are recorded
    bool inference = false;        // nothing is recorded, and tensors made now never can be
    bool anomaly = false;          // backward checks every gradient for NaN
    bool anomaly_forward = false;  // ops check what they compute
    bool allow_inf = false;        // ... but infinities are intended (masks)
};
extern thread_local GradModes grad_modes;

inline bool grad_enabled() { return grad_modes.grad; }

// Switches recording for a scope.
class GradScope {
  public:
    explicit GradScope(bool on) : previous_(grad_modes.grad) { grad_modes.grad = on; }
    ~GradScope() { grad_modes.grad = previous_; }
    GradScope(const GradScope&) = delete;
    GradScope& operator=(const GradScope&) = delete;

  private:
    bool previous_;
};

}  // namespace fb
