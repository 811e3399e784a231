// Inputs of layers that accept a single sample as well as a batch.
#pragma once
#include "ops/table/gradient.h"

namespace fb {

// Adds a batch dimension to a single sample for the duration of the call. `check_input(t, spatial)` rejects other
// shapes.
struct Batched {
    Var x;
    bool added;

    Batched(const Tensor& t, int64_t spatial, void (*check_input)(const Tensor& t, int64_t spatial))
        : x(t), added(t.dim() == spatial + 1) {
        check_input(t, spatial);
        if (added) x = unsqueeze(x, 0);
    }
    Tensor back(const Var& y) const { return (added ? squeeze(y, Dims{0}) : y).tensor; }
    std::vector<Tensor> back(const std::vector<Var>& all) const {
        std::vector<Tensor> result;
        for (const Var& y : all) result.push_back(back(y));
        return result;
    }
};

}  // namespace fb
