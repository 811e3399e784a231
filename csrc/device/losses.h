// Losses in one pass over their inputs.
#pragma once
#include <vector>

#include "device/table.h"

namespace fb::device {

// Connectionist temporal classification of log_probs (steps, batch, classes). Sequence n has input_lengths[n] steps and
// the labels [starts[n], starts[n] + target_lengths[n]) of the targets.
struct CtcProblem {
    int64_t steps, batch, classes, blank;
    std::vector<int64_t> input_lengths, target_lengths, starts;
    int64_t longest = 0;  // length of the longest target
};

struct Losses {
    // input: (N, C) scores; target: (N) int64 classes, which are checked; the loss of an ignored class is 0. All
    // contiguous.
    void (*cross_entropy)(const Tensor& input, const Tensor& target, int64_t ignored, double smoothing,
                          const Tensor& loss, const Tensor& logsumexp);
    void (*cross_entropy_backward)(const Tensor& grad, const Tensor& input, const Tensor& target,
                                   const Tensor& logsumexp, int64_t ignored, double smoothing, const Tensor& out);
    // targets: int64 labels, which are checked. alpha: (batch, steps, 2 * longest + 1), zero-initialised.
    void (*ctc)(const CtcProblem& p, const Tensor& targets, const Tensor& log_probs, const Tensor& loss,
                const Tensor& alpha);
    void (*ctc_backward)(const CtcProblem& p, const Tensor& targets, const Tensor& grad, const Tensor& log_probs,
                         const Tensor& loss, const Tensor& alpha, bool zero_infinity, const Tensor& out);
};
inline const Losses& losses(const Tensor& on) { return device::on<Losses>(on.device()); }

}  // namespace fb::device
