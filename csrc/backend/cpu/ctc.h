// Connectionist temporal classification; see device::Losses.
#pragma once
#include "device/losses.h"

namespace fb::cpu {

void ctc_loss(const device::CtcProblem& p, const Tensor& targets, const Tensor& log_probs, const Tensor& loss,
              const Tensor& alpha);
void ctc_loss_backward(const device::CtcProblem& p, const Tensor& targets, const Tensor& grad, const Tensor& log_probs,
                       const Tensor& loss, const Tensor& alpha, bool zero_infinity, const Tensor& out);

}  // namespace fb::cpu
