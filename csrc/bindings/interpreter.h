// The interpreter lock: giving it away for long work, taking it for a callback, and what happens when the interpreter
// ends meanwhile.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cxxabi.h>

#include "base/exclusive.h"

namespace fb::py {

// Note [Threads at exit]: when the interpreter ends, CPython (before 3.14) ends every daemon thread that asks for the
// lock by pthread_exit, which unwinds the stack. Our frames on it hold references and locks they could only give back
// with the interpreter's help, and destructors and catch (...) turn such an unwinding into an abort. So wherever Python
// is entered from C++, the unwinding is caught first, and the thread sleeps until the process is gone.
[[noreturn]] void sleep_forever();

// in_python<PyObject_CallOneArg>(f, x): any function of the C API that may run Python code or wait for the lock.
template <auto function, class... Args>
auto in_python(Args... args) {
    try {
        return function(args...);
    } catch (abi::__forced_unwind&) {
        sleep_forever();
    }
}

// The interpreter lock, for code that may run without it.
class Lock {
  public:
    Lock() : state_(in_python<PyGILState_Ensure>()) {}
    ~Lock() { PyGILState_Release(state_); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

  private:
    NotReading waits_;  // before the lock is asked for, and until it is given back
    PyGILState_STATE state_;
};

// Leaves the interpreter to other threads. For work that reads no tensor: it may take for ever.
class Unlocked {
  public:
    Unlocked() : state_(PyEval_SaveThread()) {}
    ~Unlocked() { in_python<PyEval_RestoreThread>(state_); }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

  private:
    PyThreadState* state_;
};
// The same for computations.
struct UnlockedOp {
    Unlocked unlocked;
    Reading reading;
};

}  // namespace fb::py
