// Tensor creation, shared by the creation ops and other families.
#pragma once
#include "ops/table/common.h"

namespace fb {

enum class MemoryFormat : int64_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

// Dense strides of a memory format for a shape; raises an error if the number of dimensions does not fit.
Dims format_strides(const Dims& shape, MemoryFormat format);
bool has_format(const Tensor& t, MemoryFormat format);
Tensor empty_format(const Dims& shape, DType dtype, Device device, MemoryFormat format);
// A copy with the given layout; Preserve keeps a dense one.
Tensor clone(const Tensor& t, MemoryFormat format);
Tensor contiguous(const Tensor& t, MemoryFormat format);
inline MemoryFormat format_or(const Args& a, int i, MemoryFormat fallback) {
    return a.given(i) ? static_cast<MemoryFormat>(a.integer(i)) : fallback;
}

// The keyword arguments at the end of every creation op, in this order:
//   dtype? dtype, layout? layout, device? device, bool? pin_memory, bool? requires_grad
struct Options {
    std::optional<DType> dtype;
    Device device;
};
// Reads the five arguments from index `first` on; layouts other than strided are errors. pin_memory and requires_grad
// are handled by the dispatcher.
Options options(const Args& a, int first, Device device = default_device());
// With deterministic algorithms, fills t's storage from element `first` on with values that show it was never set.
void unset_from(const Tensor& t, int64_t first);
// dtype= if given, else that of out=, else the fallback; dtype= and out= must agree.
DType dtype_or(const Args& a, const Options& o, DType fallback);

#define FB_OPTIONS \
    "dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=False, bool? requires_grad=False"

// A vector of these numbers.
Tensor int_tensor(const Dims& values, Device device);
// 0, 1, … count - 1 as int32 or int64.
Tensor arange(int64_t count, DType dtype, Device device);

}  // namespace fb
