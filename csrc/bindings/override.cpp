// Finds out whether a class or mode handles the call; flambeau.overrides asks them in order.
#include "bindings/override.h"

#include <atomic>

#include "bindings/items.h"

namespace fb::py {
namespace {

PyObject* protocol = nullptr;  // "__torch_function__"
PyObject* disabled = nullptr;  // the attribute of classes that do not handle calls
PyObject* handler = nullptr;   // flambeau.overrides._dispatch, looked up at the first such call

// Handlers that are disabled on this thread, and the number of modes active on it.
enum Off { Nobody, Classes, Everybody };
thread_local int off = Nobody;
thread_local int modes = 0;
std::atomic<int> threads_with_modes{0};

bool is_plain(PyTypeObject* type) {
    return type == tensor_type || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type ||
           type == Py_TYPE(Py_None) || type == &PyUnicode_Type || type == dtype_type || type == device_type ||
           type == size_type;
}

bool handles_calls(PyObject* o) {
    if (is_plain(Py_TYPE(o))) return false;
    PyObject* found = _PyType_Lookup(Py_TYPE(o), protocol);
    return found && found != disabled;
}

bool has_item_that_handles(PyObject* o) {
    return (PyTuple_CheckExact(o) || PyList_CheckExact(o)) && any_item(o, handles_calls);
}

// The method of an operator whose right operand is the tensor: 2 - x.
const char* reflected(const std::string& op) {
    static const std::pair<const char*, const char*> names[] = {
        {"sub", "__rsub__"},
        {"true_divide", "__rtruediv__"},
        {"div", "__rtruediv__"},
        {"floor_divide", "__rfloordiv__"},
        {"remainder", "__rmod__"},
        {"pow", "__rpow__"},
        {"matmul", "__rmatmul__"},
        {"bitwise_left_shift", "__rlshift__"},
        {"bitwise_right_shift", "__rrshift__"},
    };
    for (auto [name, method] : names) {
        if (op == name) return method;
    }
    return nullptr;
}

PyObject* set_off(PyObject*, PyObject* level) {
    long wanted = PyLong_AsLong(level);
    if (wanted == -1 && PyErr_Occurred()) return nullptr;
    return PyLong_FromLong(std::exchange(off, static_cast<int>(wanted)));
}
PyObject* get_off(PyObject*, PyObject*) { return PyLong_FromLong(off); }

PyObject* set_modes(PyObject*, PyObject* count) {
    long wanted = PyLong_AsLong(count);
    if (wanted == -1 && PyErr_Occurred()) return nullptr;
    threads_with_modes += (wanted > 0) - (modes > 0);
    modes = static_cast<int>(wanted);
    Py_RETURN_NONE;
}

PyObject* is_overridden(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return PyBool_FromLong(overridden(args, nargs));
}
PyObject* class_handles(PyObject*, PyObject* object) { return PyBool_FromLong(handles_calls(object)); }

// Runs the function without asking the class.
PyObject* disabled_impl(PyObject*, PyObject* args) {
    PyObject *func, *types, *arguments = nullptr, *keywords = nullptr;
    if (!PyArg_ParseTuple(args, "OO|OO", &func, &types, &arguments, &keywords)) return nullptr;
    if ((arguments && !PyTuple_Check(arguments)) || (keywords && keywords != Py_None && !PyDict_Check(keywords))) {
        PyErr_SetString(PyExc_TypeError, "__torch_function__: args must be a tuple and kwargs a dict");
        return nullptr;
    }
    Owned none(PyTuple_New(0));
    int before = std::exchange(off, std::max(off, static_cast<int>(Classes)));
    PyObject* result =
        in_python<PyObject_Call>(func, arguments ? arguments : none.get(), keywords == Py_None ? nullptr : keywords);
    off = before;
    return result;
}

PyMethodDef functions[] = {
    {"_disabled_torch_function_impl", disabled_impl, METH_VARARGS,
     "Stored as __torch_function__, says that a class does not handle calls itself."},
    {"_override_off", get_off, METH_NOARGS, "Disabled handlers: 0 none, 1 classes, 2 also modes."},
    {"_set_override_off", set_off, METH_O, "Sets the disabled handlers; returns the previous value."},
    {"_set_override_modes", set_modes, METH_O, "Sets how many modes are open on this thread."},
    {"_is_overridden", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(is_overridden)), METH_FASTCALL,
     "Whether a call with these arguments would be given away."},
    {"_handles_calls", class_handles, METH_O, "Whether the class of an object handles calls itself."},
    {}};

}  // namespace

bool overridden(PyObject* const* args, Py_ssize_t count) {
    if (threads_with_modes.load(std::memory_order_relaxed) && modes > 0 && off != Everybody) return true;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (is_plain(Py_TYPE(args[i]))) continue;
        if (handles_calls(args[i]) || has_item_that_handles(args[i])) return off == Nobody;
    }
    return false;
}

PyObject* give_to_class(PyObject* func, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    if (!handler) {
        Owned module(ok(in_python<PyImport_ImportModule>("flambeau.overrides")));
        handler = ok(in_python<PyObject_GetAttrString>(module.get(), "_dispatch"));
    }
    Owned positional(ok(PyTuple_New(nargs))), keywords(ok(PyDict_New()));
    for (Py_ssize_t i = 0; i < nargs; i++) PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
    if (kwnames) {
        Items names(kwnames);
        for (Py_ssize_t i = 0; i < names.size(); i++) ok(PyDict_SetItem(keywords.get(), names[i], args[nargs + i]));
    }
    return ok(in_python<PyObject_CallFunctionObjArgs>(handler, func, positional.get(), keywords.get(), nullptr));
}

PyObject* give_to_class(const char* method, PyObject* const* args, Py_ssize_t nargs) {
    Owned func(ok(in_python<PyObject_GetAttrString>(reinterpret_cast<PyObject*>(tensor_type), method)));
    return give_to_class(func.get(), args, nargs, nullptr);
}

PyObject* give_to_class(OpHandle* op, Mode mode, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    if (mode != Mode::Operator) return give_to_class(op->callables[static_cast<int>(mode)], args, nargs, kwnames);
    PyObject* method = op->callables[static_cast<int>(Mode::Method)];
    if (nargs == 2 && !is_tensor(args[0]) && is_tensor(args[1])) {
        PyObject* swapped[] = {args[1], args[0]};
        if (const char* name = reflected(op->name)) return give_to_class(name, swapped, 2);
        return give_to_class(method, swapped, 2, nullptr);
    }
    return give_to_class(method ? method : op->callables[static_cast<int>(Mode::Function)], args, nargs, kwnames);
}

void add_override(PyObject* module) {
    protocol = ok(PyUnicode_InternFromString("__torch_function__"));
    ok(PyModule_AddFunctions(module, functions));
    disabled = ok(in_python<PyObject_GetAttrString>(module, "_disabled_torch_function_impl"));
}

}  // namespace fb::py
