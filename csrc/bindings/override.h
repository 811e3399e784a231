// Classes and modes that handle calls themselves: the protocol of __torch_function__.
#pragma once
#include "bindings/op.h"

namespace fb::py {

// Whether a mode is open, or the class of an argument (or of an item of a list among them) handles calls itself.
bool overridden(PyObject* const* args, Py_ssize_t count);

// Gives them the call of a function, a method or an operator.
PyObject* give_to_class(PyObject* func, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);
PyObject* give_to_class(OpHandle* op, Mode mode, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);
// The call of a method that is no op: "__getitem__".
PyObject* give_to_class(const char* method, PyObject* const* args, Py_ssize_t nargs);

void add_override(PyObject* module);

}  // namespace fb::py
