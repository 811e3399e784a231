// Memory shared between processes: mapping a file, counting in it, moving a tensor's bytes there. Allocating, sending
// and freeing blocks is decided in flambeau/multiprocessing.
#include "bindings/shared.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "bindings/convert.h"
#include "bindings/exchange.h"

namespace fb::py {
namespace {

struct Mapping {
    void* address;
    size_t bytes;
};

void unmap(PyObject* capsule) {
    auto* mapping = static_cast<Mapping*>(PyCapsule_GetPointer(capsule, "flambeau.mapping"));
    munmap(mapping->address, mapping->bytes);
    delete mapping;
}

// shared_map(fd, bytes): keeps no descriptor, unlike Python's mmap.
PyObject* shared_map(PyObject*, PyObject* args) {
    int fd;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(args, "in", &fd, &bytes)) return nullptr;
    void* address = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) return PyErr_SetFromErrno(PyExc_OSError);
    auto* mapping = new Mapping{address, static_cast<size_t>(bytes)};
    PyObject* capsule = PyCapsule_New(mapping, "flambeau.mapping", unmap);
    if (!capsule) {
        munmap(address, mapping->bytes);
        delete mapping;
        return nullptr;
    }
    return Py_BuildValue("nN", reinterpret_cast<Py_ssize_t>(address), capsule);
}

// shared_add(address, delta): adds to a counter shared by several processes; returns the new value.
PyObject* shared_add(PyObject*, PyObject* args) {
    Py_ssize_t address;
    long long delta;
    if (!PyArg_ParseTuple(args, "nL", &address, &delta)) return nullptr;
    auto& counter = *reinterpret_cast<long long*>(address);
    return PyLong_FromLongLong(std::atomic_ref(counter).fetch_add(delta) + delta);
}

// shared_take(address): decrements a counter unless it is zero; returns whether it did.
PyObject* shared_take(PyObject*, PyObject* number) {
    auto* counter = static_cast<long long*>(PyLong_AsVoidPtr(number));
    if (!counter) return PyErr_Occurred() ? nullptr : Py_NewRef(Py_False);
    std::atomic_ref shared(*counter);
    long long value = shared.load();
    while (value > 0 && !shared.compare_exchange_weak(value, value - 1)) continue;
    return PyBool_FromLong(value > 0);
}

// shared_discard(address, bytes): gives the pages of a range back to the system; they read as zeros from then on.
PyObject* shared_discard(PyObject*, PyObject* args) {
    Py_ssize_t address, bytes;
    if (!PyArg_ParseTuple(args, "nn", &address, &bytes)) return nullptr;
    if (madvise(reinterpret_cast<void*>(address), static_cast<size_t>(bytes), MADV_REMOVE) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

struct Release {
    PyObject* owner;
    void operator()() const {
        if (!Py_IsInitialized()) return;
        CallOut out;
        Py_DECREF(owner);
    }
};

// shared_move(tensor, address, owner): moves the storage's bytes, and with them every view, to the address.
PyObject* shared_move(PyObject*, PyObject* args) {
    PyObject *object, *owner;
    Py_ssize_t address;
    if (!PyArg_ParseTuple(args, "O!nO", tensor_type, &object, &address, &owner)) return nullptr;
    return guarded([&]() -> PyObject* {
        OpScope scope("share_memory_");
        Storage& storage = settled(object).storage();
        if (storage.read_only()) fail_state("this tensor is read-only and cannot move; share a clone() instead");
        storage.move_to(reinterpret_cast<void*>(address), Release{Py_NewRef(owner)});
        Py_RETURN_NONE;
    });
}

PyMethodDef functions[] = {
    {"shared_map", shared_map, METH_VARARGS,
     "shared_map(fd, bytes): (address, mapping); unmapped when the mapping dies."},
    {"shared_add", shared_add, METH_VARARGS, "shared_add(address, delta): adds to a shared counter; its new value."},
    {"shared_take", shared_take, METH_O, "shared_take(address): takes one from a shared counter unless it is at zero."},
    {"shared_discard", shared_discard, METH_VARARGS,
     "shared_discard(address, bytes): gives whole pages back to the system."},
    {"shared_move", shared_move, METH_VARARGS, "shared_move(tensor, address, owner): moves the bytes of a storage."},
    {}};

}  // namespace

void add_shared(PyObject* module) { ok(PyModule_AddFunctions(module, functions)); }

}  // namespace fb::py
