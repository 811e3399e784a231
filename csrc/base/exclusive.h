// Note [Changing tensors in place]: ops compute without the interpreter lock, on any number of threads, and read the
// shape, strides, offset and memory of tensors that other threads hold as well. They pay nothing for it. Whoever gives
// an existing tensor other memory or another shape (resize_, set_, `.data =`, share_memory_, out= of another shape), or
// changes the hooks of a node, does that in exclusively(): with the interpreter lock, and while nobody computes without
// it. Such changes are rare; they wait for the ops that run, and no new op begins before them. Memory that is given up
// is freed after that, when nobody can read it any more.
// The one change that ops themselves make often, settling a free layout, has a cheaper way: Note [Layout freedom].
#pragma once
#include <atomic>
#include <utility>

#include "base/fork.h"

namespace fb {

// What the core needs of the interpreter; set by the bindings, and null in a program without one.
struct Interpreter {
    void (*with_lock)(void (*f)(void*), void* context);     // takes the lock unless this thread has it already
    void (*without_lock)(void (*f)(void*), void* context);  // releases it where this thread has it
};
extern Interpreter interpreter;

namespace detail {
extern std::atomic<bool> change_wanted;
extern thread_local int reading;
void begin_reading();
void end_reading();
void exclusively(void (*f)(void*), void* context);
}  // namespace detail

// This thread computes without the interpreter lock for as long as this lives.
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

// It does not for as long as this lives: it waits, or runs Python.
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

// Between two ops of a long computation: lets those in who wait in exclusively().
inline void let_changes_in() {
    if (detail::change_wanted.load(std::memory_order_relaxed)) [[unlikely]] {
        NotReading pause;
    }
}

// Runs f() with the interpreter lock, while nobody computes without it. f must neither wait nor run Python: what it
// lets go (a storage whose memory came from Python, say) is moved out and dies afterwards.
template <class F>
void exclusively(F&& f) {
    using Fn = std::remove_reference_t<F>;
    detail::exclusively([](void* context) { (*static_cast<Fn*>(context))(); }, &f);
}

}  // namespace fb
