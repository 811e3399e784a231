// The kernels of device::Indexing, which are implemented in several files.
#pragma once
#include "device/index.h"

namespace fb::cpu {

using device::Combine;

void add_offsets(const Tensor& offsets, const Tensor& indices, int64_t dim, int64_t size, int64_t stride, bool wrap,
                 bool set);
void check_indices(const Tensor& indices, int64_t dim, int64_t size);
void gather_rows(const Tensor& to, const Tensor& rows, const Tensor& offsets, int64_t before);
void scatter_rows(const Tensor& rows, const Tensor& from, const Tensor& offsets, int64_t before, Combine combine);
void gather(const Tensor& to, const Tensor& t, int64_t dim, const Tensor& index, bool wrap);
void scatter(const Tensor& t, int64_t dim, const Tensor& index, const Tensor& src, Combine combine, bool checked);
void add_overlapping(const Tensor& view, const Tensor& from);
Tensor repeat_indices(const Tensor& counts);
void divide_by_counts(const Tensor& t, const Tensor& counts);
void mask_fill(const Tensor& to, const Tensor& from, const Tensor& mask, const Tensor& value);
Tensor mask_offsets(const Tensor& mask, const Dims& strides);
Tensor mask_select(const Tensor& t, const Tensor& mask);
Tensor mask_coordinates(const Tensor& mask);
int64_t count_true(const Tensor& mask);

}  // namespace fb::cpu
