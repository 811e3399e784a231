// Whether any result of this process ever had a free layout (Note [Layout freedom]): until then ops need not look.
#pragma once
#include "tensor/tensor.h"

namespace fb {

extern std::atomic<bool> free_layouts;

// For a result that no other thread knows yet.
inline void set_free_layout(const Tensor& t, bool on) {
    if (on) free_layouts.store(true, std::memory_order_relaxed);
    t.impl()->free_layout = on;
}

}  // namespace fb
