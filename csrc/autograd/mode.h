// What is recorded on this thread.
#pragma once
#include <string>

namespace fb {

struct GradModes {
    bool grad = true;              // ops are recorded
    bool inference = false;        // nothing is recorded, and tensors made now never can be
    bool anomaly = false;          // backward checks every gradient for NaN
    bool anomaly_forward = false;  // ops check what they compute
    bool allow_inf = false;        // ... but infinities are intended (masks)
    bool handed_over = false;      // the backward that runs has met a gradient whose class takes over op calls
};
extern thread_local GradModes grad_modes;

// Path of the module that runs on this thread ("encoder.layers.3"), or null; interned, so it can be kept.
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
