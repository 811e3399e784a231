// Sorting, selecting and searching. Rows are along the last dimension of contiguous tensors.
#pragma once
#include "device/table.h"

namespace fb::device {

enum class Select { Kth, Median, NanMedian };

// Only requested fields are defined: each element's (or slice's) index among the values, and the count of each value.
struct Distinct {
    Tensor values, inverse, counts;
};

struct Sorting {
    // Stable. Sorted values and their original indices (int64); bool sorts as uint8.
    void (*sort)(const Tensor& in, bool descending, const Tensor& values, const Tensor& indices);
    void (*topk)(const Tensor& in, int64_t k, bool largest, bool sorted, const Tensor& values, const Tensor& indices);
    // One value and index per row; k counts from 0.
    void (*select)(const Tensor& in, Select what, int64_t k, const Tensor& values, const Tensor& indices);
    void (*mode)(const Tensor& in, const Tensor& values, const Tensor& indices);
    // Number of elements of the sorted row before each value (or not after it, with `right`). One row for all values,
    // or one per row of values; `sorter` gives the order of the elements, unless undefined. int64, uint64, float32 or
    // float64; `out` is int32 or int64.
    void (*search)(const Tensor& rows, const Tensor& sorter, const Tensor& values, bool right, const Tensor& out);
    // Whether each element is in `wanted`; dtypes as for search.
    void (*contains)(const Tensor& x, const Tensor& wanted, bool invert, const Tensor& out);
    // The distinct elements, sorted (`ordered`) or with only neighbours compared; or the distinct slices along the
    // first dimension.
    Distinct (*distinct)(const Tensor& t, bool ordered, bool inverse, bool counts);
    Distinct (*distinct_slices)(const Tensor& t, bool ordered, bool inverse, bool counts);
};
inline const Sorting& sorting(const Tensor& on) { return device::on<Sorting>(on.device()); }

}  // namespace fb::device
