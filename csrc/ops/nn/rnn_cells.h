// Shared by the cells of recurrent layers.
#pragma once
#include "ops/table/common.h"

namespace fb {

inline void check_cell(const Tensor& x, const Tensor& hidden, const Tensor& state, int64_t gates) {
    check(x.dim() == 2 && state.dim() == 2 && x.shape() == hidden.shape() && x.size(0) == state.size(0) &&
              x.size(1) == gates * state.size(1),
          "gates ", x.shape(), " and ", hidden.shape(), " do not fit the state ", state.shape());
    check(x.dtype() == hidden.dtype() && x.dtype() == state.dtype(), "gates and state differ in dtype: ", x.dtype(),
          ", ", hidden.dtype(), " and ", state.dtype());
}

}  // namespace fb
