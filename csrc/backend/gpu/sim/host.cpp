// Users' kernels on the CPU: the libraries of the simulated accelerator, on host memory.
#include <algorithm>

#include "backend/gpu/sim/sim.h"
#include "base/parallel.h"

namespace fb::gpu {

std::vector<const Kernel*> build_on_host(const Program& program, std::string& why) {
    return load_kernels(program, why);
}

void launch_on_host(const Launch& l) {
    const auto* kernel = static_cast<const SimKernel*>(l.kernel);
    void* data[most_pointers] = {};
    std::copy_n(l.pointers, kernel->pointers, data);
    FaultWord word;
    int64_t groups = (l.items + kernel->size - 1) / kernel->size;
    SimItem first{data, l.params, 0, 0, kernel->size, &word.set, 0, nullptr, nullptr};
    if (!kernel->one) {
        parallel_for(groups, std::max<int64_t>(1, parallel_grain / 4 / kernel->size),
                     [&](int64_t begin, int64_t end) { kernel->groups(&first, begin, end); });
    } else if (!run_with_barriers(kernel->one, first, groups)) {
        fail_state("a kernel has a barrier that only some items of a group reached");
    }
    if (word.set) raise_fault(l, word, "on device 'cpu'");
}

}  // namespace fb::gpu
