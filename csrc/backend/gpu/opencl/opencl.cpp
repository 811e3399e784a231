#include "backend/gpu/opencl/opencl.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "backend/gpu/cache.h"
#include "backend/gpu/opencl/memory.h"
#include "backend/gpu/probe.h"
#include "backend/gpu/progress.h"
#include "backend/gpu/stream_numbers.h"
#include "base/fork.h"

namespace fb::gpu {
namespace {

// Streams have the same numbers on all devices; a queue is created where one is used.
StreamNumbers stream_numbers;

struct OpenclKernel final : Kernel {
    cl::Kernel kernel;
    size_t pointers, size;
    OpenclKernel(cl::Kernel k, const KernelText& text)
        : kernel(k), pointers(text.pointers.size()), size(static_cast<size_t>(text.size)) {}
};

struct Stream {
    cl::CommandQueue queue = nullptr;
    cl::Memory fault = nullptr;
    std::atomic<uint64_t> submitted{0}, marked{0}, may_fail{0};  // numbers of commands
    std::deque<std::pair<uint64_t, cl::Event>> events;           // of marks that are not reached yet
    Progress progress;
    std::atomic<int32_t> error{0};  // the first error of a command
};

// The argument of an OpenCL callback.
struct Signal {
    const cl::Api* api;
    Stream* stream;
    uint64_t number;
    std::shared_ptr<double> when;  // receives the time
    std::unique_ptr<char[]> staged;
    bool on_cpu = false;
};
void done(cl::Event event, int32_t status, void* data) {
    std::unique_ptr<Signal> signal(static_cast<Signal*>(data));
    if (signal->when) {
        uint64_t nanoseconds = 0;
        // Intel's CPU runtime knows the time only after the callback; its clock is the host's.
        if (signal->on_cpu)
            nanoseconds = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
        else signal->api->GetEventProfilingInfo(event, cl::profiling_end, sizeof nanoseconds, &nanoseconds, nullptr);
        double milliseconds = static_cast<double>(nanoseconds) / 1e6;
        __atomic_store(signal->when.get(), &milliseconds, __ATOMIC_RELEASE);
    }
    if (status < 0) signal->stream->error.store(status);
    if (signal->number) signal->stream->progress.advance(signal->number);
}

class Opencl final : public Driver {
  public:
    Opencl(const cl::Found& found, int index)
        : found_(found), api_(*found.api), index_(index), memory_(found, index), allocator_(memory_) {
        int32_t status = 0;
        const intptr_t properties[] = {0x1084, reinterpret_cast<intptr_t>(found.platform), 0};
        context_ = memory_.context = api_.CreateContext(properties, 1, &found.id, nullptr, nullptr, &status);
        cl::check(status, "CreateContext");
        control_ = new_queue();
        uint64_t floats = 0;
        api_.GetDeviceInfo(found.id, 0x101B, sizeof floats, &floats, nullptr);
        if (floats >> 7 & 1) options_ += " -cl-fp32-correctly-rounded-divide-sqrt";
        if (is_processor()) options_ += " -DON_PROCESSOR";
    }
    const char* name() const override { return found_.name.c_str(); }
    Device device() const override { return {DeviceType::OpenCL, static_cast<int8_t>(index_)}; }
    bool is_processor() const override { return found_.type == "cpu"; }
    CachingAllocator& allocator() override { return allocator_; }

    int create_stream() override { return stream_numbers.take(); }
    int streams() const override { return stream_numbers.count(); }

    Mark mark(int number) override {
        std::lock_guard guard(lock_);
        Stream& s = stream(number);
        if (s.marked < s.submitted) {
            cl::Event event;
            cl::check(api_.EnqueueMarkerWithWaitList(s.queue, 0, nullptr, &event), "EnqueueMarkerWithWaitList");
            s.marked.store(s.submitted);
            s.events.emplace_back(s.submitted, event);
            call_back(event, new Signal{&api_, &s, s.submitted, nullptr, nullptr, false});
            api_.Flush(s.queue);
        }
        for (; !s.events.empty() && s.events.front().first <= s.progress.done(); s.events.pop_front())
            api_.ReleaseEvent(s.events.front().second);
        return {number, s.submitted};
    }
    bool reached(const Mark& mark) override { return streams_[mark.stream].progress.done() >= mark.number; }
    bool wait(const Mark& mark, int milliseconds) override {
        return streams_[mark.stream].progress.wait(mark.number, milliseconds);
    }
    void wait_in_stream(int number, const Mark& mark) override {
        if (number == mark.stream || reached(mark)) return;
        std::lock_guard guard(lock_);
        Stream &s = stream(number), &other = streams_[mark.stream];
        for (auto& [at, event] : other.events) {
            if (at < mark.number) continue;
            cl::check(api_.EnqueueBarrierWithWaitList(s.queue, 1, &event, nullptr), "EnqueueBarrierWithWaitList");
            submitted(s);
            return;
        }
    }
    void mark_time(int number, std::shared_ptr<double> when) override {
        std::lock_guard guard(lock_);
        Stream& s = stream(number);
        cl::Event event;
        cl::check(api_.EnqueueMarkerWithWaitList(s.queue, 0, nullptr, &event), "EnqueueMarkerWithWaitList");
        submitted(s);
        call_back(event, new Signal{&api_, &s, 0, std::move(when), nullptr, found_.type == "cpu"});
        api_.ReleaseEvent(event);
    }

    bool uses_host_clock() const override { return found_.type == "cpu"; }

    void upload(int number, void* to, const void* from, size_t bytes) override {
        if (bytes == 0) return;
        Place place = memory_.place_of(to);
        auto staged = std::make_unique_for_overwrite<char[]>(bytes);
        std::memcpy(staged.get(), from, bytes);
        std::lock_guard guard(lock_);
        Stream& s = stream(number);
        cl::Event event;
        cl::check(api_.EnqueueWriteBuffer(s.queue, place.buffer, 0, static_cast<size_t>(place.offset), bytes,
                                          staged.get(), 0, nullptr, &event),
                  "EnqueueWriteBuffer");
        submitted(s);
        call_back(event, new Signal{&api_, &s, 0, nullptr, std::move(staged), false});
        api_.ReleaseEvent(event);
    }
    void read(void* to, const void* from, size_t bytes) override {
        if (bytes == 0) return;
        Place place = memory_.place_of(from);
        cl::check(api_.EnqueueReadBuffer(control_, place.buffer, 1, static_cast<size_t>(place.offset), bytes, to, 0,
                                         nullptr, nullptr),
                  "EnqueueReadBuffer");
    }
    void copy(int number, void* to, const void* from, size_t bytes) override {
        if (bytes == 0 || to == from) return;
        Place target = memory_.place_of(to), source = memory_.place_of(from);
        auto at = static_cast<size_t>(target.offset), start = static_cast<size_t>(source.offset);
        bool overlap = target.buffer == source.buffer && at < start + bytes && start < at + bytes;
        std::lock_guard guard(lock_);
        Stream& s = stream(number);
        auto move = [&](cl::Memory a, size_t a_at, cl::Memory b, size_t b_at) {
            cl::check(api_.EnqueueCopyBuffer(s.queue, a, b, a_at, b_at, bytes, 0, nullptr, nullptr),
                      "EnqueueCopyBuffer");
            submitted(s);
        };
        if (!overlap) return move(source.buffer, start, target.buffer, at);
        int32_t status = 0;
        cl::Memory between = api_.CreateBuffer(context_, cl::memory_read_write, bytes, nullptr, &status);
        cl::check(status, "CreateBuffer");
        move(source.buffer, start, between, 0);
        move(between, 0, target.buffer, at);
        api_.ReleaseMemObject(between);  // the commands retain it
    }
    void fill(int number, void* to, const void* element, size_t size, size_t count) override {
        if (count == 0) return;
        Place place = memory_.place_of(to);
        std::lock_guard guard(lock_);
        Stream& s = stream(number);
        cl::check(api_.EnqueueFillBuffer(s.queue, place.buffer, element, size, static_cast<size_t>(place.offset),
                                         size * count, 0, nullptr, nullptr),
                  "EnqueueFillBuffer");
        submitted(s);
    }

    std::vector<const Kernel*> build(const Program& program) override {
        std::string source = assemble(program, Dialect::OpenCL);
        std::string cached = hash(source + options_ + found_.name + found_.driver + found_.platform_name +
                                  (found_.type == "cpu" ? processor() : "")) +
                             ".cl";
        cl::Program built = found_.portable ? nullptr : from_binary(read_cached(cached));
        if (!built) {
            built = from_source(source);
            if (!built) return {};
            if (!found_.portable) keep_binary(built, cached);
        }
        {
            std::lock_guard guard(lock_);
            why_.clear();
        }
        std::vector<const Kernel*> all;
        for (const KernelText& text : program.kernels) {
            int32_t status = 0;
            cl::Kernel kernel = api_.CreateKernel(built, text.name.c_str(), &status);
            cl::check(status, "CreateKernel");
            all.push_back(new OpenclKernel(kernel, text));
        }
        return all;
    }
    std::string why() const override {
        std::lock_guard guard(lock_);
        return why_;
    }
    void launch(int number, const Launch& l, int64_t launch) override {
        if (l.items <= 0) return;
        const auto& kernel = *static_cast<const OpenclKernel*>(l.kernel);
        Place places[most_pointers];
        for (size_t i = 0; i < kernel.pointers; i++) places[i] = memory_.place_of(l.pointers[i]);
        std::lock_guard guard(lock_);  // a kernel has one set of arguments
        Stream& s = stream(number);
        uint32_t argument = 0;
        for (size_t i = 0; i < kernel.pointers; i++) {
            set(kernel, argument++, sizeof(cl::Memory), &places[i].buffer);
            set(kernel, argument++, sizeof(int64_t), &places[i].offset);
        }
        set(kernel, argument++, l.bytes, l.params);
        set(kernel, argument++, sizeof(cl::Memory), &s.fault);
        set(kernel, argument++, sizeof(int64_t), &launch);
        size_t global = (static_cast<size_t>(l.items) + kernel.size - 1) / kernel.size * kernel.size;
        cl::check(
            api_.EnqueueNDRangeKernel(s.queue, kernel.kernel, 1, nullptr, &global, &kernel.size, 0, nullptr, nullptr),
            "EnqueueNDRangeKernel");
        submitted(s);
        if (l.faults) s.may_fail.store(s.submitted);
        last_ = {&kernel, global};
    }
    double time_bare_launch() override {
        std::lock_guard guard(lock_);
        const auto [kernel, global] = last_;
        check(kernel != nullptr, "no kernel was launched on device 'opencl:", index_, "' yet");
        Stream& s = stream(0);
        const auto start = std::chrono::steady_clock::now();
        cl::check(
            api_.EnqueueNDRangeKernel(s.queue, kernel->kernel, 1, nullptr, &global, &kernel->size, 0, nullptr, nullptr),
            "EnqueueNDRangeKernel");
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
        submitted(s);
        return taken.count();
    }
    bool take_fault(int number, FaultWord& word) override {
        Stream& s = streams_[number];
        if (int32_t status = s.error.exchange(0)) cl::check(status, "EnqueueNDRangeKernel, or a copy");
        uint64_t suspect = s.may_fail.load();
        if (suspect == 0 || s.progress.done() < suspect) return false;
        std::lock_guard guard(lock_);
        cl::check(api_.EnqueueReadBuffer(control_, s.fault, 1, 0, sizeof word, &word, 0, nullptr, nullptr),
                  "EnqueueReadBuffer");
        s.may_fail.compare_exchange_strong(suspect, 0);
        if (word.set) clear(s);
        return word.set != 0;
    }

    bool owns(const void* address) const { return memory_.place_of(address).buffer != nullptr; }

  private:
    // Called with the lock held.
    Stream& stream(int number) {
        Stream& s = streams_[number];
        if (s.queue) return s;
        s.queue = new_queue();
        int32_t status = 0;
        s.fault = api_.CreateBuffer(context_, cl::memory_read_write, sizeof(FaultWord), nullptr, &status);
        cl::check(status, "CreateBuffer");
        clear(s);
        return s;
    }
    void clear(Stream& s) {
        FaultWord nothing;
        cl::check(api_.EnqueueWriteBuffer(control_, s.fault, 1, 0, sizeof nothing, &nothing, 0, nullptr, nullptr),
                  "EnqueueWriteBuffer");
        cl::check(api_.Finish(control_), "Finish");  // a blocking write only says that `nothing` was read
    }
    cl::CommandQueue new_queue() {
        int32_t status = 0;
        cl::CommandQueue queue = api_.CreateCommandQueue(context_, found_.id, cl::queue_profiling, &status);
        cl::check(status, "CreateCommandQueue");
        return queue;
    }
    void submitted(Stream& s) {
        s.submitted.store(s.submitted + 1);
        api_.Flush(s.queue);
    }
    void call_back(cl::Event event, Signal* signal) {
        cl::check(api_.SetEventCallback(event, cl::complete, done, signal), "SetEventCallback");
    }
    void set(const OpenclKernel& kernel, uint32_t argument, size_t bytes, const void* value) {
        cl::check(api_.SetKernelArg(kernel.kernel, argument, bytes, value), "SetKernelArg");
    }

    cl::Program from_source(const std::string& source) {
        const char* text = source.c_str();
        int32_t status = 0;
        cl::Program program = api_.CreateProgramWithSource(context_, 1, &text, nullptr, &status);
        cl::check(status, "CreateProgramWithSource");
        status = api_.BuildProgram(program, 1, &found_.id, options_.c_str(), nullptr, nullptr);
        if (status == 0) return program;
        size_t size = 0;
        api_.GetProgramBuildInfo(program, found_.id, cl::build_log, 0, nullptr, &size);
        std::string log(size, '\0');
        api_.GetProgramBuildInfo(program, found_.id, cl::build_log, size, log.data(), nullptr);
        api_.ReleaseProgram(program);
        std::lock_guard guard(lock_);
        why_ = cl::describe(status) + ":\n" + log.c_str();
        return nullptr;
    }
    cl::Program from_binary(const std::string& bytes) {
        if (bytes.empty()) return nullptr;
        const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
        size_t size = bytes.size();
        int32_t valid = 0, status = 0;
        cl::Program program = api_.CreateProgramWithBinary(context_, 1, &found_.id, &size, &data, &valid, &status);
        if (!program || status != 0 || valid != 0) return nullptr;
        if (api_.BuildProgram(program, 1, &found_.id, options_.c_str(), nullptr, nullptr) == 0) return program;
        api_.ReleaseProgram(program);
        return nullptr;
    }
    void keep_binary(cl::Program program, const std::string& cached) {
        size_t size = 0;
        if (api_.GetProgramInfo(program, cl::program_binary_sizes, sizeof size, &size, nullptr) != 0 || size == 0)
            return;
        std::string bytes(size, '\0');
        auto* data = reinterpret_cast<unsigned char*>(bytes.data());
        if (api_.GetProgramInfo(program, cl::program_binaries, sizeof data, &data, nullptr) == 0)
            write_cached(cached, bytes);
    }

    const cl::Found& found_;
    const cl::Api& api_;
    int index_;
    OpenclMemory memory_;
    CachingAllocator allocator_;
    cl::Context context_ = nullptr;
    cl::CommandQueue control_ = nullptr;  // for read()
    std::string options_ = "-cl-std=CL1.2";
    mutable Mutex lock_;
    Stream streams_[most_streams];
    std::pair<const OpenclKernel*, size_t> last_{nullptr, 0};  // what was launched, and its items
    std::string why_;
};

// ---- which devices work ---------------------------------------------------------------------------------------------

struct Working {
    std::vector<Opencl*> drivers;
    std::vector<OpenclReport> reports;
};
const Working& working() {
    static const Working* all = [] {
        auto* found = new Working;
        for (const cl::Found& device : cl::all_devices()) {
            OpenclReport report{device, -1};
            if (report.device.rejected.empty()) {
                try {
                    int index = static_cast<int>(found->drivers.size());
                    auto driver = std::make_unique<Opencl>(device, index);
                    report.device.rejected = probe(*driver);
                    if (report.device.rejected.empty()) {
                        report.index = index;
                        found->drivers.push_back(driver.release());
                    } else {
                        driver.release();  // callbacks may still arrive
                    }
                } catch (const Error& error) {
                    report.device.rejected = error.what();
                }
            }
            found->reports.push_back(report);
        }
        return found;
    }();
    return *all;
}

}  // namespace

int opencl_devices() { return static_cast<int>(working().drivers.size()); }
const std::string& opencl_why_none() { return cl::why_none(); }
std::vector<OpenclReport> opencl_report() { return working().reports; }

Driver& opencl_driver(int index) {
    const Working& all = working();
    if (index < 0 || static_cast<size_t>(index) >= all.drivers.size()) {
        std::string why;
        for (const OpenclReport& report : all.reports) {
            if (report.index < 0) why += "\n  " + report.device.name + " was rejected: " + report.device.rejected;
        }
        if (all.reports.empty()) why = "\n  " + cl::why_none();
        check(!all.drivers.empty(),
              "there is no OpenCL device that works; pip install flambeau[opencl] brings one that "
              "computes on the CPU",
              why);
        check(false, "device 'opencl:", index, "' does not exist: there ", all.drivers.size() == 1 ? "is " : "are ",
              all.drivers.size(), ", beginning with opencl:0", why);
    }
    return *all.drivers[static_cast<size_t>(index)];
}

int opencl_owner(const void* address) {
    const Working& all = working();
    for (size_t i = 0; i < all.drivers.size(); i++) {
        if (all.drivers[i]->owns(address)) return static_cast<int>(i);
    }
    return 0;
}

}  // namespace fb::gpu
