// Tensors filled by rule, without inputs. `t` is contiguous.
#pragma once
#include "device/table.h"

namespace fb::device {

// start + i * step: in wrapping integer arithmetic for integer dtypes, in double for the others.
struct Progression {
    uint64_t whole_start, whole_step;
    double start, step;
};

struct Creating {
    void (*progression)(const Tensor& t, const Progression& numbers);
    // Evenly spaced from `start` to `end`, both exact; as powers of `base` unless it is null.
    void (*spaced)(const Tensor& t, const Scalar& start, const Scalar& end, const double* base);
    // The indices of a triangle of a matrix with this number of columns: all row indices, then all column indices. Only
    // rows [first, last) have any; int32 or int64.
    void (*triangle)(const Tensor& t, int64_t first, int64_t last, int64_t columns, int64_t offset, bool upper);
};
inline const Creating& creating(const Tensor& on) { return device::on<Creating>(on.device()); }

}  // namespace fb::device
