// Conversion of Python objects to argument values, and of results back.
#pragma once
#include "bindings/python.h"
#include "ops/table/signature.h"

namespace fb::py {

// Converts one argument. Returns false (no Python exception set) if the object does not fit the type; raises only for
// values that fit but cannot be represented (an integer beyond 64 bits).
bool convert_arg(PyObject* o, const Param& param, Value& out);

// Collects ints (or anything with __index__) from a sequence or a single int; false if it is neither.
bool dims_of(PyObject* o, Dims& out);
bool int_of(PyObject* o, int64_t& out);

PyObject* wrap_value(const Value& value);

}  // namespace fb::py
