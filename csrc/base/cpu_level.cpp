#include "base/cpu_level.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace fb {
namespace {

constexpr const char* names[] = {"baseline", "avx2", "avx512", "avx512_vnni", "avx512_bf16"};

CpuLevel detect() {
#if defined(__x86_64__)
    __builtin_cpu_init();
#define FB_HAS(feature) __builtin_cpu_supports(feature)
    if (!(FB_HAS("avx2") && FB_HAS("fma") && FB_HAS("f16c"))) return CpuLevel::Baseline;
    if (!(FB_HAS("avx512f") && FB_HAS("avx512bw") && FB_HAS("avx512dq") && FB_HAS("avx512vl"))) return CpuLevel::AVX2;
    if (!FB_HAS("avx512vnni")) return CpuLevel::AVX512;
    return FB_HAS("avx512bf16") ? CpuLevel::AVX512_BF16 : CpuLevel::AVX512_VNNI;
#undef FB_HAS
#else
    return CpuLevel::Baseline;
#endif
}

std::atomic<CpuLevel>& level() {
    static std::atomic<CpuLevel> level = [] {
        const char* text = std::getenv("FLAMBEAU_CPU_LEVEL");
        return text && *text ? level_named(text) : machine_level();
    }();
    return level;
}

}  // namespace

CpuLevel machine_level() {
    static const CpuLevel found = detect();
    return found;
}
CpuLevel cpu_level() { return level().load(std::memory_order_relaxed); }
void set_cpu_level(CpuLevel wanted) { level() = wanted; }

const char* name(CpuLevel level) { return names[static_cast<int>(level)]; }
CpuLevel level_named(const char* text) {
    for (int i = 0; i < int(std::size(names)); i++) {
        if (std::strcmp(text, names[i]) != 0) continue;
        auto wanted = static_cast<CpuLevel>(i);
        check(wanted <= machine_level(), "the processor level ", text,
              " was asked for (FLAMBEAU_CPU_LEVEL), but this processor has ", name(machine_level()));
        return wanted;
    }
    fail_value("FLAMBEAU_CPU_LEVEL is ", text, "; expected baseline, avx2, avx512, avx512_vnni or avx512_bf16");
}

}  // namespace fb
