// Cross entropy of rows of scores, and connectionist temporal classification.
#include <cmath>
#include <limits>

#include "backend/cpu/ctc.h"
#include "backend/cpu/halves.h"
#include "backend/cpu/vector_exp.h"
#include "base/parallel.h"
#include "device/losses.h"

namespace fb::cpu {
namespace {

template <class F>
void each_row(int64_t rows, int64_t width, F f) {
    parallel_for(rows, std::max<int64_t>(1, parallel_grain / 8 / std::max<int64_t>(1, width)),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t r = begin; r < end; r++) f(r);
                 });
}

void cross_entropy(const Tensor& input, const Tensor& target, int64_t ignored, double smoothing, const Tensor& loss,
                   const Tensor& logsumexp) {
    int64_t rows = input.size(0), classes = input.size(1);
    const int64_t* y = target.data<int64_t>();
    for (int64_t r = 0; r < rows; r++) {
        if (y[r] != ignored && (y[r] < 0 || y[r] >= classes))
            fail_index("target ", y[r], " is out of bounds for ", classes, " classes");
    }
    dispatch_floating(input.dtype(), [&](auto tag) {
        using S = typename decltype(tag)::type;
        using T = Computed<S>;
        each_row(rows, classes * 8, [&](int64_t r) {
            Line<S> line(classes);
            const T* __restrict x = line.read(input.data<S>() + r * classes);
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
}

void cross_entropy_backward(const Tensor& grad, const Tensor& input, const Tensor& target, const Tensor& lse,
                            int64_t ignored, double smoothing, const Tensor& out) {
    int64_t rows = input.size(0), classes = input.size(1);
    const int64_t* y = target.data<int64_t>();
    dispatch_floating(input.dtype(), [&](auto tag) {
        using S = typename decltype(tag)::type;
        using T = Computed<S>;
        each_row(rows, classes * 8, [&](int64_t r) {
            if (y[r] == ignored) {
                std::fill_n(out.data<S>() + r * classes, classes, S());
                return;
            }
            Line<S> line(classes), made(classes);
            const T* __restrict x = line.read(input.data<S>() + r * classes);
            T* __restrict to = made.written(out.data<S>() + r * classes);
            T g = grad.data<T>()[r], shift = lse.data<T>()[r], share = T(smoothing / double(classes));
#pragma omp simd
            for (int64_t k = 0; k < classes; k++) to[k] = g * (vector_exp(x[k] - shift) - share);
            check(y[r] >= 0 && y[r] < classes, "classes were changed between the loss and its gradient");
            to[y[r]] -= g * T(1 - smoothing);
            made.store(out.data<S>() + r * classes);
        });
    });
}

const device::Provide<device::Losses> provided(DeviceType::CPU, {.cross_entropy = cross_entropy,
                                                                 .cross_entropy_backward = cross_entropy_backward,
                                                                 .ctc = ctc_loss,
                                                                 .ctc_backward = ctc_loss_backward});

}  // namespace
}  // namespace fb::cpu
