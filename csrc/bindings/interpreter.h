// The interpreter lock: releasing it for long work, taking it for a callback, and behaviour when the interpreter
// finalizes meanwhile.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cxxabi.h>

#include "base/exclusive.h"

namespace fb::py {

// Note [Threads at exit]: when the interpreter finalizes, CPython (before 3.14) ends every daemon thread that asks for
// the lock by pthread_exit, which unwinds the stack. Our frames on it hold references and locks that can only be
// released with the interpreter's help, and destructors and catch (...) turn such an unwinding into an abort. So
// wherever C++ enters Python, the unwinding is caught first, and the thread sleeps until the process ends.
[[noreturn]] void sleep_forever();

// in_python<PyObject_CallOneArg>(f, x): calls any function of the C API that may run Python code or wait for the lock.
template <auto function, class... Args>
auto in_python(Args... args) {
    try {
        return function(args...);
    } catch (abi::__forced_unwind&) {
        sleep_forever();
    }
}

// Holds the interpreter lock, for code that may run without it.
class Lock {
  public:
    Lock() : state_(in_python<PyGILState_Ensure>()) {}
    ~Lock() { PyGILState_Release(state_); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

  private:
    NotReading waits_;  // from before the lock is requested until it is released
    PyGILState_STATE state_;
};

// Releases the interpreter lock. For work that reads no tensor, since it may take arbitrarily long.
class Unlocked {
  public:
    Unlocked() : state_(PyEval_SaveThread()) {}
    ~Unlocked() { in_python<PyEval_RestoreThread>(state_); }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

  private:
    PyThreadState* state_;
};
// The same for computations on tensors.
struct UnlockedOp {
    Unlocked unlocked;
    Reading reading;
};

}  // namespace fb::py
