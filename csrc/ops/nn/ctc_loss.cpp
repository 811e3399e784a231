// Connectionist temporal classification: the probability of a target under all its alignments with the input.
#include "device/losses.h"
#include "ops/table/common.h"

namespace fb {
namespace {

// The arguments, checked: log_probs (T, N, C), targets (N, S) or concatenated.
device::CtcProblem read(const Tensor& log_probs, const Tensor& targets, const Dims& input_lengths,
                        const Dims& target_lengths, int64_t blank) {
    device::CtcProblem p;
    check(log_probs.dim() == 3, "expected log_probs of shape (T, N, C), got ", log_probs.shape());
    p.steps = log_probs.size(0), p.batch = log_probs.size(1), p.classes = log_probs.size(2), p.blank = blank;
    check(blank >= 0 && blank < p.classes, "blank must be in [0, ", p.classes, "), got ", blank);
    check(p.batch > 0, "expected at least one sequence, got log_probs of shape ", log_probs.shape());
    check(input_lengths.size() == p.batch && target_lengths.size() == p.batch, "expected ", p.batch,
          " input and target lengths, got ", input_lengths.size(), " and ", target_lengths.size());
    p.input_lengths.assign(input_lengths.begin(), input_lengths.end());
    p.target_lengths.assign(target_lengths.begin(), target_lengths.end());
    check(targets.dim() == 1 || (targets.dim() == 2 && targets.size(0) == p.batch),
          "expected targets of shape (sum of target lengths) or (", p.batch, ", S), got ", targets.shape());
    int64_t total = 0;
    for (int64_t n = 0; n < p.batch; n++) {
        int64_t in = p.input_lengths[n], out = p.target_lengths[n];
        check(in >= 0 && in <= p.steps, "input length ", in, " is not between 0 and the number of steps, ", p.steps);
        check(out >= 0, "target length ", out, " is negative");
        if (targets.dim() == 2)
            check(out <= targets.size(1), "target length ", out, " exceeds the width of targets, ", targets.shape());
        p.starts.push_back(targets.dim() == 2 ? n * targets.size(1) : total);
        total += out;
        p.longest = std::max(p.longest, out);
    }
    if (targets.dim() == 1)
        check(total == targets.size(0), "target lengths sum to ", total, ", but there are ", targets.size(0),
              " targets");
    return p;
}

Tensor labels_of(const Tensor& targets) { return contiguous(to_dtype(targets, DType::I64)); }
Dims alpha_shape(const device::CtcProblem& p) { return {p.batch, p.steps, 2 * p.longest + 1}; }

}  // namespace

// Losses of all sequences, and alpha for the gradient.
OP("_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank, "
   "bool zero_infinity) -> (Tensor loss, Tensor alpha)",
   FUNCTION, R"(The work behind fb.nn.functional.ctc_loss(), before the reduction.

Args:
    log_probs: (T, N, C).
    targets: (N, S), or all targets one after the other.
    input_lengths: how many steps each sequence has.
    target_lengths: how many labels each target has.
    blank: the class that stands for no label.
    zero_infinity: whether the gradient of an infinite loss is zero.

Example:
    >>> fb._ctc_loss(fb.zeros(1, 1, 2), fb.tensor([[1]]), [1], [1], 0, False).loss
    tensor([0.])
)") {
    OpScope scope("ctc_loss");
    device::CtcProblem p = read(a.tensor(0), a.tensor(1), a.dims(2), a.dims(3), a.integer(4));
    Tensor log_probs = contiguous(a.tensor(0));
    DType dtype = log_probs.dtype();
    Tensor loss = empty({p.batch}, dtype, log_probs.device()),
           alpha = full(alpha_shape(p), Scalar(0.0), dtype, log_probs.device());
    device::losses(log_probs).ctc(p, labels_of(a.tensor(1)), log_probs, loss, alpha);
    return std::vector<Tensor>{loss, alpha};
}

OP("_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, Tensor loss, Tensor alpha, "
   "int[] input_lengths, int[] target_lengths, int blank, bool zero_infinity) -> Tensor",
   0) {
    device::CtcProblem p = read(a.tensor(1), a.tensor(2), a.dims(5), a.dims(6), a.integer(7));
    Tensor log_probs = contiguous(a.tensor(1)), grad = contiguous(a.tensor(0)), loss = contiguous(a.tensor(3)),
           alpha = contiguous(a.tensor(4));
    check(alpha.shape() == alpha_shape(p) && loss.numel() == p.batch && grad.numel() == p.batch,
          "results of the forward pass do not fit");
    Tensor out = empty(log_probs.shape(), log_probs.dtype(), log_probs.device());
    device::losses(log_probs).ctc_backward(p, labels_of(a.tensor(2)), grad, log_probs, loss, alpha, a.flag(8), out);
    return out;
}
}  // namespace fb
