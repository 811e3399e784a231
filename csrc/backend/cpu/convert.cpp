#include "backend/cpu/convert.h"

namespace fb::cpu {
namespace {

template <class To, class From>
void convert_loop(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t n) {
    if (to_stride == sizeof(To) && from_stride == sizeof(From)) {
        To* __restrict y = reinterpret_cast<To*>(to);
        const From* __restrict x = reinterpret_cast<const From*>(from);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = convert<To>(x[i]);
        return;
    }
    for (int64_t i = 0; i < n; i++) *reinterpret_cast<To*>(to + i * to_stride) = convert<To>(*reinterpret_cast<const From*>(from + i * from_stride));
}

}  // namespace

void convert_strided(char* to, DType to_dtype, int64_t to_stride, const char* from, DType from_dtype, int64_t from_stride, int64_t n) {
    dispatch_all(from_dtype, [&](auto from_tag) {
        dispatch_all(to_dtype, [&](auto to_tag) {
            convert_loop<typename decltype(to_tag)::type, typename decltype(from_tag)::type>(to, to_stride, from, from_stride, n);
        });
    });
}

}  // namespace fb::cpu
