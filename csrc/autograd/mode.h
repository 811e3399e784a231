// What autograd records on this thread.
#pragma once
#include <string>

namespace fb {

struct GradModes {
    bool grad = true;              // ops are recorded
    bool inference = false;        // nothing is recorded, and tensors created now can never require gradients
    bool anomaly = false;          // backward checks every gradient for NaN
    bool anomaly_forward = false;  // ops check what they compute
    bool allow_inf = false;        // with anomaly_forward: infinities are intended (masks)
    bool handed_over = false;      // the running backward has met a gradient whose class handles op calls
};
extern thread_local GradModes grad_modes;

// Path of the module running on this thread ("encoder.layers.3"), or null; interned, so the pointer stays valid.
extern thread_local const std::string* module_path;

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
