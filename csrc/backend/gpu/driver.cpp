#include "backend/gpu/driver.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "backend/gpu/cuda/cuda.h"
#include "backend/gpu/opencl/opencl.h"
#include "backend/gpu/sim/sim.h"
#include "base/error.h"
#include "base/exclusive.h"
#include "base/fork.h"
#include "base/profile.h"

namespace fb {
extern Device (*best_accelerator)();  // base/device.cpp
extern Device (*chosen_accelerator)();
}  // namespace fb

namespace fb::gpu {

static Driver& driver_of_any_process(Device device) {
    if (device.type == DeviceType::Sim) {
        check(device.index <= 0, "device '", to_string(device),
              "' does not exist: there is one simulated accelerator, sim:0");
        return sim_driver();
    }
    if (device.type == DeviceType::OpenCL) return opencl_driver(std::max<int>(device.index, 0));
    if (device.type == DeviceType::CUDA) return cuda_driver(std::max<int>(device.index, 0));
    fail_state("device '", to_string(device), "' has no backend in this build; use device='cpu', 'opencl' or 'sim'");
}
static bool is_parents(const Driver& d) { return d.generation != fork_generation.load(std::memory_order_relaxed); }

Driver& driver(Device device) {
    Driver& d = driver_of_any_process(device);
    if (is_parents(d))
        fail_state("Cannot use the device '", name(device.type),
                   "' in a forked subprocess: the streams stayed in the parent. Start it with the 'spawn' method, or "
                   "use the device there for the first time");
    return d;
}

int device_count(DeviceType type) {
    switch (type) {
        case DeviceType::Sim:
            return 1;
        case DeviceType::OpenCL:
            return opencl_devices();
        case DeviceType::CUDA:
            return cuda_devices();
        default:
            return 0;
    }
}

// The devices of a type share their stream numbers.
static thread_local int stream_of_thread[device_types] = {};
int current_stream(Device device) { return stream_of_thread[static_cast<size_t>(device.type)]; }
void set_current_stream(Device device, int stream) { stream_of_thread[static_cast<size_t>(device.type)] = stream; }

// A tensor's memory comes from the arena of the stream that creates it.
namespace {
template <DeviceType type>
struct Memory {
    static Device at(int index) { return {type, static_cast<int8_t>(index)}; }
    static CachingAllocator& allocator(int index) { return driver(at(index)).allocator(); }
    static void free(int index, Block* block) {
        Driver& d = driver_of_any_process(at(index));
        if (is_parents(d)) return;  // the parent process still uses it
        // Another stream may still use the memory, unless only its own stream ever ran.
        for (int i = 0; d.streams() > 1 && i < d.streams(); i++) {
            if (i == block->stream) continue;
            Mark mark = d.mark(i);
            if (!d.reached(mark)) wait_quietly(at(index), mark);
        }
        d.allocator().free(block);
    }
    static void copy(void* to, const void* from, size_t bytes) {
        int index = type == DeviceType::OpenCL ? opencl_owner(to) : type == DeviceType::CUDA ? cuda_owner(to) : 0;
        driver(at(index)).copy(current_stream(at(index)), to, from, bytes);
    }
    static int stream() { return current_stream(at(0)); }
    static constexpr DeviceMemory functions{.allocator = allocator, .free = free, .copy = copy, .stream = stream};
};
[[maybe_unused]] const bool registered = [] {
    device_memories[static_cast<size_t>(DeviceType::Sim)] = &Memory<DeviceType::Sim>::functions;
    device_memories[static_cast<size_t>(DeviceType::OpenCL)] = &Memory<DeviceType::OpenCL>::functions;
    device_memories[static_cast<size_t>(DeviceType::CUDA)] = &Memory<DeviceType::CUDA>::functions;
    // GPUs come first among OpenCL devices.
    best_accelerator = [] {
        if (cuda_devices()) return Device{DeviceType::CUDA, 0};
        if (opencl_devices() == 0) opencl_driver(0);  // raises the reason
        return Device{DeviceType::OpenCL, 0};
    };
    chosen_accelerator = [] {
        const char* named = std::getenv("FLAMBEAU_DEVICE");
        if (named && *named) return canonical(parse_device(named));
        if (cuda_devices()) return Device{DeviceType::CUDA, 0};
        for (const OpenclReport& found : opencl_report()) {
            if (found.index == 0 && found.device.type != "cpu") return Device{DeviceType::OpenCL, 0};
        }
        return cpu_device;
    };
    return true;
}();
}  // namespace

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

void Driver::download(int stream, void* to, const void* from, size_t bytes) {
    const bool recorded = profiling.load(std::memory_order_relaxed);
    ProfileEvent event{.kind = ProfileEvent::Copy, .device = device(), .stream = stream};
    if (recorded) event.launched = profile_clock();
    gpu::wait(device(), mark(stream));
    if (recorded) event.start = profile_clock();
    read(to, from, bytes);
    if (!recorded) return;
    event.name = "Memcpy DtoH";
    event.thread = profile_thread();
    event.end = profile_clock();
    event.bytes = static_cast<int64_t>(bytes);
    record_event(std::move(event));
}

void synchronize(Device device) {
    Driver& d = driver(device);
    for (int stream = 0; stream < d.streams(); stream++) wait_quietly(device, d.mark(stream));
    raise_faults(device);
}

// ---- ops without kernels --------------------------------------------------------------------------------------------

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
    if (profiling.load(std::memory_order_relaxed)) {
        int64_t now = profile_clock();
        ProfileEvent event{
            .kind = ProfileEvent::Fallback, .name = op, .thread = profile_thread(), .start = now, .end = now};
        event.device = device;
        record_event(std::move(event));
    }
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
