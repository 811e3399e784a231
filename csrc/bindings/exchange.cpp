// Memory shared with other libraries: raw addresses (NumPy's array interface), the buffer protocol, DLPack.
#include "bindings/convert.h"
#include "bindings/python.h"

namespace fb::py {
namespace {

// from_address(address, nbytes, dtype, shape, strides in elements, offset in elements, owner, read_only)
PyObject* from_address(PyObject*, PyObject* args) {
    PyObject *address, *dtype, *shape, *strides, *owner;
    Py_ssize_t nbytes;
    long long offset;
    int read_only;
    if (!PyArg_ParseTuple(args, "OnO!OOLOp", &address, &nbytes, dtype_type, &dtype, &shape, &strides, &offset, &owner, &read_only)) return nullptr;
    return guarded([&]() -> PyObject* {
        OpScope scope("from_numpy");
        void* data = PyLong_AsVoidPtr(address);
        if (PyErr_Occurred()) throw PythonError{};
        Dims sizes, steps;
        if (!dims_of(shape, sizes) || !dims_of(strides, steps)) fail_type("shape and strides must be tuples of ints");
        Py_INCREF(owner);
        auto release = [owner] {
            PyGILState_STATE state = PyGILState_Ensure();
            Py_DECREF(owner);
            PyGILState_Release(state);
        };
        auto storage = make_ref<Storage>(data, static_cast<size_t>(nbytes), Device{}, release, read_only != 0);
        return wrap(make_view(storage, dtype_of(dtype), sizes, steps, offset));
    });
}

PyMethodDef functions[] = {{"from_address", from_address, METH_VARARGS, "from_address(address, nbytes, dtype, shape, strides, offset, owner, read_only): a tensor on another library's memory."}, {}};

}  // namespace

void add_exchange(PyObject* module) { ok(PyModule_AddFunctions(module, functions)); }

}  // namespace fb::py
