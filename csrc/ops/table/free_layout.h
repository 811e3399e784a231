// Whether any result in this process ever had a free layout (Note [Layout freedom]): before that ops need not check.
#pragma once
#include "tensor/tensor.h"

namespace fb {

extern std::atomic<bool> free_layouts;

// For a result that no other thread can see yet.
inline void set_free_layout(const Tensor& t, bool on) {
    if (on) free_layouts.store(true, std::memory_order_relaxed);
    t.impl()->free_layout = on;
}

}  // namespace fb
