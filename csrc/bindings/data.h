// Loading of data and files.
#pragma once
#include "bindings/python.h"

namespace fb::py {

void add_data(PyObject* module);

}  // namespace fb::py
