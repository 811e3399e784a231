// Cross entropy of scores and classes, several pointwise steps in one pass.
#include <cmath>
#include <limits>

#include "autograd/mode.h"
#include "backend/cpu/vector_exp.h"
#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

template <class F>
void each_row(int64_t rows, int64_t width, F f) {
    parallel_for(rows, std::max<int64_t>(1, parallel_grain / 8 / std::max<int64_t>(1, width)),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t r = begin; r < end; r++) f(r);
                 });
}

}  // namespace

OP("_cross_entropy(Tensor input, Tensor target, int ignore_index, float smoothing=0) -> (Tensor loss, Tensor "
   "logsumexp)",
   FUNCTION,
   R"(The work behind fb.nn.functional.cross_entropy() for rows of scores and their classes.

Args:
    input: (N, C) scores.
    target: (N,) classes, int64.
    ignore_index: a class whose loss is 0.
    smoothing: the share of the target that is spread evenly over all classes.

Example:
    >>> fb._cross_entropy(fb.zeros(1, 2), fb.tensor([1]), -100).loss
    tensor([0.6931])
)") {
    OpScope scope("cross_entropy");
    Tensor input = contiguous(a.tensor(0)), target = contiguous(a.tensor(1));
    check(input.dim() == 2 && target.shape() == Dims{input.size(0)} && target.dtype() == DType::I64,
          "expected scores (N, C) and int64 classes (N,), got ", input.shape(), " and ", target.shape());
    int64_t rows = input.size(0), classes = input.size(1), ignored = a.integer(2);
    double smoothing = a.number(3);
    const int64_t* y = target.data<int64_t>();
    for (int64_t r = 0; r < rows; r++) {
        if (y[r] != ignored && (y[r] < 0 || y[r] >= classes))
            fail_index("target ", y[r], " is out of bounds for ", classes, " classes");
    }
    Tensor loss = empty({rows}, input.dtype()), logsumexp = empty({rows}, input.dtype());
    dispatch<float, double>(input.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_row(rows, classes * 8, [&](int64_t r) {
            const T* __restrict x = input.data<T>() + r * classes;
            T top = -std::numeric_limits<T>::infinity();
            double total = 0, scores = 0;
#pragma omp simd reduction(max : top)
            for (int64_t k = 0; k < classes; k++) top = x[k] > top ? x[k] : top;
            for (int64_t first = 0; first < classes; first += 1024) {
                int64_t last = std::min(classes, first + 1024);
                T part = 0;
#pragma omp simd reduction(+ : part)
                for (int64_t k = first; k < last; k++) part += vector_exp(x[k] - top);
                total += part;
                if (smoothing == 0) continue;
                T sum = 0;
#pragma omp simd reduction(+ : sum)
                for (int64_t k = first; k < last; k++) sum += x[k] - top;
                scores += sum;
            }
            T log_total = static_cast<T>(std::log(total));
            logsumexp.data<T>()[r] = top + log_total;
            if (y[r] == ignored) {
                loss.data<T>()[r] = 0;
                return;
            }
            T exact = log_total - (x[y[r]] - top);
            // Mean of the losses of all classes.
            T spread = smoothing == 0 ? T(0) : static_cast<T>(std::log(total) - scores / double(classes));
            loss.data<T>()[r] = smoothing == 0 ? exact : T(1 - smoothing) * exact + T(smoothing) * spread;
        });
    });
    return std::vector<Tensor>{loss, logsumexp};
}

OP("_cross_entropy_backward(Tensor grad, Tensor input, Tensor target, Tensor logsumexp, int ignore_index, "
   "float smoothing) -> Tensor",
   0) {
    Tensor grad = contiguous(a.tensor(0)), input = contiguous(a.tensor(1)), target = contiguous(a.tensor(2)),
           lse = contiguous(a.tensor(3));
    int64_t rows = input.size(0), classes = input.size(1), ignored = a.integer(4);
    double smoothing = a.number(5);
    const int64_t* y = target.data<int64_t>();
    Tensor out = empty(input.shape(), input.dtype());
    dispatch<float, double>(input.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_row(rows, classes * 8, [&](int64_t r) {
            const T* __restrict x = input.data<T>() + r * classes;
            T* __restrict to = out.data<T>() + r * classes;
            if (y[r] == ignored) {
                std::fill_n(to, classes, T(0));
                return;
            }
            T g = grad.data<T>()[r], shift = lse.data<T>()[r], share = T(smoothing / double(classes));
#pragma omp simd
            for (int64_t k = 0; k < classes; k++) to[k] = g * (vector_exp(x[k] - shift) - share);
            check(y[r] >= 0 && y[r] < classes, "classes were changed between the loss and its gradient");
            to[y[r]] -= g * T(1 - smoothing);
        });
    });
    return out;
}
GRAD("_cross_entropy", IN(0) | IN(1) | RESULT(1)) {
    if (!grad_enabled() && !c.has(1)) {
        c.set(0, call<"_cross_entropy_backward">(c.g(0), c.in(0), c.in(1), c.out(1), c.integer(2), c.number(3)));
        return;
    }
    Var x = c.in(0), weights = call<"softmax">(x, 1), ignored = c.in(1) == Var(Scalar(c.integer(2)));
    Var g = unsqueeze(masked_fill(c.g(0), ignored, 0), 1);
    Var index = unsqueeze(masked_fill(c.in(1), ignored, 0), 1);
    double smoothing = c.number(3);
    Var slope = g * (smoothing == 0 ? weights : weights - Var(smoothing / double(c.shape(0)[1])));
    slope = scatter_add(slope, 1, index, g * (smoothing - 1));
    c.set(0, c.has(1) ? slope + unsqueeze(c.g(1), 1) * weights : slope);
}

}  // namespace fb
