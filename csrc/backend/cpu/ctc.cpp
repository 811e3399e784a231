// Connectionist temporal classification: the probability of a target under all its alignments with the input.
// A target of S labels becomes 2S + 1 states, label or blank; sums over paths run forward (alpha) and backward (beta)
// in time, in log space.
#include "backend/cpu/ctc.h"

#include <cmath>
#include <limits>

#include "base/parallel.h"

namespace fb::cpu {
namespace {

using device::CtcProblem;

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

// One sequence: its states and their labels.
struct Path {
    const CtcProblem& p;
    const int64_t* labels;
    int64_t n, steps, states;
    Path(const CtcProblem& problem, const std::vector<int64_t>& all, int64_t n)
        : p(problem),
          labels(all.data() + problem.starts[n]),
          n(n),
          steps(problem.input_lengths[n]),
          states(2 * problem.target_lengths[n] + 1) {}
    int64_t label(int64_t s) const { return s % 2 ? labels[s / 2] : p.blank; }
    // Whether a path may skip a state: a blank between different labels.
    bool skips(int64_t s) const { return s % 2 && s > 1 && label(s) != label(s - 2); }
};

// alpha[t, s]: log of the sum over all path prefixes that are in state s at time t.
template <class T>
T forward(const Path& path, const T* log_probs, T* alpha, int64_t width) {
    const CtcProblem& p = path.p;
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
    const CtcProblem& p = path.p;
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

// A copy, because other threads may write to the targets.
std::vector<int64_t> checked_labels(const CtcProblem& p, const Tensor& targets) {
    std::vector<int64_t> labels(targets.data<int64_t>(), targets.data<int64_t>() + targets.numel());
    for (int64_t n = 0; n < p.batch; n++) {
        for (int64_t s = 0; s < p.target_lengths[n]; s++) {
            int64_t label = labels[p.starts[n] + s];
            check(label >= 0 && label < p.classes, "target ", label, " is not one of ", p.classes, " classes");
        }
    }
    return labels;
}

}  // namespace

void ctc_loss(const CtcProblem& p, const Tensor& targets, const Tensor& log_probs, const Tensor& loss,
              const Tensor& alpha) {
    std::vector<int64_t> labels = checked_labels(p, targets);
    dispatch<float, double>(log_probs.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        int64_t width = alpha.size(2);
        parallel_for(p.batch, 1, [&](int64_t begin, int64_t end) {
            for (int64_t n = begin; n < end; n++)
                loss.data<T>()[n] =
                    forward(Path(p, labels, n), log_probs.data<T>(), alpha.data<T>() + n * p.steps * width, width);
        });
    });
}

void ctc_loss_backward(const CtcProblem& p, const Tensor& targets, const Tensor& grad, const Tensor& log_probs,
                       const Tensor& loss, const Tensor& alpha, bool zero_infinity, const Tensor& out) {
    std::vector<int64_t> labels = checked_labels(p, targets);
    dispatch<float, double>(log_probs.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        int64_t width = alpha.size(2);
        parallel_for(p.batch, 1, [&](int64_t begin, int64_t end) {
            for (int64_t n = begin; n < end; n++)
                backward(Path(p, labels, n), log_probs.data<T>(), alpha.data<T>() + n * p.steps * width, width,
                         loss.data<T>()[n], grad.data<T>()[n], zero_infinity, out.data<T>());
        });
    });
}

}  // namespace fb::cpu
