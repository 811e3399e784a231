#include "backend/gpu/cuda/cuda.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "backend/gpu/cache.h"
#include "backend/gpu/probe.h"
#include "backend/gpu/stream_numbers.h"

namespace fb::gpu {
namespace {

using cuda::Address;
// Streams have the same numbers on all devices; a stream is created on the devices where it is used.
StreamNumbers stream_numbers;

Address address_of(const void* p) { return reinterpret_cast<Address>(p); }

// The allocator's lock is held in map() and unmap().
class CudaMemory final : public RawMemory {
  public:
    CudaMemory(const cuda::Api& api, int index, size_t total, cuda::Context& context)
        : api_(api), index_(index), total_(total), context_(context) {}
    void* map(size_t bytes) override {
        Address at = 0;
        cuda::check(api_.CtxSetCurrent(context_), "CtxSetCurrent");
        int32_t status = api_.MemAlloc(&at, bytes);
        if (status == cuda::out_of_memory) return nullptr;
        cuda::check(status, "MemAlloc");
        std::lock_guard guard(lock_);
        segments_[at] = bytes;
        return reinterpret_cast<void*>(at);
    }
    // cuMemFree waits for the device.
    void unmap(void* data, size_t) override {
        cuda::check(api_.CtxSetCurrent(context_), "CtxSetCurrent");
        cuda::check(api_.MemFree(address_of(data)), "MemFree");
        std::lock_guard guard(lock_);
        segments_.erase(address_of(data));
    }
    size_t total() const override { return total_; }
    std::string name() const override { return "cuda:" + std::to_string(index_); }
    bool owns(const void* address) const {
        std::lock_guard guard(lock_);
        auto it = segments_.upper_bound(address_of(address));
        return it != segments_.begin() && address_of(address) < std::prev(it)->first + std::prev(it)->second;
    }

  private:
    const cuda::Api& api_;
    int index_;
    size_t total_;
    cuda::Context& context_;
    mutable Mutex lock_;
    std::map<Address, size_t> segments_;
};

struct CudaKernel final : Kernel {
    cuda::Function function;
    size_t pointers;
    uint32_t size;
    CudaKernel(cuda::Function f, const KernelText& text)
        : function(f), pointers(text.pointers.size()), size(static_cast<uint32_t>(text.size)) {}
};

struct Stream {
    cuda::StreamHandle handle = nullptr;
    Address fault = 0;
    uint64_t submitted = 0, marked = 0, may_fail = 0;  // numbers of commands
    std::atomic<uint64_t> done{0};
    std::deque<std::pair<uint64_t, cuda::Event>> events;  // of marks that are not reached yet
    struct Timing {
        cuda::Event event;
        std::shared_ptr<double> when;
    };
    std::deque<Timing> timings;
};

class Cuda final : public Driver {
  public:
    Cuda(const cuda::Api& api, int32_t device, CudaReport report, int index)
        : api_(api),
          report_(std::move(report)),
          index_(index),
          memory_(api, index, static_cast<size_t>(report_.memory), context_),
          allocator_(memory_) {
        cuda::check(api_.DevicePrimaryCtxRetain(&context_, device), "DevicePrimaryCtxRetain");
        enter();
        cuda::check(api_.StreamCreate(&control_, cuda::stream_non_blocking), "StreamCreate");
        cuda::check(api_.EventCreate(&epoch_, 0), "EventCreate");
        cuda::check(api_.EventRecord(epoch_, control_), "EventRecord");
        cuda::check(api_.StreamSynchronize(control_), "StreamSynchronize");
        architecture_ = "sm_" + std::to_string(report_.major * 10 + report_.minor);
    }
    const char* name() const override { return report_.name.c_str(); }
    Device device() const override { return {DeviceType::CUDA, static_cast<int8_t>(index_)}; }
    bool is_processor() const override { return false; }
    CachingAllocator& allocator() override { return allocator_; }

    int create_stream() override { return stream_numbers.take(); }
    int streams() const override { return stream_numbers.count(); }

    Mark mark(int number) override {
        std::lock_guard guard(lock_);
        Stream& s = stream(number);
        if (s.marked < s.submitted) {
            cuda::Event event = nullptr;
            cuda::check(api_.EventCreate(&event, cuda::event_disable_timing), "EventCreate");
            cuda::check(api_.EventRecord(event, s.handle), "EventRecord");
            s.marked = s.submitted;
            s.events.emplace_back(s.submitted, event);
        }
        look(s);
        return {number, s.submitted};
    }
    bool reached(const Mark& mark) override {
        Stream& s = streams_[mark.stream];
        if (s.done.load(std::memory_order_acquire) >= mark.number) return true;
        std::lock_guard guard(lock_);
        enter();
        look(s);
        return s.done.load(std::memory_order_acquire) >= mark.number;
    }
    // Polls, with growing pauses: between a tenth of the time waited and a millisecond.
    bool wait(const Mark& mark, int milliseconds) override {
        using namespace std::chrono;
        auto begin = steady_clock::now();
        for (;;) {
            if (reached(mark)) return true;
            auto waited = duration_cast<microseconds>(steady_clock::now() - begin);
            if (waited >= std::chrono::milliseconds(milliseconds)) return false;
            auto pause = std::min(waited / 10, microseconds(1000));
            if (pause >= microseconds(5)) std::this_thread::sleep_for(pause);
        }
    }
    void wait_in_stream(int number, const Mark& mark) override {
        if (number == mark.stream || reached(mark)) return;
        std::lock_guard guard(lock_);
        Stream &s = stream(number), &other = streams_[mark.stream];
        for (auto& [at, event] : other.events) {
            if (at < mark.number) continue;
            cuda::check(api_.StreamWaitEvent(s.handle, event, 0), "StreamWaitEvent");
            s.submitted++;
            return;
        }
    }
    void mark_time(int number, std::shared_ptr<double> when) override {
        std::lock_guard guard(lock_);
        Stream& s = stream(number);
        cuda::Event event = nullptr;
        cuda::check(api_.EventCreate(&event, 0), "EventCreate");
        cuda::check(api_.EventRecord(event, s.handle), "EventRecord");
        s.submitted++;
        s.timings.push_back({event, std::move(when)});
    }

    // The driver returns after reading memory that is not pinned, as documented.
    void upload(int number, void* to, const void* from, size_t bytes) override {
        if (bytes == 0) return;
        std::lock_guard guard(lock_);
        Stream& s = stream(number);
        cuda::check(api_.MemcpyHtoDAsync(address_of(to), from, bytes, s.handle), "MemcpyHtoDAsync");
        s.submitted++;
    }
    void read(void* to, const void* from, size_t bytes) override {
        if (bytes == 0) return;
        std::lock_guard guard(lock_);
        enter();
        fetch(to, address_of(from), bytes);
    }
    void copy(int number, void* to, const void* from, size_t bytes) override {
        if (bytes == 0 || to == from) return;
        const char *a = static_cast<const char*>(from), *b = static_cast<const char*>(to);
        bool overlap = a < b + bytes && b < a + bytes;
        Block* between = overlap ? allocator_.allocate(bytes, number) : nullptr;
        {
            std::lock_guard guard(lock_);
            Stream& s = stream(number);
            auto move = [&](Address target, Address source) {
                cuda::check(api_.MemcpyDtoDAsync(target, source, bytes, s.handle), "MemcpyDtoDAsync");
                s.submitted++;
            };
            if (between) {
                move(address_of(between->data), address_of(from));
                move(address_of(to), address_of(between->data));
            } else {
                move(address_of(to), address_of(from));
            }
        }
        if (between) allocator_.free(between);  // its next user comes later in the same stream
    }
    void fill(int number, void* to, const void* element, size_t size, size_t count) override {
        if (count == 0) return;
        std::lock_guard guard(lock_);
        Stream& s = stream(number);
        Address at = address_of(to);
        uint64_t bits = 0;
        std::memcpy(&bits, element, std::min<size_t>(size, 8));
        bool zero = std::all_of(static_cast<const char*>(element), static_cast<const char*>(element) + size,
                                [](char c) { return c == 0; });
        s.submitted++;
        if (size == 1 || zero)
            cuda::check(api_.MemsetD8Async(at, static_cast<uint8_t>(bits), count * size, s.handle), "MemsetD8Async");
        else if (size == 2)
            cuda::check(api_.MemsetD16Async(at, static_cast<uint16_t>(bits), count, s.handle), "MemsetD16Async");
        else if (size == 4)
            cuda::check(api_.MemsetD32Async(at, static_cast<uint32_t>(bits), count, s.handle), "MemsetD32Async");
        else fill_by_doubling(s, at, element, size, count);
    }

    std::vector<const Kernel*> build(const Program& program) override {
        std::string source = assemble(program, Dialect::Cuda), version = cuda::compiler_version();
        std::string cached = hash(source + architecture_ + version) + ".cubin", log;
        std::string image = read_cached(cached);
        cuda::Module module = nullptr;
        std::lock_guard guard(lock_);
        enter();
        if (image.empty() || api_.ModuleLoadData(&module, image.data()) != 0) {
            image = cuda::compile(source, architecture_, log);
            // For a device newer than the compiler, the driver translates PTX for the newest one NVRTC knows.
            if (image.empty() && log.find("gpu-architecture") != std::string::npos)
                image = cuda::compile(source, "compute_90", log);
            if (image.empty()) {
                why_ = log;
                return {};
            }
            cuda::check(api_.ModuleLoadData(&module, image.data()), "ModuleLoadData");
            write_cached(cached, image);
        }
        why_.clear();
        std::vector<const Kernel*> all;
        for (const KernelText& text : program.kernels) {
            cuda::Function function = nullptr;
            cuda::check(api_.ModuleGetFunction(&function, module, text.name.c_str()), "ModuleGetFunction");
            all.push_back(new CudaKernel(function, text));
        }
        return all;
    }
    std::string why() const override {
        std::lock_guard guard(lock_);
        return why_;
    }
    void launch(int number, const Launch& l, int64_t launch) override {
        if (l.items <= 0) return;
        const auto& kernel = *static_cast<const CudaKernel*>(l.kernel);
        int64_t groups = (l.items + kernel.size - 1) / kernel.size;
        check(groups <= INT32_MAX, "a launch of ", groups, " work-groups; expected at most ", INT32_MAX);
        Address pointers[most_pointers];
        void* arguments[most_pointers + 3];
        size_t count = 0;
        for (; count < kernel.pointers; count++) {
            pointers[count] = address_of(l.pointers[count]);
            arguments[count] = &pointers[count];
        }
        std::lock_guard guard(lock_);
        Stream& s = stream(number);
        arguments[count++] = const_cast<void*>(l.params);
        arguments[count++] = &s.fault;
        arguments[count++] = &launch;
        cuda::check(api_.LaunchKernel(kernel.function, static_cast<uint32_t>(groups), 1, 1, kernel.size, 1, 1, 0,
                                      s.handle, arguments, nullptr),
                    "LaunchKernel");
        s.submitted++;
        if (l.faults) s.may_fail = s.submitted;
    }
    bool take_fault(int number, FaultWord& word) override {
        std::lock_guard guard(lock_);
        Stream& s = streams_[number];
        if (s.may_fail == 0) return false;
        enter();
        look(s);
        if (s.done.load() < s.may_fail) return false;
        fetch(&word, s.fault, sizeof word);
        s.may_fail = 0;
        if (word.set) clear(s);
        return word.set != 0;
    }

    bool owns(const void* address) const { return memory_.owns(address); }

  private:
    // All called with the lock held, on any thread.
    void enter() { cuda::check(api_.CtxSetCurrent(context_), "CtxSetCurrent"); }
    Stream& stream(int number) {
        enter();
        Stream& s = streams_[number];
        if (s.handle) return s;
        cuda::check(api_.MemAlloc(&s.fault, sizeof(FaultWord)), "MemAlloc");
        cuda::check(api_.StreamCreate(&s.handle, cuda::stream_non_blocking), "StreamCreate");
        clear(s);
        return s;
    }
    void clear(Stream& s) {
        cuda::check(api_.MemsetD8Async(s.fault, 0, sizeof(FaultWord), control_), "MemsetD8Async");
        cuda::check(api_.StreamSynchronize(control_), "StreamSynchronize");
    }
    void fetch(void* to, Address from, size_t bytes) {
        cuda::check(api_.MemcpyDtoHAsync(to, from, bytes, control_), "MemcpyDtoHAsync");
        cuda::check(api_.StreamSynchronize(control_), "StreamSynchronize");
    }
    // Updates which marks are reached, and which times are known.
    void look(Stream& s) {
        while (!s.timings.empty()) {
            int32_t status = api_.EventQuery(s.timings.front().event);
            if (status == cuda::not_ready) break;
            cuda::check(status, "EventQuery");
            float since = 0;
            cuda::check(api_.EventElapsedTime(&since, epoch_, s.timings.front().event), "EventElapsedTime");
            double milliseconds = static_cast<double>(since);
            __atomic_store(s.timings.front().when.get(), &milliseconds, __ATOMIC_RELEASE);
            api_.EventDestroy(s.timings.front().event);
            s.timings.pop_front();
        }
        while (!s.events.empty()) {
            auto [number, event] = s.events.front();
            int32_t status = api_.EventQuery(event);
            if (status == cuda::not_ready) break;
            cuda::check(status, "EventQuery");
            api_.EventDestroy(event);
            s.done.store(number, std::memory_order_release);
            s.events.pop_front();
        }
    }
    // Writes the first element, then doubles what is filled.
    void fill_by_doubling(Stream& s, Address at, const void* element, size_t size, size_t count) {
        cuda::check(api_.MemcpyHtoDAsync(at, element, size, s.handle), "MemcpyHtoDAsync");
        for (size_t filled = size; filled < size * count;) {
            size_t bytes = std::min(filled, size * count - filled);
            cuda::check(api_.MemcpyDtoDAsync(at + filled, at, bytes, s.handle), "MemcpyDtoDAsync");
            filled += bytes;
        }
    }

    const cuda::Api& api_;
    CudaReport report_;
    int index_;
    cuda::Context context_ = nullptr;
    CudaMemory memory_;
    CachingAllocator allocator_;
    cuda::StreamHandle control_ = nullptr;  // for read()
    cuda::Event epoch_ = nullptr;
    std::string architecture_;
    mutable Mutex lock_;
    Stream streams_[most_streams];
    std::string why_;
};

struct Working {
    std::vector<Cuda*> drivers;
    std::vector<CudaReport> reports;
};
Working find() {
    Working found;
    const cuda::Api* api = cuda::api();
    int32_t count = 0;
    if (!api || api->DeviceGetCount(&count) != 0) return found;
    for (int32_t i = 0; i < count; i++) {
        CudaReport report;
        try {
            int32_t device = 0, value = 0;
            char name[256] = {};
            size_t memory = 0;
            cuda::check(api->DeviceGet(&device, i), "DeviceGet");
            cuda::check(api->DeviceGetName(name, 255, device), "DeviceGetName");
            cuda::check(api->DeviceTotalMem(&memory, device), "DeviceTotalMem");
            report.name = name;
            report.memory = static_cast<int64_t>(memory);
            auto ask = [&](int32_t what) {
                cuda::check(api->DeviceGetAttribute(&value, what, device), "DeviceGetAttribute");
                return value;
            };
            report.major = ask(cuda::capability_major);
            report.minor = ask(cuda::capability_minor);
            report.multiprocessors = ask(cuda::multiprocessors);
            report.shared_memory = ask(cuda::max_shared_memory);
            report.threads = ask(cuda::max_threads_per_block);
            if (report.major < 5) {
                report.rejected = "its compute capability is below 5.0";
            } else {
                int index = static_cast<int>(found.drivers.size());
                auto* driver = new Cuda(*api, device, report, index);  // a rejected one keeps CUDA's threads
                report.rejected = probe(*driver);
                if (report.rejected.empty()) {
                    report.index = index;
                    found.drivers.push_back(driver);
                }
            }
        } catch (const Error& error) {
            report.rejected = error.what();
        }
        found.reports.push_back(report);
    }
    return found;
}
const Working& working() {
    static const Working* all = new Working(find());
    return *all;
}

}  // namespace

int cuda_devices() { return static_cast<int>(working().drivers.size()); }
std::vector<CudaReport> cuda_report() { return working().reports; }

Driver& cuda_driver(int index) {
    const Working& all = working();
    if (index < 0 || static_cast<size_t>(index) >= all.drivers.size()) {
        std::string why;
        for (const CudaReport& report : all.reports) {
            if (report.index < 0) why.append("\n  ").append(report.name).append(": ").append(report.rejected);
        }
        if (all.reports.empty() && !cuda::api()) why = "\n  " + cuda::why();
        if (all.drivers.empty())
            fail_state("there is no CUDA device that works; ask with fb.cuda.is_available(), use device='cpu'", why);
        fail_value("device 'cuda:", index, "' does not exist: the last one is cuda:", all.drivers.size() - 1, why);
    }
    return *all.drivers[static_cast<size_t>(index)];
}

int cuda_owner(const void* address) {
    const Working& all = working();
    for (size_t i = 0; i < all.drivers.size(); i++) {
        if (all.drivers[i]->owns(address)) return static_cast<int>(i);
    }
    return 0;
}

}  // namespace fb::gpu
