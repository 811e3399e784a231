// Which instruction sets, beyond the one the library was compiled for, kernels may use on this processor.
//
// Note [Processor levels]: kernels that gain from newer instructions live in a file of their own, which has `#pragma
// GCC target(FB_TARGET_…)` below its includes (spelled out, because a pragma expands no macro) or the attribute on its
// functions. Their callers ask cpu_has() first. Such a file defines no inline function or template outside an anonymous
// namespace and instantiates no template of others; otherwise the linker could pick its copy for the whole library.
// Levels include all lower ones. FLAMBEAU_CPU_LEVEL=avx2 (or avx512, avx512_vnni, avx512_bf16) lowers the level in use;
// set_cpu_level() does so for tests.
#pragma once
#include <cstdint>

namespace fb {

enum class CpuLevel : uint8_t { Baseline, AVX2, AVX512, AVX512_VNNI, AVX512_BF16 };

#define FB_TARGET_AVX512 __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")))
#define FB_TARGET_VNNI __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define FB_TARGET_BF16 __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")))

CpuLevel machine_level();  // the level of the processor
CpuLevel cpu_level();      // the level in use
void set_cpu_level(CpuLevel level);
inline bool cpu_has(CpuLevel level) { return cpu_level() >= level; }

const char* name(CpuLevel level);
CpuLevel level_named(const char* text);  // a ValueError for an unknown level, or one above the processor's

}  // namespace fb
