#include "backend/gpu/driver.h"

#include <map>
#include <mutex>

#include "backend/gpu/sim/sim.h"
#include "base/error.h"
#include "base/exclusive.h"
#include "base/fork.h"

namespace fb::gpu {

Driver& driver(Device device) {
    if (device.type == DeviceType::Sim) return sim_driver();
    fail_state("device '", to_string(device), "' has no backend in this build; use device='cpu' or 'sim'");
}

static thread_local int stream_of_thread = 0;
int current_stream(Device) { return stream_of_thread; }
void set_current_stream(Device, int stream) { stream_of_thread = stream; }

void wait_quietly(Device device, const Mark& mark) {
    Driver& d = driver(device);
    if (d.reached(mark)) return;
    struct Context {
        Driver& driver;
        const Mark& mark;
    } context{d, mark};
    auto block = [](void* c) {
        auto& [driver, mark] = *static_cast<Context*>(c);
        while (!driver.wait(mark, 1000)) {
        }
    };
    if (interpreter.without_lock) interpreter.without_lock(block, &context);
    else block(&context);
}

void wait(Device device, const Mark& mark) {
    wait_quietly(device, mark);
    raise_faults(device);
}

void synchronize(Device device) {
    Driver& d = driver(device);
    for (int stream = 0; stream < d.streams(); stream++) wait_quietly(device, d.mark(stream));
    raise_faults(device);
}

// ---- ops without kernels ------------------------------------------------------------------------------------------

namespace {

struct Counts {
    Mutex lock;
    std::map<std::string, Count> by_op;
    bool reported = false;
};
Counts& counts() {
    static auto* all = new Counts;
    return *all;
}
std::atomic<bool> strict{false}, kernels{true};

const char* running() { return current_op ? current_op : "a copy"; }

}  // namespace

void (*report_fallback)(const char* op, Device device) = nullptr;

bool uses_kernels() { return kernels.load(std::memory_order_relaxed); }
void set_uses_kernels(bool on) { kernels.store(on, std::memory_order_relaxed); }

bool is_strict() { return strict.load(std::memory_order_relaxed); }
void set_strict(bool on) { strict.store(on, std::memory_order_relaxed); }

void count_fallback(Device device) {
    const char* op = running();
    if (is_strict())
        fail(ErrorKind::NotImplemented, "has no kernel on device '", to_string(device),
             "', and accelerator.set_strict() forbids to run it on the CPU; move its tensors with .cpu()");
    bool report;
    {
        std::lock_guard guard(counts().lock);
        Count& count = counts().by_op[op];
        count.op = op;
        count.fallbacks++;
        report = !std::exchange(counts().reported, true);
    }
    if (report && report_fallback) report_fallback(op, device);
}

void count_kernel() {
    const char* op = running();
    std::lock_guard guard(counts().lock);
    Count& count = counts().by_op[op];
    count.op = op;
    count.kernels++;
}

std::vector<Count> coverage() {
    std::vector<Count> all;
    std::lock_guard guard(counts().lock);
    for (auto& [op, count] : counts().by_op) all.push_back(count);
    return all;
}

void reset_coverage() {
    std::lock_guard guard(counts().lock);
    counts().by_op.clear();
}

}  // namespace fb::gpu
