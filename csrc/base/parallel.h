// The number of threads, the reason for it, and parallel_for. Work whose result could depend on the split is split at
// places that do not depend on the thread count (reductions use fixed blocks and hand out whole blocks here).
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>

namespace fb {

int num_threads();
void set_num_threads(int n);
// "2: cgroup quota 2.0 CPUs, affinity 4, OMP_NUM_THREADS unset".
std::string num_threads_reason();
bool in_parallel_region();

// Loops of fewer simple element operations stay on the calling thread.
inline constexpr int64_t parallel_grain = 32768;

namespace detail {
void parallel_run(int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context);
}

// Calls f(begin, end) over [0, n), on several threads when n > grain. An exception in any chunk reaches the caller.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& f) {
    if (n <= 0) return;
    if (n <= grain || num_threads() == 1 || in_parallel_region()) {
        f(int64_t(0), n);
        return;
    }
    using Fn = std::remove_reference_t<F>;
    detail::parallel_run(
        n, grain, [](void* context, int64_t begin, int64_t end) { (*static_cast<Fn*>(context))(begin, end); }, &f);
}

}  // namespace fb
