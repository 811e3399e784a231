#include "base/parallel.h"

#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/fork.h"
#include "base/pool.h"

namespace fb {
namespace {

Mutex reason_mutex;
std::string reason_text;  // guarded by reason_mutex
void set_reason(std::string text) {
    std::lock_guard guard(reason_mutex);
    reason_text = std::move(text);
}

// Number of CPUs allowed by the cgroup quota, 0 without a limit.
double cgroup_quota() {
    std::string quota;
    double period = 0;
    if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2 >> quota >> period)
        return quota == "max" || period <= 0 ? 0 : std::atof(quota.c_str()) / period;
    std::ifstream q("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), p("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
    double us = 0;
    if (q >> us && p >> period && us > 0 && period > 0) return us / period;
    return 0;
}

int choose() {
    cpu_set_t set;
    CPU_ZERO(&set);
    int affinity = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    double quota = cgroup_quota();
    int n = affinity;
    if (quota > 0) n = std::min(n, std::max(1, static_cast<int>(quota + 0.5)));
    std::ostringstream why;
    why << "affinity allows " << affinity << " CPUs, ";
    if (quota > 0) why << "cgroup quota is " << quota << " CPUs";
    else why << "no cgroup quota";
    if (const char* env = std::getenv("OMP_NUM_THREADS"); env && std::atoi(env) > 0) {
        n = std::atoi(env);
        why << ", OMP_NUM_THREADS=" << n << " decides";
    }
    set_reason(why.str());
    return n;
}

std::atomic<int> threads{0};

// Worker threads do not survive fork(), and a child is seldom alone: it uses one thread unless told otherwise.
[[maybe_unused]] const bool registered = [] {
    after_fork_in_child([] {
        pool::forget();
        if (threads == 0) return;  // the number was never requested
        threads = 1;
        set_reason("forked child: worker threads do not survive fork()");
    });
    return true;
}();

}  // namespace

int num_threads() {
    int n = threads.load(std::memory_order_relaxed);
    if (n == 0) [[unlikely]] {
        n = choose();
        threads = n;
    }
    return n;
}

void set_num_threads(int n) {
    check(n >= 1 && n <= 1024, "number of threads must be from 1 to 1024, got ", n);
    num_threads();
    threads = n;
    set_reason("set by set_num_threads");
}

std::string num_threads_reason() {
    num_threads();
    std::lock_guard guard(reason_mutex);
    return reason_text;
}

bool in_parallel_region() { return pool::inside(); }

namespace detail {
void parallel_run(int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context) {
    // More chunks than threads if that pays: the threads of a busy machine run at different speeds.
    constexpr int64_t per_thread = 4;
    int width = num_threads();
    int64_t chunks = std::min((n + grain - 1) / grain, width * std::clamp<int64_t>(n / grain / width, 1, per_thread));
    struct Range {
        int64_t n, chunks;
        void (*body)(void*, int64_t, int64_t);
        void* context;
    } range{n, chunks, body, context};
    auto chunk = [](void* at, int64_t i) {
        auto& r = *static_cast<Range*>(at);
        r.body(r.context, r.n * i / r.chunks, r.n * (i + 1) / r.chunks);
    };
    if (!pool::run_chunks(chunks, width, chunk, &range)) body(context, 0, n);
}
}  // namespace detail

}  // namespace fb
