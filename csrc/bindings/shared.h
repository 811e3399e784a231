// Memory shared between processes.
#pragma once
#include "bindings/python.h"

namespace fb::py {

void add_shared(PyObject* module);
void add_cluster(PyObject* module);  // collectives between processes

}  // namespace fb::py
