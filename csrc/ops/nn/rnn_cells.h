// What the cells of recurrent layers share.
#pragma once
#include <cmath>

#include "backend/cpu/vector_exp.h"
#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb {

template <class T>
inline T sigmoid_of(T x) {
    return 1 / (1 + vector_exp(-x));
}
// Exact enough and without cancellation near zero: a short series there.
template <class T>
inline T tanh_of(T x) {
    T y = std::abs(x), e = vector_exp(-2 * y), far = (1 - e) / (1 + e), q = x * x;
    T near = y * (1 + q * (T(-1.0 / 3) + q * (T(2.0 / 15) + q * (T(-17.0 / 315) + q * T(62.0 / 2835)))));
    T limit = sizeof(T) == 4 ? T(0.1) : T(0.004);
    return std::copysign(y < limit ? near : far, x);
}

inline void check_cell(const Tensor& x, const Tensor& hidden, const Tensor& state, int64_t gates) {
    check(x.dim() == 2 && state.dim() == 2 && x.shape() == hidden.shape() && x.size(0) == state.size(0) &&
              x.size(1) == gates * state.size(1),
          "gates ", x.shape(), " and ", hidden.shape(), " do not fit the state ", state.shape());
    check(x.dtype() == hidden.dtype() && x.dtype() == state.dtype(), "gates and state differ in dtype: ", x.dtype(),
          ", ", hidden.dtype(), " and ", state.dtype());
}

// f(row) for all rows.
template <class F>
void each_cell_row(int64_t rows, int64_t width, F f) {
    parallel_for(rows, std::max<int64_t>(1, parallel_grain / 8 / std::max<int64_t>(1, width)),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t r = begin; r < end; r++) f(r);
                 });
}

inline Var part(const Var& x, int64_t k, int64_t size) { return narrow(x, 1, k * size, size); }
inline Var joined(const std::vector<Var>& parts) { return call<"cat">(parts, 1); }

}  // namespace fb
