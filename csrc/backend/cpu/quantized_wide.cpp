// Products with quantized weights by AVX-512 with VNNI (Note [Processor levels] in base/cpu_level.h).
#if defined(__x86_64__)
#include <immintrin.h>

#include <bit>
#include <cstring>
#include <type_traits>

#include "backend/cpu/quantized.h"

#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in the intrinsics of gcc 12
#pragma GCC diagnostic ignored "-Wuninitialized"
#define FB_WIDE

namespace fb::cpu {
namespace {
#include "backend/cpu/quantized_formats.h"
}  // namespace

const QuantKernels& quant_kernels_wide() {
    static constexpr QuantKernels kernels = kernels_of_level;
    return kernels;
}
}  // namespace fb::cpu
#endif
