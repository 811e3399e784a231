// The Python side of the graph.
#pragma once
#include "autograd/node.h"
#include "bindings/python.h"

namespace fb::py {

// The running call, as a place in the user's program (frames of this package are skipped).
Location here();
PyObject* wrap_node(const Ref<Node>& node);  // None if there is none
void add_autograd(PyObject* module);
// Attributes of the tensor type defined here.
extern PyGetSetDef autograd_getset[];
extern PyMethodDef autograd_methods[];
// For the garbage collector: hooks on a leaf owned only by Python may refer back to it.
int visit_hooks(TensorImpl* impl, visitproc visit, void* arg);
void clear_hooks(TensorImpl* impl);

// A Python object owned by C++ that may be destroyed without the interpreter lock.
class Kept {
  public:
    explicit Kept(PyObject* object) : object_(Py_NewRef(object)) {}
    ~Kept() {
        if (!Py_IsInitialized()) return;
        Lock lock;
        Py_DECREF(object_);
    }
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
    PyObject* get() const { return object_; }

  private:
    PyObject* object_;
};

}  // namespace fb::py
