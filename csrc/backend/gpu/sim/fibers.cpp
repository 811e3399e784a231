// Barriers without threads: each item of a group is a fiber with its own stack. They run in turns on the stream's
// thread, each until its next barrier.
#include <sys/mman.h>
#include <ucontext.h>

#include <vector>

#include "backend/gpu/sim/sim.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace fb::gpu {
namespace {

constexpr size_t stack_bytes = 64 * 1024;

#if defined(__x86_64__)
// Saves the callee-saved registers on the current stack, and switches to another one.
extern "C" void flambeau_switch_stack(void** from, void* to);
asm(R"(
.text
.hidden flambeau_switch_stack
.globl flambeau_switch_stack
.type flambeau_switch_stack, @function
flambeau_switch_stack:
    endbr64
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size flambeau_switch_stack, .-flambeau_switch_stack
)");
struct Place {
    void* stack = nullptr;
    void start(char* bottom, void (*run)()) {
        auto** top = reinterpret_cast<void**>(bottom + stack_bytes);
        *--top = nullptr;  // run()'s return address, and the alignment after a call
        *--top = reinterpret_cast<void*>(run);
        for (int i = 0; i < 6; i++) *--top = nullptr;
        stack = top;
    }
    static void go(Place& from, Place& to) { flambeau_switch_stack(&from.stack, to.stack); }
};
#else
struct Place {
    ucontext_t context;
    void start(char* bottom, void (*run)()) {
        getcontext(&context);
        context.uc_stack = {bottom, 0, stack_bytes};
        context.uc_link = nullptr;
        makecontext(&context, run, 0);
    }
    static void go(Place& from, Place& to) { swapcontext(&from.context, &to.context); }
};
#endif

class Fibers {
  public:
    ~Fibers() {
        if (stacks_) munmap(stacks_, count_ * stack_bytes);
    }
    bool run(SimOne kernel, const SimItem& first, int64_t groups) {
        size_t size = static_cast<size_t>(first.size);
        if (count_ < size) grow(size);
        if (!stacks_) return false;
        kernel_ = kernel;
        bool together = true;
        for (int64_t group = 0; group < groups; group++) {
            for (size_t i = 0; i < size; i++) {
                items_[i] = first;
                items_[i].group = group;
                items_[i].lid = static_cast<int32_t>(i);
                items_[i].barrier = wait_at_barrier;
                items_[i].fibers = this;
                done_[i] = false;
                places_[i].start(stacks_ + i * stack_bytes, begin);
            }
            // Items that have ended while others reached a barrier.
            for (size_t left = size; left > 0;) {
                size_t before = left;
                for (running_ = 0; running_ < size; running_++) {
                    if (done_[running_]) continue;
                    enter(running_);
                    left -= done_[running_];
                }
                together &= left == 0 || left == before;
            }
        }
        return together;
    }

  private:
    void grow(size_t size) {
        if (stacks_) munmap(stacks_, count_ * stack_bytes);
        void* memory = mmap(nullptr, size * stack_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        stacks_ = memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
        count_ = stacks_ ? size : 0;
        places_.resize(count_);
        items_.resize(count_);
        done_.resize(count_);
    }
    static Fibers*& current() {
        thread_local Fibers* fibers = nullptr;
        return fibers;
    }
    void enter(size_t i) {
        current() = this;
#if defined(__SANITIZE_ADDRESS__)
        void* fake;
        __sanitizer_start_switch_fiber(&fake, stacks_ + i * stack_bytes, stack_bytes);
#endif
        Place::go(home_, places_[i]);
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
    }
    void leave([[maybe_unused]] bool for_good) {
        size_t own = running_;
#if defined(__SANITIZE_ADDRESS__)
        void* fake = nullptr;
        __sanitizer_start_switch_fiber(for_good ? nullptr : &fake, home_bottom_, home_bytes_);
#endif
        Place::go(places_[own], home_);
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_finish_switch_fiber(fake, &home_bottom_, &home_bytes_);
#endif
    }
    static void wait_at_barrier(void* fibers) { static_cast<Fibers*>(fibers)->leave(false); }
    static void begin() {
        Fibers* self = current();
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_finish_switch_fiber(nullptr, &self->home_bottom_, &self->home_bytes_);
#endif
        size_t own = self->running_;
        self->kernel_(&self->items_[own]);
        self->done_[own] = true;
        self->leave(true);  // never returns
    }

    char* stacks_ = nullptr;
    size_t count_ = 0, running_ = 0;
    SimOne kernel_ = nullptr;
    Place home_;
    std::vector<Place> places_;
    std::vector<SimItem> items_;
    std::vector<char> done_;
#if defined(__SANITIZE_ADDRESS__)
    const void* home_bottom_ = nullptr;
    size_t home_bytes_ = 0;
#endif
};

}  // namespace

bool run_with_barriers(SimOne kernel, const SimItem& first, int64_t groups) {
    thread_local Fibers fibers;  // one per stream, as each has one thread
    return fibers.run(kernel, first, groups);
}

}  // namespace fb::gpu
