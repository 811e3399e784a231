// A strict stand-in for CUDA's driver and for NVRTC, for tests of the driver in csrc/backend/gpu/cuda without a GPU.
// Programs are compiled as C++; each stream has a thread that works late; every handle, address and argument is
// checked, and what is wrong is an error and a line that fake_violations() returns. FAKE_CUDA_FAIL="MemAlloc:3:2" lets
// the third call of cuMemAlloc give error 2, and with a "+" at the end all later ones too.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

using Address = uint64_t;
enum {
    ok = 0,
    invalid_value = 1,
    no_memory = 2,
    no_context = 201,
    invalid_image = 200,
    invalid_handle = 400,
    not_found = 500,
    not_ready = 600
};

std::mutex lock;
std::string violations;
int refuse(int status, const std::string& what) {
    std::lock_guard<std::mutex> guard(lock);
    violations += what + "\n";
    return status;
}

// ---- injected failures

std::map<std::string, int> calls;
int injected(const char* call) {
    std::lock_guard<std::mutex> guard(lock);
    int count = ++calls[call];
    const char* wish = getenv("FAKE_CUDA_FAIL");
    char name[64];
    int at = 0, status = 0;
    char plus = 0;
    if (!wish || sscanf(wish, "%63[^:]:%d:%d%c", name, &at, &status, &plus) < 3 || strcmp(name, call) != 0) return ok;
    return count == at || (plus == '+' && count > at) ? status : ok;
}

// ---- memory: addresses lie where the host faults, the bytes at a fixed distance

constexpr size_t range = size_t(1) << 33;
char* device_base = nullptr;
char* bytes_base = nullptr;
std::map<Address, size_t> blocks;  // living ones
Address next_address = 0;
size_t used = 0;
size_t total_memory() {
    const char* given = getenv("FAKE_CUDA_MEMORY");
    return given ? strtoull(given, nullptr, 10) : size_t(1) << 30;
}
// The bytes of a range of device memory that one living block holds; nullptr otherwise.
char* host_of(Address at, size_t bytes, const char* who) {
    std::lock_guard<std::mutex> guard(lock);
    auto it = blocks.upper_bound(at);
    if (it != blocks.begin()) {
        --it;
        if (at + bytes <= it->first + it->second) return bytes_base + (at - reinterpret_cast<Address>(device_base));
    }
    violations += std::string(who) + ": an address outside of all memory\n";
    return nullptr;
}

// ---- streams

struct FakeEvent {
    std::atomic<uint64_t> wanted{0}, reached{0};
    std::atomic<double> when{0};
    unsigned flags = 0;
};
struct FakeStream {
    std::mutex lock;
    std::condition_variable news;
    std::deque<std::function<void()>> tasks;
    uint64_t given = 0, done = 0;
    FakeStream() {
        std::thread([this] {
            unsigned random = 12345;
            for (;;) {
                std::function<void()> task;
                {
                    std::unique_lock<std::mutex> guard(lock);
                    news.wait(guard, [&] { return !tasks.empty(); });
                    task = std::move(tasks.front());
                    tasks.pop_front();
                }
                random = random * 1664525 + 1013904223;
                std::this_thread::sleep_for(std::chrono::microseconds(random >> 24));
                task();
                std::lock_guard<std::mutex> guard(lock);
                done++;
                news.notify_all();
            }
        }).detach();
    }
    void add(std::function<void()> task) {
        std::lock_guard<std::mutex> guard(lock);
        tasks.push_back(std::move(task));
        given++;
        news.notify_all();
    }
    void wait() {
        std::unique_lock<std::mutex> guard(lock);
        uint64_t until = given;
        news.wait(guard, [&] { return done >= until; });
    }
};

std::set<void*> streams, events, modules, functions;
int context_object;
thread_local void* current = nullptr;
bool started = false;

double now() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
bool alive(const std::set<void*>& all, void* handle) {
    std::lock_guard<std::mutex> guard(lock);
    return all.count(handle) != 0;
}

// ---- kernels: the items of a group are fibers, which leave at barriers, in an order that changes

struct FakeFunction {
    void (*call)(void** arguments);
    std::vector<size_t> sizes;  // of the arguments
    int group = 0;
    unsigned* block;
    unsigned* thread;
    void (**barrier)();
};
struct Fibers {
    std::vector<ucontext_t> items;
    std::vector<std::vector<char>> stacks;
    std::vector<bool> done;
    ucontext_t home;
    size_t running = 0;
    const FakeFunction* function;
    void** arguments;
};
thread_local Fibers fibers;
void at_barrier() { swapcontext(&fibers.items[fibers.running], &fibers.home); }
void run_item() {
    fibers.function->call(fibers.arguments);
    fibers.done[fibers.running] = true;
    swapcontext(&fibers.items[fibers.running], &fibers.home);
}
void run_group(const FakeFunction& f, void** arguments, unsigned group) {
    size_t size = static_cast<size_t>(f.group);
    fibers.function = &f;
    fibers.arguments = arguments;
    if (fibers.stacks.size() < size) fibers.stacks.resize(size, std::vector<char>(64 * 1024));
    fibers.items.assign(size, {});
    fibers.done.assign(size, false);
    *f.barrier = at_barrier;
    for (size_t i = 0; i < size; i++) {
        getcontext(&fibers.items[i]);
        fibers.items[i].uc_stack.ss_sp = fibers.stacks[i].data();
        fibers.items[i].uc_stack.ss_size = fibers.stacks[i].size();
        fibers.items[i].uc_link = nullptr;
        makecontext(&fibers.items[i], run_item, 0);
    }
    bool forward = group % 2 == 0;
    for (size_t left = size; left > 0; forward = !forward) {
        for (size_t k = 0; k < size; k++) {
            size_t i = forward ? k : size - 1 - k;
            if (fibers.done[i]) continue;
            fibers.running = i;
            *f.block = group;
            *f.thread = static_cast<unsigned>(i);
            swapcontext(&fibers.home, &fibers.items[i]);
            left -= fibers.done[i];
        }
    }
}

void* translate(void* address) {
    if (!address) return nullptr;
    return host_of(reinterpret_cast<Address>(address), 1, "a kernel's argument");
}

#define NEEDS_CONTEXT(call)                                                      \
    if (int status = injected(call)) return status;                              \
    if (!started) return refuse(3, std::string("cu") + call + " before cuInit"); \
    if (current != &context_object) return refuse(no_context, std::string("cu") + call + " without a current context")
#define NEEDS_STREAM(call, stream)                                                                           \
    NEEDS_CONTEXT(call);                                                                                     \
    if (!alive(streams, stream)) return refuse(invalid_handle, std::string("cu") + call + ": not a stream"); \
    auto* queue = static_cast<FakeStream*>(stream)

}  // namespace

extern "C" {

const char* fake_violations() {
    static std::string copy;
    std::lock_guard<std::mutex> guard(lock);
    copy = violations;
    return copy.c_str();
}
int fake_calls(const char* call) {
    std::lock_guard<std::mutex> guard(lock);
    return calls[call];
}

int cuInit(unsigned flags) {
    if (flags) return refuse(invalid_value, "cuInit: flags");
    void* both = mmap(nullptr, range * 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (both == MAP_FAILED) return no_memory;
    device_base = static_cast<char*>(both);
    bytes_base = device_base + range;
    next_address = reinterpret_cast<Address>(device_base);
    started = true;
    return ok;
}
int cuDriverGetVersion(int* version) { return *version = 12090, ok; }
int cuDeviceGetCount(int* count) { return *count = 1, ok; }
int cuDeviceGet(int* device, int index) {
    if (index != 0) return refuse(101, "cuDeviceGet: no such device");
    return *device = 7, ok;
}
int cuDeviceGetName(char* name, int size, int device) {
    if (device != 7) return refuse(101, "cuDeviceGetName: no such device");
    return snprintf(name, static_cast<size_t>(size), "Fake GPU"), ok;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = total_memory(), ok; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
    std::map<int, int> known{{1, 1024}, {8, 49152}, {16, 4}, {75, 8}, {76, 0}};
    if (!known.count(attribute)) return refuse(invalid_value, "cuDeviceGetAttribute: unknown attribute");
    return *value = known[attribute], ok;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
    if (device != 7) return refuse(101, "cuDevicePrimaryCtxRetain: no such device");
    return *context = &context_object, ok;
}
int cuCtxSetCurrent(void* context) {
    if (context != &context_object) return refuse(invalid_handle, "cuCtxSetCurrent: not a context");
    return current = context, ok;
}
int cuMemAlloc_v2(Address* at, size_t bytes) {
    NEEDS_CONTEXT("MemAlloc");
    if (bytes == 0) return refuse(invalid_value, "cuMemAlloc: 0 bytes");
    std::lock_guard<std::mutex> guard(lock);
    size_t room = (bytes + 4095) / 4096 * 4096;
    if (used + room > total_memory()) return no_memory;
    *at = next_address;
    next_address += room + 4096;  // never given out again: stale addresses are found
    mprotect(bytes_base + (*at - reinterpret_cast<Address>(device_base)), room, PROT_READ | PROT_WRITE);
    memset(bytes_base + (*at - reinterpret_cast<Address>(device_base)), 0xCD, room);
    blocks[*at] = bytes;
    used += room;
    return ok;
}
int cuMemFree_v2(Address at) {
    NEEDS_CONTEXT("MemFree");
    std::set<void*> all;
    {
        std::lock_guard<std::mutex> guard(lock);
        all = streams;
    }
    for (void* stream : all) static_cast<FakeStream*>(stream)->wait();
    std::lock_guard<std::mutex> guard(lock);
    auto it = blocks.find(at);
    if (it == blocks.end()) {
        violations += "cuMemFree: not the address of memory\n";
        return invalid_value;
    }
    size_t room = (it->second + 4095) / 4096 * 4096;
    mprotect(bytes_base + (at - reinterpret_cast<Address>(device_base)), room, PROT_NONE);
    used -= room;
    blocks.erase(it);
    return ok;
}
int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
    NEEDS_STREAM("MemcpyHtoDAsync", stream);
    char* target = host_of(to, bytes, "cuMemcpyHtoDAsync");
    if (!target) return invalid_value;
    std::vector<char> staged(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
    queue->add([target, staged = std::move(staged)] { memcpy(target, staged.data(), staged.size()); });
    return ok;
}
int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) {
    NEEDS_STREAM("MemcpyDtoHAsync", stream);
    char* source = host_of(from, bytes, "cuMemcpyDtoHAsync");
    if (!source) return invalid_value;
    queue->add([to, source, bytes] { memcpy(to, source, bytes); });
    return ok;
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
    NEEDS_STREAM("MemcpyDtoDAsync", stream);
    char *target = host_of(to, bytes, "cuMemcpyDtoDAsync"), *source = host_of(from, bytes, "cuMemcpyDtoDAsync");
    if (!target || !source) return invalid_value;
    if (target < source + bytes && source < target + bytes) return refuse(invalid_value, "cuMemcpyDtoDAsync: overlap");
    queue->add([target, source, bytes] { memcpy(target, source, bytes); });
    return ok;
}
}

template <class T>
static int set_memory(const char* call, Address at, T value, size_t count, void* stream) {
    NEEDS_STREAM(call, stream);
    char* target = host_of(at, count * sizeof(T), call);
    if (!target || at % sizeof(T)) return refuse(invalid_value, std::string("cu") + call + ": address");
    queue->add([target, value, count] {
        for (size_t i = 0; i < count; i++) memcpy(target + i * sizeof(T), &value, sizeof(T));
    });
    return ok;
}

extern "C" {

int cuMemsetD8Async(Address at, uint8_t v, size_t n, void* s) { return set_memory("MemsetD8Async", at, v, n, s); }
int cuMemsetD16Async(Address at, uint16_t v, size_t n, void* s) { return set_memory("MemsetD16Async", at, v, n, s); }
int cuMemsetD32Async(Address at, uint32_t v, size_t n, void* s) { return set_memory("MemsetD32Async", at, v, n, s); }

int cuStreamCreate(void** stream, unsigned flags) {
    NEEDS_CONTEXT("StreamCreate");
    if (flags > 1) return refuse(invalid_value, "cuStreamCreate: flags");
    *stream = new FakeStream;
    std::lock_guard<std::mutex> guard(lock);
    streams.insert(*stream);
    return ok;
}
int cuStreamSynchronize(void* stream) {
    NEEDS_STREAM("StreamSynchronize", stream);
    queue->wait();
    return ok;
}
int cuEventCreate(void** event, unsigned flags) {
    NEEDS_CONTEXT("EventCreate");
    auto* e = new FakeEvent;
    e->flags = flags;
    *event = e;
    std::lock_guard<std::mutex> guard(lock);
    events.insert(e);
    return ok;
}
int cuEventRecord(void* event, void* stream) {
    NEEDS_STREAM("EventRecord", stream);
    if (!alive(events, event)) return refuse(invalid_handle, "cuEventRecord: not an event");
    auto* e = static_cast<FakeEvent*>(event);
    uint64_t number = ++e->wanted;
    queue->add([e, number] {
        e->when = now();
        e->reached = number;
    });
    return ok;
}
int cuEventQuery(void* event) {
    NEEDS_CONTEXT("EventQuery");
    if (!alive(events, event)) return refuse(invalid_handle, "cuEventQuery: not an event");
    auto* e = static_cast<FakeEvent*>(event);
    return e->reached >= e->wanted ? ok : not_ready;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
    NEEDS_STREAM("StreamWaitEvent", stream);
    if (flags || !alive(events, event)) return refuse(invalid_handle, "cuStreamWaitEvent: not an event");
    auto* e = static_cast<FakeEvent*>(event);
    uint64_t number = e->wanted;
    queue->add([e, number] {
        while (e->reached < number) std::this_thread::sleep_for(std::chrono::microseconds(20));
    });
    return ok;
}
int cuEventElapsedTime(float* milliseconds, void* from, void* to) {
    NEEDS_CONTEXT("EventElapsedTime");
    for (void* event : {from, to}) {
        if (!alive(events, event)) return refuse(invalid_handle, "cuEventElapsedTime: not an event");
        auto* e = static_cast<FakeEvent*>(event);
        if (e->flags & 2) return refuse(invalid_handle, "cuEventElapsedTime: an event without timing");
        if (e->wanted == 0 || e->reached < e->wanted) return refuse(not_ready, "cuEventElapsedTime: not reached");
    }
    *milliseconds = static_cast<float>(static_cast<FakeEvent*>(to)->when - static_cast<FakeEvent*>(from)->when);
    return ok;
}
int cuEventDestroy_v2(void* event) {
    NEEDS_CONTEXT("EventDestroy");
    std::lock_guard<std::mutex> guard(lock);
    // Streams that wait for it still look at it, so its memory stays.
    return events.erase(event) ? ok : invalid_handle;
}
int cuModuleLoadData(void** module, const void* image) {
    NEEDS_CONTEXT("ModuleLoadData");
    const char* path = static_cast<const char*>(image);
    if (strncmp(path, "FAKE:", 5) != 0)
        return refuse(invalid_image, "cuModuleLoadData: not an image of the fake NVRTC");
    void* library = dlopen(path + 5, RTLD_NOW | RTLD_LOCAL);
    if (!library) return refuse(invalid_image, dlerror());
    *reinterpret_cast<void* (**)(void*)>(dlsym(library, "fake_translate")) = translate;
    *module = library;
    std::lock_guard<std::mutex> guard(lock);
    modules.insert(library);
    return ok;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
    NEEDS_CONTEXT("ModuleGetFunction");
    if (!alive(modules, module)) return refuse(invalid_handle, "cuModuleGetFunction: not a module");
    std::string text = name;
    auto* f = new FakeFunction;
    f->call = reinterpret_cast<void (*)(void**)>(dlsym(module, (text + "__call").c_str()));
    if (!f->call) return not_found;
    auto* sizes = static_cast<const unsigned*>(dlsym(module, (text + "__sizes").c_str()));
    for (; *sizes; sizes++) f->sizes.push_back(*sizes);
    f->group = *static_cast<const int*>(dlsym(module, (text + "__group").c_str()));
    f->block = static_cast<unsigned*>(dlsym(module, "fake_block"));
    f->thread = static_cast<unsigned*>(dlsym(module, "fake_thread"));
    f->barrier = static_cast<void (**)()>(dlsym(module, "fake_barrier"));
    *function = f;
    std::lock_guard<std::mutex> guard(lock);
    functions.insert(f);
    return ok;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void* stream, void** arguments, void** extra) {
    NEEDS_STREAM("LaunchKernel", stream);
    if (!alive(functions, function)) return refuse(invalid_handle, "cuLaunchKernel: not a function");
    auto* f = static_cast<FakeFunction*>(function);
    if (gx == 0 || gy != 1 || gz != 1 || by != 1 || bz != 1 || shared || extra)
        return refuse(invalid_value, "cuLaunchKernel: grid");
    if (static_cast<int>(bx) != f->group)
        return refuse(invalid_value, "cuLaunchKernel: not the group of __launch_bounds__");
    // Arguments are copied now, as the driver does.
    std::vector<std::vector<char>> kept;
    for (size_t i = 0; i < f->sizes.size(); i++)
        kept.emplace_back(static_cast<char*>(arguments[i]), static_cast<char*>(arguments[i]) + f->sizes[i]);
    // One launch at a time: a library has one place for the numbers of the running item.
    static std::mutex one;
    queue->add([f, gx, kept = std::move(kept)]() mutable {
        std::vector<void*> pointers;
        for (auto& bytes : kept) pointers.push_back(bytes.data());
        std::lock_guard<std::mutex> guard(one);
        for (unsigned group = 0; group < gx; group++) run_group(*f, pointers.data(), group);
    });
    return ok;
}
int cuGetErrorName(int, const char** name) { return *name = "CUDA_ERROR_OF_THE_FAKE", ok; }

// ---- NVRTC ----------------------------------------------------------------------------------------------------------

struct FakeProgram {
    std::string source, log, image;
};
int nvrtcVersion(int* major, int* minor) { return *major = 99, *minor = 1, 0; }
int nvrtcCreateProgram(FakeProgram** program, const char* source, const char*, int, const char* const*,
                       const char* const*) {
    return *program = new FakeProgram{source, "", ""}, 0;
}
int nvrtcDestroyProgram(FakeProgram** program) { return delete *program, *program = nullptr, 0; }
int nvrtcGetProgramLogSize(FakeProgram* p, size_t* size) { return *size = p->log.size() + 1, 0; }
int nvrtcGetProgramLog(FakeProgram* p, char* log) { return memcpy(log, p->log.c_str(), p->log.size() + 1), 0; }
int nvrtcGetCUBINSize(FakeProgram* p, size_t* size) { return *size = p->image.size() + 1, 0; }
int nvrtcGetCUBIN(FakeProgram* p, char* image) { return memcpy(image, p->image.c_str(), p->image.size() + 1), 0; }
int nvrtcGetPTXSize(FakeProgram*, size_t*) { return 3; }
int nvrtcGetPTX(FakeProgram*, char*) { return 3; }
}

static std::string between(const std::string& text, size_t from, char open, char close, size_t* end) {
    int depth = 0;
    for (size_t i = from; i < text.size(); i++) {
        if (text[i] == open && depth++ == 0) from = i + 1;
        if (text[i] == close && --depth == 0) return *end = i + 1, text.substr(from, i - from);
    }
    return "";
}

extern "C" int nvrtcCompileProgram(FakeProgram* p, int count, const char* const* options) {
    bool machine = false;
    for (int i = 0; i < count; i++) machine |= strncmp(options[i], "--gpu-architecture=sm_80", 24) == 0;
    if (!machine) return p->log = "nvrtc: error: invalid value for --gpu-architecture", 5;
    std::string text =
        "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n#define __device__\n#define __global__\n"
        "#define __shared__ static\n#define __launch_bounds__(n)\nstruct Place { unsigned x; };\n"
        "extern \"C\" { Place fake_block, fake_thread; void (*fake_barrier)(); void* (*fake_translate)(void*); }\n"
        "#define blockIdx fake_block\n#define threadIdx fake_thread\n#define __syncthreads() fake_barrier()\n"
        "static inline float __uint_as_float(unsigned u) { float f; memcpy(&f, &u, 4); return f; }\n"
        "static inline unsigned __float_as_uint(float f) { unsigned u; memcpy(&u, &f, 4); return u; }\n"
        "static inline double __longlong_as_double(long long u) { double f; memcpy(&f, &u, 8); return f; }\n"
        "static inline long long __double_as_longlong(double f) { long long u; memcpy(&u, &f, 8); return u; }\n"
        "template <class T> T atomicCAS(T* p, T old, T v) { __atomic_compare_exchange_n(p, &old, v, false, 5, 5); "
        "return old; }\n"
        "template <class T> T atomicAdd(T* p, T v) { return __atomic_fetch_add(p, v, 5); }\n" +
        p->source;
    const std::string head = "extern \"C\" __global__ void __launch_bounds__";
    for (size_t at = p->source.find(head); at != std::string::npos; at = p->source.find(head, at + 1)) {
        size_t end = 0, after = 0;
        std::string group = between(p->source, at + head.size(), '(', ')', &end);
        size_t name_end = p->source.find('(', end);
        std::string name = p->source.substr(end + 1, name_end - end - 1),
                    all = between(p->source, name_end, '(', ')', &after);
        std::string call, sizes;
        for (size_t i = 0, k = 0; i < all.size(); k++) {
            size_t comma = std::min(all.find(", ", i), all.size());
            std::string one = all.substr(i, comma - i), type = one.substr(0, one.find_last_of(" *") + 1);
            std::string place = "a[" + std::to_string(k) + "]";
            bool pointer = type.find('*') != std::string::npos;
            call += (k ? ", " : "") +
                    (pointer ? "(" + type + ")fake_translate(*(void**)" + place + ")" : "*(" + type + "*)" + place);
            sizes += "sizeof(" + type + "), ";
            i = comma + 2;
        }
        text += "\nextern \"C\" void " + name + "__call(void** a) { " + name + "(" + call +
                "); }\nextern \"C\" { extern const unsigned " + name + "__sizes[] = {" + sizes +
                "0}; extern const int " + name + "__group = " + group + "; }\n";
    }
    static std::atomic<int> number{0};
    const char* folder = getenv("FAKE_CUDA_FOLDER");
    std::string own =
        std::string(folder ? folder : "/tmp") + "/fake" + std::to_string(getpid()) + "_" + std::to_string(number++);
    FILE* file = fopen((own + ".cpp").c_str(), "w");
    if (!file) return 1;
    fwrite(text.data(), 1, text.size(), file);
    fclose(file);
    std::string command = "c++ -std=c++17 -O1 -shared -fPIC -ffp-contract=off -fno-math-errno -fwrapv -w -o " + own +
                          ".so " + own + ".cpp > " + own + ".log 2>&1";
    if (system(command.c_str()) != 0) {
        file = fopen((own + ".log").c_str(), "r");
        char part[4096];
        size_t n = file ? fread(part, 1, sizeof part, file) : 0;
        if (file) fclose(file);
        return p->log.assign(part, n), 6;
    }
    p->image = "FAKE:" + own + ".so";
    return 0;
}
