// Ops as Python objects: the overloads of a name, and how they are called.
#pragma once
#include <memory>

#include "bindings/autocast.h"
#include "bindings/python.h"

namespace fb::py {

struct Overload {
    const OpOverload* op;  // in the op table, or created here for a composite
    const Signature& signature;
    unsigned flags;
    PyObject* python;               // composite, or nullptr
    PyTypeObject* named = nullptr;  // result type of a named result
    std::unique_ptr<OpOverload> own;
    int device_at = -1;  // index of the device parameter
    bool draws = false;  // takes a generator: draws random numbers
};

struct OpHandle {
    std::string name;          // with namespace: linalg.solve
    std::string short_name;    // solve
    std::string inplace_name;  // solve_
    std::string doc;
    std::vector<std::unique_ptr<Overload>> overloads;
    unsigned flags = 0;
    Cast cast = Cast::None;       // under autocast
    PyObject* callables[3] = {};  // function, method, in-place method: one object for all names of the op
};

// Operators are functions that also accept a number on the left: 2 - x.
enum class Mode { Function, Method, Inplace, Operator };

PyObject* set_draws_in_vmap(PyObject*, PyObject* on);                   // Python's _C.set_draws_in_vmap
PyObject* call_as(PyObject*, PyObject* const* args, Py_ssize_t count);  // Python's _C.call_as

// Names of ops outlive the calls: profiles, counts and late errors mention them. There are as many as names in
// programs.
const char* kept(const char* name);

// Binds the arguments to the overloads in order and runs the first that fits.
PyObject* call(OpHandle* op, Mode mode, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);

}  // namespace fb::py
