#include "backend/gpu/probe.h"

#include <algorithm>

namespace fb::gpu {
namespace {

// Sums numbers in groups, with 64-bit arithmetic, and reports an error.
const Program& probe_program() {
    static const Program probe{
        "typedef struct { i64 n; f32 factor; } Params;\nFN f32 scaled(f32 x, f32 by) { return x * by; }\n",
        {{"probe",
          {"GLOBAL const f32* x", "GLOBAL f32* out"},
          R"(
    SHARED f32 part[64];
    part[LID] = GID < g.n ? scaled(x[GID], g.factor) : 0.0f;
    BARRIER;
    for (int step = SIZE / 2; step > 0; step /= 2) {
        if (LID < step) part[LID] += part[LID + step];
        BARRIER;
    }
    if (LID == 0) out[GROUP] = part[0];
    if (GID == g.n) FAIL(3, GID + ((i64)1 << 40));
)",
          64}}};
    return probe;
}

}  // namespace

std::string probe(Driver& driver) {
    try {
        std::vector<const Kernel*> kernels = driver.build(probe_program());
        if (kernels.empty()) return "a program cannot be built: " + driver.why();
        constexpr int n = 200, groups = 4;
        float x[n], out[groups];
        for (int i = 0; i < n; i++) x[i] = static_cast<float>(i);
        Block* block = driver.allocator().allocate(4096);
        char* at = static_cast<char*>(block->data);
        driver.upload(0, at + 512, x, sizeof x);
        struct {
            int64_t n;
            float factor;
        } params{n, 2};
        char* pointers[] = {at + 512, at + 2048};
        static constexpr Fault unused[4] = {};
        Launch l;
        l.kernel = kernels[0];
        l.items = n;
        l.pointers = pointers;
        l.params = &params;
        l.bytes = sizeof params;
        l.faults = unused;
        driver.launch(0, l, 77);
        Mark mark = driver.mark(0);
        if (!driver.wait(mark, 60'000)) return "a kernel did not end within a minute";
        FaultWord word;
        bool failed = driver.take_fault(0, word);
        driver.copy(0, at, at + 2048, sizeof out);
        if (!driver.wait(driver.mark(0), 60'000)) return "a copy did not end within a minute";
        driver.read(out, at, sizeof out);
        driver.allocator().free(block);
        for (int g = 0; g < groups; g++) {
            float sum = 0;
            for (int i = g * 64; i < std::min(n, g * 64 + 64); i++) sum += 2 * x[i];
            if (out[g] != sum) return "a kernel computed " + std::to_string(out[g]) + " for " + std::to_string(sum);
        }
        if (!failed || word.code != 3 || word.launch != 77 || word.index != n + (int64_t(1) << 40))
            return "a kernel could not report an error";
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

}  // namespace fb::gpu
