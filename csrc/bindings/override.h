// Classes and modes that handle calls: the protocol of __torch_function__.
#pragma once
#include "bindings/op.h"

namespace fb::py {

// Whether a mode is active, or the class of an argument (or of an item of a list argument) handles calls.
bool overridden(PyObject* const* args, Py_ssize_t count);

// Hands them the call of a function, method or operator.
PyObject* give_to_class(PyObject* func, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);
PyObject* give_to_class(OpHandle* op, Mode mode, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);
// Hands them the call of a method that is not an op: "__getitem__".
PyObject* give_to_class(const char* method, PyObject* const* args, Py_ssize_t nargs);

void add_override(PyObject* module);

}  // namespace fb::py
