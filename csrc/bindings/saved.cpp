// Tensors kept for backward: hooks that pack them, and what a Function keeps through its context.
#include "autograd/saved.h"

#include "bindings/graph.h"
#include "bindings/items.h"
#include "ops/table/common.h"

namespace fb::py {
namespace {

struct PackedObject : RefCounted {
    explicit PackedObject(PyObject* o) : object(o) {}
    Kept object;
};
struct PythonSavedHooks final : SavedHooks {
    PythonSavedHooks(PyObject* p, PyObject* u) : pack_function(p), unpack_function(u) {}
    // Tensors kept by what the hook itself does are not packed again.
    struct Quiet {
        Quiet() { saved_hooks.emplace_back(); }
        ~Quiet() { saved_hooks.pop_back(); }
    };
    Ref<RefCounted> pack(const Tensor& t) override {
        Lock lock;
        Quiet quiet;
        uint64_t version = t.storage().version();
        Owned argument(ok(wrap(t)));
        Owned packed(ok(in_python<PyObject_CallOneArg>(pack_function.get(), argument.get())));
        if (t.storage().version() != version)
            fail_state("A saved tensor pack hook is modifying its input in place; work on a clone() there");
        return Ref<RefCounted>(new PackedObject(packed.get()));
    }
    Tensor unpack(const RefCounted& packed) override {
        Lock lock;
        Quiet quiet;
        Owned result(ok(in_python<PyObject_CallOneArg>(unpack_function.get(),
                                                       static_cast<const PackedObject&>(packed).object.get())));
        if (!is_tensor(result.get())) {
            PyErr_Format(PyExc_TypeError, "Output of saved tensor unpack_hook expected to be a Tensor but got %s",
                         Py_TYPE(result.get())->tp_name);
            throw PythonError{};
        }
        return tensor_of(result.get());
    }
    Kept pack_function, unpack_function;
};
PyObject* push_saved_hooks(PyObject*, PyObject* args) {
    PyObject *pack, *unpack;
    if (!PyArg_ParseTuple(args, "OO", &pack, &unpack)) return nullptr;
    if (pack == Py_None) saved_hooks.emplace_back();
    else saved_hooks.push_back(Ref<SavedHooks>(new PythonSavedHooks(pack, unpack)));
    Py_RETURN_NONE;
}
PyObject* pop_saved_hooks(PyObject*, PyObject*) {
    if (!saved_hooks.empty()) saved_hooks.pop_back();
    Py_RETURN_NONE;
}

// SavedTensor: what a Function keeps through its context.
struct PySaved {
    PyObject_HEAD Saved* saved;
    Saved::Expected* expected;
    Edge* edge;  // where the kept tensor's history is found; filled in for results once the node exists
    std::string* maker;
    Location where;
};
PyTypeObject* saved_type = nullptr;
void saved_dealloc(PyObject* o) {
    PyTypeObject* type = Py_TYPE(o);
    auto* self = reinterpret_cast<PySaved*>(o);
    delete self->saved;
    delete self->expected;
    delete self->edge;
    delete self->maker;
    type->tp_free(o);
    Py_DECREF(type);
}
// unpack(node or None): the node is given for a result, whose history leads to it.
PyObject* saved_unpack(PyObject* o, PyObject* args) {
    PyObject* node = Py_None;
    unsigned output = 0;
    if (!PyArg_ParseTuple(args, "|OI", &node, &output)) return nullptr;
    return guarded([&]() -> PyObject* {
        auto* self = reinterpret_cast<PySaved*>(o);
        Edge edge = is_node(node) ? Edge{Ref<Node>(as_node(node)->node), output} : *self->edge;
        return wrap(self->saved->unpack(edge, *self->expected, "a tensor saved by save_for_backward", *self->maker,
                                        self->where));
    });
}
PyMethodDef saved_methods[] = {{"unpack", saved_unpack, METH_VARARGS, "The tensor, if nobody changed it since."}, {}};
PyType_Slot saved_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(saved_dealloc)}, {Py_tp_methods, saved_methods}, {0, nullptr}};
// save_tensor(tensor, is_result, maker)
PyObject* save_tensor(PyObject*, PyObject* args) {
    PyObject* t;
    int is_result;
    const char* maker;
    if (!PyArg_ParseTuple(args, "Ops", &t, &is_result, &maker)) return nullptr;
    return guarded([&]() -> PyObject* {
        Tensor tensor = expect_tensor(t, "what is saved for backward");
        Owned o(ok(saved_type->tp_alloc(saved_type, 0)));
        auto* self = reinterpret_cast<PySaved*>(o.get());
        self->saved = new Saved(tensor, is_result != 0);
        self->expected = new Saved::Expected{tensor.shape(), tensor.dtype(), tensor.device()};
        self->edge = new Edge(is_result ? Edge{} : gradient_edge(tensor));
        self->maker = new std::string(maker);
        self->where = here();
        return o.release();
    });
}

PyMethodDef functions[] = {{"push_saved_hooks", push_saved_hooks, METH_VARARGS, nullptr},
                           {"pop_saved_hooks", pop_saved_hooks, METH_NOARGS, nullptr},
                           {"save_tensor", save_tensor, METH_VARARGS, nullptr},
                           {}};

}  // namespace

void add_saved(PyObject* module) {
    PyType_Spec spec = {"flambeau._C.SavedTensor", sizeof(PySaved), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, saved_slots};
    saved_type = reinterpret_cast<PyTypeObject*>(ok(PyType_FromSpec(&spec)));
    ok(PyModule_AddFunctions(module, functions));
}

}  // namespace fb::py
