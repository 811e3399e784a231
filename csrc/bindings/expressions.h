#pragma once
#include "bindings/python.h"

namespace fb::py {

// _C.formulas(), reductions() and scans(), and _C.compute_formula().
void add_expressions(PyObject* module);
void add_accelerator(PyObject* module);
void add_kernels(PyObject* module);

}  // namespace fb::py
