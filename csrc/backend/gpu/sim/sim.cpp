#include "backend/gpu/sim/sim.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/gpu/sim/memory.h"
#include "backend/gpu/sim/queue.h"
#include "backend/gpu/stream_numbers.h"
#include "base/error.h"
#include "base/fork.h"

namespace fb::gpu {
namespace {

double now() {
    using namespace std::chrono;
    return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

// The fault word of a stream, and whether items of a group ever disagreed about a barrier.
struct SimFault {
    FaultWord word;
    bool torn = false;
};

class Sim final : public Driver {
  public:
    Sim() : allocator_(memory_) {}
    const char* name() const override { return "simulated accelerator"; }
    Device device() const override { return {DeviceType::Sim, 0}; }
    bool is_processor() const override { return true; }
    bool prefers_loops() const override { return true; }
    CachingAllocator& allocator() override { return allocator_; }

    int create_stream() override { return numbers_.take(); }
    int streams() const override { return numbers_.count(); }
    Mark mark(int stream) override { return {stream, queue(stream).submitted()}; }
    bool reached(const Mark& mark) override { return queue(mark.stream).done() >= mark.number; }
    bool wait(const Mark& mark, int milliseconds) override {
        return queue(mark.stream).wait(mark.number, milliseconds);
    }
    void wait_in_stream(int stream, const Mark& mark) override {
        if (stream == mark.stream) return;
        queue(stream).submit([&other = queue(mark.stream), number = mark.number] {
            while (!other.wait(number, 1000)) {
            }
        });
    }
    void mark_time(int stream, std::shared_ptr<double> when) override {
        queue(stream).submit([when = std::move(when)] { *when = now(); });
    }

    bool uses_host_clock() const override { return true; }

    void upload(int stream, void* to, const void* from, size_t bytes) override {
        std::vector<char> staged(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
        queue(stream).submit([target = memory_.bytes_at(to), staged = std::move(staged)] {
            std::memcpy(target, staged.data(), staged.size());
        });
    }
    void read(void* to, const void* from, size_t bytes) override { std::memcpy(to, memory_.bytes_at(from), bytes); }
    void copy(int stream, void* to, const void* from, size_t bytes) override {
        queue(stream).submit(
            [to = memory_.bytes_at(to), from = memory_.bytes_at(from), bytes] { std::memmove(to, from, bytes); });
    }
    void fill(int stream, void* to, const void* element, size_t size, size_t count) override {
        std::array<char, 16> bits{};
        std::memcpy(bits.data(), element, size);
        queue(stream).submit([to = memory_.bytes_at(to), bits, size, count] {
            for (size_t i = 0; i < count; i++) std::memcpy(to + i * size, bits.data(), size);
        });
    }

    std::vector<const Kernel*> build(const Program& program) override {
        std::string why;
        std::vector<const Kernel*> all = load_kernels(program, why);
        std::lock_guard guard(lock_);
        why_ = why;
        return all;
    }
    void launch(int stream, const Launch& l, int64_t number) override {
        const auto* kernel = static_cast<const SimKernel*>(l.kernel);
        std::vector<char> params(static_cast<const char*>(l.params), static_cast<const char*>(l.params) + l.bytes);
        std::array<void*, most_pointers> data{};
        for (size_t i = 0; i < kernel->pointers; i++)
            data[i] = l.pointers[i] ? memory_.bytes_at(l.pointers[i]) : nullptr;
        int64_t groups = (l.items + kernel->size - 1) / kernel->size;
        queue(stream).submit([this, stream, kernel, data, params = std::move(params), groups, number] {
            SimFault& fault = faults_[stream];
            SimItem first{data.data(), params.data(), 0, 0, kernel->size, &fault.word.set, number, nullptr, nullptr};
            if (!kernel->one) kernel->groups(&first, 0, groups);
            else if (!run_with_barriers(kernel->one, first, groups)) fault.torn = true;
        });
    }
    bool take_fault(int stream, FaultWord& word) override {
        SimFault& fault = faults_[stream];
        if (std::exchange(fault.torn, false))
            fail_state("a kernel on device 'sim:0' has a barrier that only some items of a group reached");
        if (__atomic_load_n(&fault.word.set, __ATOMIC_ACQUIRE) == 0 || !reached(mark(stream))) return false;
        word = std::exchange(fault.word, {});
        return true;
    }
    std::string why() const override {
        std::lock_guard guard(lock_);
        return why_;
    }
    SimMemory memory_;
    CachingAllocator allocator_;

  private:
    // Made when it is first used, for the life of the process.
    Queue& queue(int stream) {
        std::atomic<Queue*>& own = queues_[stream];
        if (Queue* q = own.load(std::memory_order_acquire)) return *q;
        std::lock_guard guard(lock_);
        if (!own.load(std::memory_order_relaxed)) own.store(new Queue, std::memory_order_release);
        return *own.load(std::memory_order_relaxed);
    }

    mutable Mutex lock_;
    StreamNumbers numbers_;
    std::atomic<Queue*> queues_[most_streams] = {};
    SimFault faults_[most_streams];
    std::string why_;
};

Sim& sim() {
    static Sim* only = [] {
        auto* s = new Sim;  // lives as long as the process: its threads never end
        s->memory_.before_unmap = [] {
            Sim& self = sim();
            if (self.generation != fork_generation.load(std::memory_order_relaxed)) return;
            for (int i = 0; i < self.streams(); i++) {
                Mark mark = self.mark(i);
                while (!self.wait(mark, 1000)) {
                }
            }
        };
        return s;
    }();
    return *only;
}

}  // namespace

std::vector<const Kernel*> load_kernels(const Program& program, std::string& why) {
    std::vector<const Kernel*> all;
    void* library = compile_program(assemble(program, Dialect::Cpp), program.fuses, why);
    if (!library) return all;
    bool barriers = program.text.find("BARRIER") != std::string::npos;
    for (const KernelText& text : program.kernels) {
        auto* kernel = new SimKernel;
        kernel->groups = reinterpret_cast<SimGroups>(dlsym(library, text.name.c_str()));
        if (barriers || text.body.find("BARRIER") != std::string::npos)
            kernel->one = reinterpret_cast<SimOne>(dlsym(library, (text.name + "_one").c_str()));
        kernel->pointers = text.pointers.size();
        kernel->size = text.size;
        all.push_back(kernel);
    }
    return all;
}

Driver& sim_driver() { return sim(); }

}  // namespace fb::gpu
