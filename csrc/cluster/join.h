// Elementwise reduction of two ranks' values, and the division that turns a sum into an average.
#pragma once
#include <cstddef>

#include "base/dtype.h"

namespace fb::cluster {

// In the order of JOINS in src/flambeau/distributed/_shared.py.
enum class Join : int { Sum, Product, Min, Max, And, Or, Xor, Average };

// Whether there is a kernel; other cases are composed of ops in Python.
bool can_join(DType dtype, Join op);

// out[i] = a[i] (op) b[i]; out may be a or b. Average adds; divide() follows once.
void join(DType dtype, Join op, void* out, const void* a, const void* b, size_t count);

// x[i] /= by; integers are rounded towards zero.
void divide(DType dtype, void* x, size_t count, int by);

}  // namespace fb::cluster
