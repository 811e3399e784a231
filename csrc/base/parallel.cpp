#include "base/parallel.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace fb {
namespace {

std::string reason_text;

// CPUs that the cgroup quota allows, 0 when there is no limit.
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
    reason_text = why.str();
    return n;
}

std::atomic<int> threads{0};

// The OpenMP runtime's worker threads do not survive fork(): a child that used them would wait for ever.
void after_fork_in_child() {
    threads = 1;
    omp_set_num_threads(1);
    reason_text = "forked child: worker threads do not survive fork()";
}

}  // namespace

int num_threads() {
    int n = threads.load(std::memory_order_relaxed);
    if (n == 0) [[unlikely]] {
        static std::atomic<bool> registered{false};
        if (!registered.exchange(true)) pthread_atfork(nullptr, nullptr, after_fork_in_child);
        n = choose();
        threads = n;
    }
    return n;
}

void set_num_threads(int n) {
    check(n >= 1 && n <= 1024, "number of threads must be from 1 to 1024, got ", n);
    num_threads();
    threads = n;
    reason_text = "set by set_num_threads";
}

std::string num_threads_reason() {
    num_threads();
    return reason_text;
}

bool in_parallel_region() { return omp_in_parallel(); }

namespace detail {
void parallel_run(int64_t n, int64_t chunks, void (*body)(void*, int64_t, int64_t), void* context) {
    std::exception_ptr error;
    const char* op = current_op;
#pragma omp parallel num_threads(static_cast<int>(chunks))
    {
        int64_t team = omp_get_num_threads(), rank = omp_get_thread_num();
        int64_t begin = n * rank / team, end = n * (rank + 1) / team;
        OpScope scope(op);
        try {
            if (begin < end) body(context, begin, end);
        } catch (...) {
#pragma omp critical(fb_parallel_error)
            if (!error) error = std::current_exception();
        }
    }
    if (error) std::rethrow_exception(error);
}
}  // namespace detail

}  // namespace fb
