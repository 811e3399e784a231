// Reading and writing by indices and masks. Callers have checked everything except the values of indices, which are
// checked where they are converted to offsets.
#pragma once
#include "device/table.h"

namespace fb::device {

// How a value is combined with the element it is written to.
enum class Combine { Assign, Add, Multiply, Max, Min };

struct Indexing {
    // offsets[i] += index[i] * stride for a contiguous int64 `offsets` and any integer `indices` that broadcast to it
    // (the first call assigns). An index outside [-size, size), or [0, size) without `wrap`, is an IndexError.
    void (*add_offsets)(const Tensor& offsets, const Tensor& indices, int64_t dim, int64_t size, int64_t stride,
                        bool wrap, bool set);
    // Checks all `indices` against [0, size).
    void (*check)(const Tensor& indices, int64_t dim, int64_t size);

    // to[b, i, a] = from[b, offsets[i], a]: `rows` is `from` at index 0 of the indexed dimensions; `before` of its
    // dimensions precede them. `to` is contiguous. Offsets are in bytes.
    void (*gather_rows)(const Tensor& to, const Tensor& rows, const Tensor& offsets, int64_t before);
    // to[b, offsets[i], a] ∘= from[b, i, a]; `rows` is the written tensor without the indexed dimensions, `from` has
    // shape (before…, n, after…). Several values for one element are combined in the order of i.
    void (*scatter_rows)(const Tensor& rows, const Tensor& from, const Tensor& offsets, int64_t before,
                         Combine combine);
    // to[…, i, …] = t[…, index[…, i, …], …]; checks the indices. All have the same number of dimensions, at least one.
    void (*gather)(const Tensor& to, const Tensor& t, int64_t dim, const Tensor& index, bool wrap);
    // t[…, index[…, i, …], …] ∘= src[…, i, …]. Unless the indices are `checked`, an invalid one is found only after
    // earlier values were written; several values for one element are combined in the order of i.
    void (*scatter)(const Tensor& t, int64_t dim, const Tensor& index, const Tensor& src, Combine combine,
                    bool checked);
    // view += from for a contiguous `from` of its shape, in order: elements of the view may share memory.
    void (*add_overlapping)(const Tensor& view, const Tensor& from);
    // 0 repeated counts[0] times, then 1 repeated counts[1] times, and so on, for contiguous int64 counts.
    Tensor (*repeat_indices)(const Tensor& counts);
    // t /= counts where counts > 1, rounding down for integers; counts is int64 and broadcasts.
    void (*divide_by_counts)(const Tensor& t, const Tensor& counts);

    // to = where(mask, value, from); `from` and `mask` broadcast to `to`, `value` is 0-d of the same dtype. to may be
    // from.
    void (*mask_fill)(const Tensor& to, const Tensor& from, const Tensor& mask, const Tensor& value);
    // For a contiguous mask: byte offsets of the selected elements, with strides in bytes per mask dimension; the
    // selected elements of a contiguous tensor of its shape; the coordinates of true elements, int64 (count, dim);
    // their count.
    Tensor (*mask_offsets)(const Tensor& mask, const Dims& strides);
    Tensor (*mask_select)(const Tensor& t, const Tensor& mask);
    Tensor (*mask_coordinates)(const Tensor& mask);
    int64_t (*count_true)(const Tensor& mask);
};
inline const Indexing& indexing(const Tensor& on) { return device::on<Indexing>(on.device()); }

}  // namespace fb::device
