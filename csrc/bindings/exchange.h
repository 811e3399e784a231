// Memory shared with other libraries: entry points that the Tensor type and the module need.
#pragma once
#include "bindings/python.h"

namespace fb::py {

// For callbacks into other libraries, from any thread: takes the interpreter lock and saves a pending exception around
// the call.
class CallOut {
  public:
    CallOut() { PyErr_Fetch(&type_, &value_, &trace_); }
    ~CallOut() { PyErr_Restore(type_, value_, trace_); }
    CallOut(const CallOut&) = delete;
    CallOut& operator=(const CallOut&) = delete;

  private:
    Lock lock_;
    PyObject *type_, *value_, *trace_;
};

// The buffer protocol's two slots.
int tensor_getbuffer(PyObject* self, Py_buffer* view, int flags);
void tensor_releasebuffer(PyObject* self, Py_buffer* view);

// A tensor over foreign memory at the address of element [0, …, 0]; strides in elements, of any sign. `release` runs
// exactly once, when the last tensor on the memory dies, or before this function throws.
Tensor adopt(void* first, DType dtype, const Dims& shape, const Dims& strides, std::function<void()> release,
             bool read_only);

void add_dlpack(PyObject* module);

}  // namespace fb::py
