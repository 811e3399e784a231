// Optimizer steps in one pass over all parameters of a group; parameters and state are updated in place.
#pragma once
#include <vector>

#include "device/table.h"

namespace fb::device {

inline constexpr int most_optimizer_columns = 5;  // parameter, gradient, and up to three tensors of state

// A parameter with its gradient and state: tensors of one real floating dtype, with numel elements in dense memory, in
// the same order in all of them. The gradient, column 1, is only read.
struct OptimizerRow {
    Tensor columns[most_optimizer_columns];
    int64_t numel = 0;
    // Values that depend on the step count. Adagrad and Adamax use `rate` only; adam() documents their use.
    double rate = 0, grad_rate = 0, root = 0, eps = 0;
};
using OptimizerRows = std::vector<OptimizerRow>;

// In the comments, d is the gradient with its sign and weight decay: sign · gradient + decay · parameter.
struct SgdStep {
    double sign, decay, momentum, dampening, lr;
    bool averaging, first, nesterov;  // averaging: has a momentum buffer, which the first step only writes
};
struct RmspropStep {
    double sign, decay, alpha, eps, momentum, lr;
    bool centered, averaging;  // centered: averages gradients too; averaging: has momentum buffers
};
struct AdagradStep {
    double sign, decay, eps;
};
struct AdadeltaStep {
    double sign, decay, rho, eps, lr;
};
struct AdamStep {
    double beta1, beta2, decay, shrink, sign;
    // amsgrad: keeps the largest second averages; with_gradient: the update includes d itself
    bool amsgrad, with_gradient;
};
struct AdamaxStep {
    double sign, decay, beta1, beta2, eps;
};

// Optional functions: if a device lacks one, the step raises an error. The comments list the columns after parameter
// and gradient.
struct OptimizerSteps {
    static constexpr bool optional = true;

    // [buffer]
    void (*sgd)(const OptimizerRows& rows, const SgdStep& step);
    // average of d², [average of d], [buffer]
    void (*rmsprop)(const OptimizerRows& rows, const RmspropStep& step);
    // sum of d²
    void (*adagrad)(const OptimizerRows& rows, const AdagradStep& step);
    // average of d², average of the squared changes
    void (*adadelta)(const OptimizerRows& rows, const AdadeltaStep& step);
    // average m of d, average v of d², [the largest v], for Adam, AdamW, NAdam and RAdam:
    // p ← p · shrink - (grad_rate · d + rate · m) / (sqrt(v) · root + eps); the denominator is eps where root is 0.
    void (*adam)(const OptimizerRows& rows, const AdamStep& step);
    // average of d, largest d, which decays
    void (*adamax)(const OptimizerRows& rows, const AdamaxStep& step);
};

}  // namespace fb::device
