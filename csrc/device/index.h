// Reading and writing by indices and masks. The callers have checked everything except the values of indices, which are
// checked where they are turned into offsets.
#pragma once
#include "device/table.h"

namespace fb::device {

// How a value meets the element it is written to.
enum class Combine { Assign, Add, Multiply, Max, Min };

struct Indexing {
    // offsets[i] += index[i] * stride for a contiguous int64 `offsets` and any integer `indices` that broadcasts to it
    // (the first call sets). An index outside [-size, size), or [0, size) without `wrap`, is an IndexError.
    void (*add_offsets)(const Tensor& offsets, const Tensor& indices, int64_t dim, int64_t size, int64_t stride,
                        bool wrap, bool set);
    // Checks all of `indices` against [0, size).
    void (*check)(const Tensor& indices, int64_t dim, int64_t size);

    // to[b, i, a] = from[b, offsets[i], a]: `rows` is from without the indexed dimensions at index 0; `before`
    // dimensions of it come first. `to` is contiguous. Offsets count bytes.
    void (*gather_rows)(const Tensor& to, const Tensor& rows, const Tensor& offsets, int64_t before);
    // to[b, offsets[i], a] ∘= from[b, i, a]; `rows` is the written tensor without the indexed dimensions, `from` has
    // shape (before…, n, after…). The values that meet one element do so in the order of i.
    void (*scatter_rows)(const Tensor& rows, const Tensor& from, const Tensor& offsets, int64_t before,
                         Combine combine);
    // to[…, i, …] = t[…, index[…, i, …], …]; checks the indices. All have one number of dimensions, at least one.
    void (*gather)(const Tensor& to, const Tensor& t, int64_t dim, const Tensor& index, bool wrap);
    // t[…, index[…, i, …], …] ∘= src[…, i, …]. Unless the indices are `checked`, a bad one is found when it is come to,
    // with some values written already; values meet one element in the order of i.
    void (*scatter)(const Tensor& t, int64_t dim, const Tensor& index, const Tensor& src, Combine combine,
                    bool checked);
    // view += from for a contiguous `from` of its shape, in order: elements of the view may be one in memory.
    void (*add_overlapping)(const Tensor& view, const Tensor& from);
    // 0 as often as the first count says, then 1, and so on, for contiguous int64 counts.
    Tensor (*repeat_indices)(const Tensor& counts);
    // t /= counts where counts > 1, rounding down for integers; counts is int64 and broadcasts.
    void (*divide_by_counts)(const Tensor& t, const Tensor& counts);

    // to = where(mask, value, from); `from` and `mask` broadcast to `to`, `value` is 0-d of the same dtype. to may be
    // from.
    void (*mask_fill)(const Tensor& to, const Tensor& from, const Tensor& mask, const Tensor& value);
    // Of a contiguous mask: byte offsets of the elements it selects, strides in bytes per mask dimension; the selected
    // elements of a contiguous tensor of its shape; the coordinates of what is true, int64 (count, dim); the count.
    Tensor (*mask_offsets)(const Tensor& mask, const Dims& strides);
    Tensor (*mask_select)(const Tensor& t, const Tensor& mask);
    Tensor (*mask_coordinates)(const Tensor& mask);
    int64_t (*count_true)(const Tensor& mask);
};
inline const Indexing& indexing(const Tensor& on) { return device::on<Indexing>(on.device()); }

}  // namespace fb::device
