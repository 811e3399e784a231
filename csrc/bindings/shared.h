// Memory shared between processes.
#pragma once
#include "bindings/python.h"

namespace fb::py {

void add_shared(PyObject* module);

}  // namespace fb::py
