// The modes of autograd, and the module's functions for the graph.
#include "bindings/autograd.h"

#include <unordered_set>

#include "autograd/mode.h"
#include "bindings/graph.h"

namespace fb::py {
namespace {

// modes(): (grad, inference, anomaly, anomaly_forward, allow_inf); set_modes(...) sets all of them.
PyObject* get_modes(PyObject*, PyObject*) {
    return Py_BuildValue("(OOOOO)", grad_modes.grad ? Py_True : Py_False, grad_modes.inference ? Py_True : Py_False,
                         grad_modes.anomaly ? Py_True : Py_False, grad_modes.anomaly_forward ? Py_True : Py_False,
                         grad_modes.allow_inf ? Py_True : Py_False);
}
PyObject* set_modes(PyObject*, PyObject* args) {
    int grad, inference, anomaly, forward, allow;
    if (!PyArg_ParseTuple(args, "ppppp", &grad, &inference, &anomaly, &forward, &allow)) return nullptr;
    grad_modes.grad = grad != 0;
    grad_modes.inference = inference != 0;
    grad_modes.anomaly = anomaly != 0;
    grad_modes.anomaly_forward = forward != 0;
    grad_modes.allow_inf = allow != 0;
    Py_RETURN_NONE;
}
PyObject* is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(grad_modes.grad); }
// set_grad(on): returns the previous value.
PyObject* py_set_grad(PyObject*, PyObject* on) {
    return guarded([&] { return PyBool_FromLong(std::exchange(grad_modes.grad, truth(on))); });
}
// set_module_path(text or None): returns the previous value.
PyObject* set_module_path(PyObject*, PyObject* o) {
    // Nodes point to these while they live. A program that generates endless names gets a common one.
    constexpr size_t most_names = 65536;
    static auto* known = new std::unordered_set<std::string>;
    static auto* other = new std::string("a module");
    const std::string* previous = module_path;
    if (o == Py_None) {
        module_path = nullptr;
    } else {
        const char* text = PyUnicode_AsUTF8(o);
        if (!text) return nullptr;
        bool full = known->size() >= most_names && !known->contains(text);
        module_path = full ? other : &*known->insert(text).first;
    }
    if (!previous) Py_RETURN_NONE;
    return PyUnicode_FromString(previous->c_str());
}

PyMethodDef functions[] = {{"modes", get_modes, METH_NOARGS, nullptr},
                           {"set_modes", set_modes, METH_VARARGS, nullptr},
                           {"is_grad_enabled", is_grad_enabled, METH_NOARGS, nullptr},
                           {"set_grad", py_set_grad, METH_O, nullptr},
                           {"set_module_path", set_module_path, METH_O, nullptr},
                           {}};

}  // namespace

void add_autograd(PyObject* module) {
    add_nodes(module);
    add_backward(module);
    add_saved(module);
    add_formulas(module);
    add_kernel_hook(module);
    ok(PyModule_AddFunctions(module, functions));
}

}  // namespace fb::py
