// Connectionist temporal classification: the probability of a target under all its alignments with the input.
// A target of S labels is walked through 2S + 1 states, label or blank; sums over paths run forward (alpha) and
// backward (beta) in time, in log space.
#include <cmath>
#include <limits>

#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

template <class T>
constexpr T never = -std::numeric_limits<T>::infinity();

template <class T>
T log_sum(T a, T b) {
    T top = std::max(a, b);
    return top == never<T> ? top : top + std::log1p(std::exp(std::min(a, b) - top));
}
template <class T>
T log_sum(T a, T b, T c) {
    T top = std::max({a, b, c});
    if (top == never<T>) return top;
    return top + std::log(std::exp(a - top) + std::exp(b - top) + std::exp(c - top));
}

// The arguments, checked: log_probs (T, N, C), targets (N, S) or one after the other.
struct Problem {
    int64_t steps, batch, classes, blank;
    std::vector<int64_t> input_lengths, target_lengths, starts;
    std::vector<int64_t> labels;
    int64_t longest = 0;  // target
};

Problem read(const Tensor& log_probs, const Tensor& targets, const Dims& input_lengths, const Dims& target_lengths,
             int64_t blank) {
    Problem p;
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
    Tensor flat = contiguous(to_dtype(targets, DType::I64));
    const int64_t* labels = flat.data<int64_t>();
    p.labels.assign(labels, labels + flat.numel());
    for (int64_t n = 0; n < p.batch; n++) {
        for (int64_t s = 0; s < p.target_lengths[n]; s++) {
            int64_t label = p.labels[p.starts[n] + s];
            check(label >= 0 && label < p.classes, "target ", label, " is not one of ", p.classes, " classes");
        }
    }
    return p;
}

// One sequence: its states and their labels.
struct Path {
    const Problem& p;
    int64_t n, steps, states;
    Path(const Problem& problem, int64_t n)
        : p(problem), n(n), steps(problem.input_lengths[n]), states(2 * problem.target_lengths[n] + 1) {}
    int64_t label(int64_t s) const { return s % 2 ? p.labels[p.starts[n] + s / 2] : p.blank; }
    // Whether a path may come from two states earlier: past a blank between different labels.
    bool skips(int64_t s) const { return s % 2 && s > 1 && label(s) != label(s - 2); }
};

// alpha[t, s]: log of the sum over all beginnings of paths that are in state s at time t.
template <class T>
T forward(const Path& path, const T* log_probs, T* alpha, int64_t width) {
    const Problem& p = path.p;
    if (path.steps == 0) return path.states == 1 ? T(0) : std::numeric_limits<T>::infinity();
    for (int64_t t = 0; t < path.steps; t++) {
        const T* now = log_probs + (t * p.batch + path.n) * p.classes;
        T* row = alpha + t * width;
        const T* before = row - width;
        for (int64_t s = 0; s < path.states; s++) {
            T into;
            if (t == 0) into = s < 2 ? T(0) : never<T>;
            else
                into =
                    log_sum<T>(before[s], s > 0 ? before[s - 1] : never<T>, path.skips(s) ? before[s - 2] : never<T>);
            row[s] = into + now[path.label(s)];
        }
    }
    const T* last = alpha + (path.steps - 1) * width + path.states - 1;
    return -(path.states > 1 ? log_sum<T>(last[0], last[-1]) : last[0]);
}

// The gradient of one sequence's loss, times `g`: exp(log_probs) minus the share of paths through each class.
template <class T>
void backward(const Path& path, const T* log_probs, const T* alpha, int64_t width, T loss, T g, bool zero_infinity,
              T* out) {
    const Problem& p = path.p;
    for (int64_t t = 0; t < p.steps; t++) std::fill_n(out + (t * p.batch + path.n) * p.classes, p.classes, T(0));
    if (zero_infinity && loss == std::numeric_limits<T>::infinity()) return;
    std::vector<T> beta(path.states), next(path.states), through(p.classes);
    for (int64_t t = path.steps - 1; t >= 0; t--) {
        const T* now = log_probs + (t * p.batch + path.n) * p.classes;
        const T* a = alpha + t * width;
        std::fill(through.begin(), through.end(), never<T>);
        for (int64_t s = 0; s < path.states; s++) {
            T onward;
            if (t == path.steps - 1) onward = s >= path.states - 2 ? T(0) : never<T>;
            else
                onward = log_sum<T>(next[s], s + 1 < path.states ? next[s + 1] : never<T>,
                                    s + 2 < path.states && path.skips(s + 2) ? next[s + 2] : never<T>);
            T& sum = through[path.label(s)];
            sum = log_sum<T>(sum, a[s] + onward);
            beta[s] = onward + now[path.label(s)];
        }
        T* row = out + (t * p.batch + path.n) * p.classes;
        for (int64_t c = 0; c < p.classes; c++) row[c] = g * (std::exp(now[c]) - std::exp(through[c] + loss));
        std::swap(beta, next);
    }
}

Dims alpha_shape(const Problem& p) { return {p.batch, p.steps, 2 * p.longest + 1}; }

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
    Problem p = read(a.tensor(0), a.tensor(1), a.dims(2), a.dims(3), a.integer(4));
    Tensor log_probs = contiguous(a.tensor(0));
    Tensor loss = empty({p.batch}, log_probs.dtype()), alpha = full(alpha_shape(p), Scalar(0.0), log_probs.dtype());
    dispatch<float, double>(log_probs.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        int64_t width = alpha.size(2);
        parallel_for(p.batch, 1, [&](int64_t begin, int64_t end) {
            for (int64_t n = begin; n < end; n++)
                loss.data<T>()[n] =
                    forward(Path(p, n), log_probs.data<T>(), alpha.data<T>() + n * p.steps * width, width);
        });
    });
    return std::vector<Tensor>{loss, alpha};
}

OP("_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, Tensor loss, Tensor alpha, "
   "int[] input_lengths, int[] target_lengths, int blank, bool zero_infinity) -> Tensor",
   0) {
    Problem p = read(a.tensor(1), a.tensor(2), a.dims(5), a.dims(6), a.integer(7));
    Tensor log_probs = contiguous(a.tensor(1)), grad = contiguous(a.tensor(0)), loss = contiguous(a.tensor(3)),
           alpha = contiguous(a.tensor(4));
    check(alpha.shape() == alpha_shape(p) && loss.numel() == p.batch && grad.numel() == p.batch,
          "results of the forward pass do not fit");
    bool zero_infinity = a.flag(8);
    Tensor out = empty(log_probs.shape(), log_probs.dtype());
    dispatch<float, double>(log_probs.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        int64_t width = alpha.size(2);
        parallel_for(p.batch, 1, [&](int64_t begin, int64_t end) {
            for (int64_t n = begin; n < end; n++)
                backward(Path(p, n), log_probs.data<T>(), alpha.data<T>() + n * p.steps * width, width,
                         loss.data<T>()[n], grad.data<T>()[n], zero_infinity, out.data<T>());
        });
    });
    return out;
}
GRAD("_ctc_loss", IN(0) | IN(1) | RESULT(0) | RESULT(1)) {
    c.set(0, call<"_ctc_loss_backward">(c.g(), c.in(0), c.in(1), c.out(0), c.out(1), c.dims(2), c.dims(3), c.integer(4),
                                        c.flag(5)));
}
GRAD("_ctc_loss_backward") {
    fail(ErrorKind::NotImplemented, "ctc_loss has no second derivative; differentiate it once (create_graph=False)");
}

}  // namespace fb
