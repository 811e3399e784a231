// Reductions over any dimensions of any layout, and argmin/argmax.
#pragma once
#include "device/table.h"

namespace fb::device {

// The rows of formulas/reduction.def that reduce() computes. Extremes and Moments have two results.
enum class Reduction {
#define REDUCTION(name, ...) name,
#define STATES REDUCTION
#define PLACES(...)
#define SCAN(...)
#include "device/formulas/reduction.def"
#undef REDUCTION
#undef STATES
#undef PLACES
#undef SCAN
};

struct Summary {
    int64_t nan = 0, infinite = 0, finite = 0;
    double low, high, sum;  // of the finite numbers
};

struct Reducing {
    // Elements of `in` are read as dtype `read`. `reduced[d]` is nonzero for reduced dimensions; `outs` have the shape
    // of `in` without them, or with size 1. `numbers` are those of the row: the count for Mean; the correction and
    // whether to take the root for Moments.
    void (*reduce)(Reduction how, DType read, const Tensor& in, const Dims& reduced, const Tensor* outs,
                   const double* numbers);
    // The first extreme along a non-empty `dim`: its index, and its value unless `values` is undefined.
    void (*extreme_along)(const Tensor& in, int64_t dim, bool largest, const Tensor& values, const Tensor& indices);
    // out = |in| ** order, and t = t ** (1 / order) for contiguous float64.
    void (*absolute_power)(const Tensor& in, const Tensor& out, double order);
    void (*take_root)(const Tensor& t, double order);
    // log Σ exp of each row of contiguous complex128 numbers, one per element of `out`.
    void (*complex_logsumexp)(const Tensor& rows, const Tensor& out);
    // The elements of a contiguous vector summed in order, in double (complex128, or wrapping integers).
    void (*sum_in_order)(const Tensor& in, const Tensor& out);
    // Of a contiguous float32, float64, complex64 or complex128 tensor; complex parts count separately.
    Summary (*summarise)(const Tensor& in);
};
inline const Reducing& reducing(const Tensor& on) { return device::on<Reducing>(on.device()); }

}  // namespace fb::device
