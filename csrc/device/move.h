// Moving elements: copies with conversion, and rearrangements of contiguous runs.
#pragma once
#include <vector>

#include "device/table.h"

namespace fb::device {

struct Part {
    const Tensor* tensor;
    int64_t start;  // offset along the dimension of joining
};

struct Moving {
    // Elementwise copy of `from` (broadcast) into `to`, any dtypes and strides.
    void (*copy)(const Tensor& to, const Tensor& from);
    // Fills contiguous `to` with the bytes of one element.
    void (*fill)(const Tensor& to, const char* element);
    // Copies host memory to contiguous `to`.
    void (*write)(const Tensor& to, const void* from);
    // Like copy, but fast for reversed runs. `to` and `from` have the same shape and dtype and do not overlap.
    void (*copy_flipped)(const Tensor& to, const Tensor& from);
    // to = from repeated along every dimension; both contiguous, with the same number of dimensions.
    void (*repeat)(const Tensor& to, const Tensor& from, const Dims& repeats);
    // Every block of `block` elements of a contiguous `from` written `times` times in a row.
    void (*interleave)(const Tensor& to, const Tensor& from, int64_t block, int64_t times);
    // Contiguous matrices (batch, rows, columns): keeps the elements on the wanted side of a diagonal, zeros the
    // others. to may be from.
    void (*keep_triangle)(const Tensor& to, const Tensor& from, int64_t diagonal, bool upper);
    // Copies contiguous tensors of one dtype into parts of a contiguous `to` along a dimension.
    void (*join)(const Tensor& to, const std::vector<Part>& parts, int64_t dim);
};
inline const Moving& moving(const Tensor& on) { return device::on<Moving>(on.device()); }

}  // namespace fb::device
