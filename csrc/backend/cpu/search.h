// Searching in sorted rows, and counting: kernels of device::Sorting, implemented in several files.
#pragma once
#include "device/sort.h"

namespace fb::cpu {

void search(const Tensor& rows, const Tensor& sorter, const Tensor& values, bool right, const Tensor& out);
void contains(const Tensor& x, const Tensor& wanted, bool invert, const Tensor& out);
device::Distinct distinct(const Tensor& flat, bool ordered, bool inverse, bool counts);
device::Distinct distinct_slices(const Tensor& front, bool ordered, bool inverse, bool counts);

}  // namespace fb::cpu
