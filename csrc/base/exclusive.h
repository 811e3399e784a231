// Note [Changing tensors in place]: ops compute without the interpreter lock, on any number of threads, and read the
// shape, strides, offset and memory of tensors that other threads use too, without any synchronisation. Code that gives
// an existing tensor other memory or another shape (resize_, set_, `.data =`, share_memory_, out= of another shape), or
// that changes the hooks of a node, does so in exclusively(): with the interpreter lock held, and while no thread
// computes without it. Such changes are rare; they wait for the running ops, and no new op starts before them. Replaced
// memory is freed afterwards, when no thread can read it any more.
// The one change that ops themselves make often, settling a free layout, has a cheaper protocol: Note [Layout freedom].
#pragma once
#include <atomic>
#include <utility>

#include "base/fork.h"

namespace fb {

// The interpreter functions that the core needs; set by the bindings, null in a program without an interpreter.
struct Interpreter {
    void (*with_lock)(void (*f)(void*), void* context);     // takes the lock unless this thread has it already
    void (*without_lock)(void (*f)(void*), void* context);  // releases it if this thread has it
};
extern Interpreter interpreter;

namespace detail {
extern std::atomic<bool> change_wanted;
extern thread_local int reading;
void begin_reading();
void end_reading();
void exclusively(void (*f)(void*), void* context);
}  // namespace detail

// Marks this thread as computing without the interpreter lock, for as long as the object lives.
class Reading {
  public:
    Reading() {
        if (detail::reading++ == 0) detail::begin_reading();
    }
    ~Reading() {
        if (--detail::reading == 0) detail::end_reading();
    }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
};

// Suspends a Reading while the thread waits or runs Python.
class NotReading {
  public:
    NotReading() : before_(std::exchange(detail::reading, 0)) {
        if (before_) detail::end_reading();
    }
    ~NotReading() {
        if (before_) detail::begin_reading();
        detail::reading = before_;
    }
    NotReading(const NotReading&) = delete;
    NotReading& operator=(const NotReading&) = delete;

  private:
    int before_;
};

// Called between two ops of a long computation: lets threads waiting in exclusively() proceed.
inline void let_changes_in() {
    if (detail::change_wanted.load(std::memory_order_relaxed)) [[unlikely]] {
        NotReading pause;
    }
}

// Runs f() with the interpreter lock held, while no thread computes without it. f must neither wait nor run Python:
// anything it would destroy (a storage whose memory came from Python, say) is moved out and destroyed afterwards.
template <class F>
void exclusively(F&& f) {
    using Fn = std::remove_reference_t<F>;
    detail::exclusively([](void* context) { (*static_cast<Fn*>(context))(); }, &f);
}

}  // namespace fb
