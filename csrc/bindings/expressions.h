#pragma once
#include "bindings/python.h"

namespace fb::py {

// _C.formulas() and _C.compute_formula().
void add_expressions(PyObject* module);

}  // namespace fb::py
