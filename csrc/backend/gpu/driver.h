// The interface of an accelerator's driver: memory, streams that execute copies and kernels in order, and a compiler.
// The kernels of backend/gpu are written once, as text in a small vocabulary (source.h), and run on every driver.
//
// Addresses of device memory are plain pointers, so that views, plans and overlap checks work as on the host, but the
// host must not dereference them: reading them faults.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/gpu/program.h"
#include "base/device.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/location.h"
#include "memory/allocator.h"

namespace fb::gpu {

// A compiled kernel; lives as long as the process.
struct Kernel {
    virtual ~Kernel() = default;
};

// A position in a stream, reached when everything submitted before it is done.
struct Mark {
    int stream = 0;
    uint64_t number = 0;
};

// The error that FAIL(code, index) in a kernel stands for, by code: {index}, {a} and {b} in the text are replaced.
struct Fault {
    ErrorKind kind;
    const char* text;
};

struct Launch {
    const Kernel* kernel = nullptr;
    int64_t items = 0;  // rounded up to whole groups: kernels compare GID with their own count
    char* const* pointers = nullptr;
    const void* params = nullptr;
    size_t bytes = 0;               // of params
    const Fault* faults = nullptr;  // for kernels that contain FAIL, with two numbers for the texts
    int64_t a = 0, b = 0;
    int codes = 1 << 30;  // number of faults; users' kernels may report others
};

// Written by failing kernels: holds the first failure since it was last taken.
struct FaultWord {
    int32_t set = 0, code = 0;
    int64_t launch = 0, index = 0;
};

class Driver {
  public:
    virtual ~Driver() = default;
    // Of the process that created it: a forked child has none of the parent's streams.
    const uint32_t generation = fork_generation.load();
    virtual const char* name() const = 0;
    virtual Device device() const = 0;
    // Whether kernels run on a CPU: then few items with long vectors that use the caches are best, not many small ones.
    virtual bool is_processor() const = 0;
    // Whether the compiler makes vectors of loops inside an item, rather than of neighbouring items.
    virtual bool prefers_loops() const { return false; }
    virtual CachingAllocator& allocator() = 0;

    // Streams are numbered from 0, the default one. Work of one stream runs in order; streams run concurrently.
    virtual int create_stream() = 0;
    virtual int streams() const = 0;
    virtual Mark mark(int stream) = 0;
    virtual bool reached(const Mark& mark) = 0;
    // Blocks for at most `milliseconds`; false if the mark was not reached.
    virtual bool wait(const Mark& mark, int milliseconds) = 0;
    // Work submitted to `stream` from now on waits for the mark.
    virtual void wait_in_stream(int stream, const Mark& mark) = 0;
    // Records when the stream reaches the mark, in milliseconds of one clock; stays negative until then.
    virtual void mark_time(int stream, std::shared_ptr<double> when) = 0;
    // Whether that clock is std::chrono::steady_clock.
    virtual bool uses_host_clock() const { return false; }

    // `from` may be reused at once. Everything below returns before the work is done.
    virtual void upload(int stream, void* to, const void* from, size_t bytes) = 0;
    // Waits for the stream, raises errors its kernels reported, and returns when the bytes have arrived.
    void download(int stream, void* to, const void* from, size_t bytes);
    // Reads without waiting for streams.
    virtual void read(void* to, const void* from, size_t bytes) = 0;
    virtual void copy(int stream, void* to, const void* from, size_t bytes) = 0;
    virtual void fill(int stream, void* to, const void* element, size_t size, size_t count) = 0;

    // The kernels named by a program, or none if they cannot be built (why() gives the reason). Not cached here:
    // callers may keep the kernels for as long as they like.
    virtual std::vector<const Kernel*> build(const Program& program) = 0;
    // `number` is the launch's number, which FAIL records. Use gpu::launch.
    virtual void launch(int stream, const Launch& launch, int64_t number) = 0;
    // Seconds that the driver's own call takes, without ours around it, to submit the kernel once more that was
    // launched last, on the default stream; 0 where there is no such call. For benchmarks, with no other thread at
    // work.
    virtual double time_bare_launch() { return 0; }
    // Takes what the stream's kernels reported, if anything; clears the word.
    virtual bool take_fault(int stream, FaultWord& word) = 0;

    // Why the last program could not be built, or "".
    virtual std::string why() const = 0;
};

// The prefix of the Python environment, where drivers may be installed; set by the bindings.
extern std::string (*python_prefix)();

// Number of devices of a type.
int device_count(DeviceType type);
// The driver of a device that tensors can be on; an error in a forked child, which has none of the parent's streams.
Driver& driver(Device device);

// The stream used by this thread's ops.
int current_stream(Device device);
void set_current_stream(Device device, int stream);

// Launches a kernel on this thread's stream; returns at once. Errors reported by FAIL are raised at the next wait.
void launch(Device device, const Launch& launch);

// Waits without the interpreter lock, and raises errors reported by kernels.
void wait(Device device, const Mark& mark);
// Waits without raising: for destructors.
void wait_quietly(Device device, const Mark& mark);
void raise_faults(Device device);
// Raises the error that a launch reported.
[[noreturn]] void raise_fault(const Launch& launch, const FaultWord& word, const std::string& where);
// The line of the user's program being executed; set by the bindings.
extern Location (*line_now)();
// Waits for all streams.
void synchronize(Device device);

// ---- ops without kernels --------------------------------------------------------------------------------------------

// Whether kernels are built and used. When off, everything runs on the CPU, for tests of the fallback.
bool uses_kernels();
void set_uses_kernels(bool on);
// Whether ops that would fall back to the CPU raise an error.
bool is_strict();
void set_strict(bool on);
// An op is about to run on the CPU: counts it, or raises in strict mode.
void count_fallback(Device device);
// Counts an op that launches a kernel of its own.
void count_kernel();
struct Count {
    std::string op;
    int64_t kernels = 0, fallbacks = 0;
};
std::vector<Count> coverage();
void reset_coverage();
// Reports once per process that ops run on the CPU; set by the bindings.
extern void (*report_fallback)(const char* op, Device device);

}  // namespace fb::gpu
