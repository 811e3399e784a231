// Order: sorting, selecting and searching. Rows lie along the last dimension of contiguous tensors.
#pragma once
#include "device/table.h"

namespace fb::device {

enum class Select { Kth, Median, NanMedian };

// What was asked for is defined: for each element (or slice) its place among the values, and how often each comes.
struct Distinct {
    Tensor values, inverse, counts;
};

struct Sorting {
    // Stable. Values and where they came from (int64); bool sorts as uint8.
    void (*sort)(const Tensor& in, bool descending, const Tensor& values, const Tensor& indices);
    void (*topk)(const Tensor& in, int64_t k, bool largest, bool sorted, const Tensor& values, const Tensor& indices);
    // One value and place per row; k counts from 0.
    void (*select)(const Tensor& in, Select what, int64_t k, const Tensor& values, const Tensor& indices);
    void (*mode)(const Tensor& in, const Tensor& values, const Tensor& indices);
    // How many elements of its sorted row lie before each value (or up to it, with `right`). One row for all values, or
    // one for each of theirs; `sorter` says where the sorted elements are, unless undefined. int64, uint64, float32 or
    // float64; `out` is int32 or int64.
    void (*search)(const Tensor& rows, const Tensor& sorter, const Tensor& values, bool right, const Tensor& out);
    // Whether each element is one of those wanted; dtypes as for search.
    void (*contains)(const Tensor& x, const Tensor& wanted, bool invert, const Tensor& out);
    // The different elements, in order or as they come, with neighbours compared only; or the different slices along
    // the first dimension.
    Distinct (*distinct)(const Tensor& t, bool ordered, bool inverse, bool counts);
    Distinct (*distinct_slices)(const Tensor& t, bool ordered, bool inverse, bool counts);
};
inline const Sorting& sorting(const Tensor& on) { return device::on<Sorting>(on.device()); }

}  // namespace fb::device
