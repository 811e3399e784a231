// x[…] and x[…] = v.
#pragma once
#include "bindings/python.h"

namespace fb::py {

PyObject* tensor_getitem(PyObject* self, PyObject* index);
int tensor_setitem(PyObject* self, PyObject* index, PyObject* value);

}  // namespace fb::py
