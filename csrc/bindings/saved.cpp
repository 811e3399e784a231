// Tensors saved for backward: pack and unpack hooks, and what a Function saves through its context.
#include "autograd/saved.h"

#include "bindings/graph.h"
#include "bindings/items.h"
#include "ops/table/common.h"
#include "ops/table/dispatch.h"

namespace fb::py {
namespace {

struct PackedObject : RefCounted {
    explicit PackedObject(PyObject* o) : object(o) {}
    Kept object;
};
struct PythonSavedHooks final : SavedHooks {
    PythonSavedHooks(PyObject* p, PyObject* u) : pack_function(p), unpack_function(u) {}
    // Tensors saved by the hook's own ops are not packed again.
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

// SavedTensor: a tensor saved by a Function through its context, or by a recorded op.
struct PySaved {
    PyObject_HEAD Saved* saved;  // a Function's; null for an op's
    Saved::Expected* expected;
    Edge* edge;  // the saved tensor's place in the graph; filled in for results once the node exists
    std::string* maker;
    Location where;
    OpNode* node;  // the op's node, retained, with the number of the tensor among its arguments or results
    uint32_t number;
    bool result;
};
PyTypeObject* saved_type = nullptr;
void saved_dealloc(PyObject* o) {
    PyTypeObject* type = Py_TYPE(o);
    auto* self = reinterpret_cast<PySaved*>(o);
    delete self->saved;
    if (self->node) self->node->release();
    delete self->expected;
    delete self->edge;
    delete self->maker;
    type->tp_free(o);
    Py_DECREF(type);
}
// Runs a function of the saved tensor, which a concurrent backward may release.
template <class F>
PyObject* with_saved(PySaved* self, const char* what, F function) {
    if (self->saved) return function(*self->saved);
    if (!self->node) fail_state("Calling ", what, " on a saved tensor whose value is None is forbidden");
    OpNode::Use use(*self->node);
    if (use.released())
        fail_state("Calling ", what,
                   " on a saved tensor after it has been freed. Saved intermediate values of the graph are freed when "
                   "you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through "
                   "the graph a second time or if you need to access saved variables after calling backward");
    return function(self->result ? self->node->results[self->number] : self->node->slots[self->number].saved);
}
// A tensor saved by an op's node.
PyObject* unpack_kept(PySaved* self, const Saved& saved) {
    OpNode& node = *self->node;
    if (!saved.defined()) Py_RETURN_NONE;
    const std::string& op = node.op.entry->name;
    if (!self->result)
        return wrap(saved.unpack(node.next[self->number], node.slots[self->number], "an argument", op, node.where));
    return wrap(
        saved.unpack({Ref<Node>(&node), self->number}, node.outputs[self->number], "the result", op, node.where));
}

PyObject* saved_register_hooks(PyObject* o, PyObject* args) {
    PyObject *pack, *unpack;
    if (!PyArg_ParseTuple(args, "OO", &pack, &unpack) || !PyCallable_Check(pack) || !PyCallable_Check(unpack)) {
        PyErr_Clear();
        PyErr_SetString(PyExc_TypeError,
                        "register_hooks(): incompatible function arguments; expected (pack_hook, unpack_hook), two "
                        "functions");
        return nullptr;
    }
    return guarded([&] {
        return with_saved(reinterpret_cast<PySaved*>(o), "register_hooks", [&](Saved& saved) {
            saved.set_hooks(Ref<SavedHooks>(new PythonSavedHooks(pack, unpack)));
            return Py_NewRef(Py_None);
        });
    });
}
// The saved tensor, or what the pack hook returned.
PyObject* saved_data(PyObject* o, void*) {
    return guarded([&] {
        return with_saved(reinterpret_cast<PySaved*>(o), "data", [&](Saved& saved) {
            if (auto* packed = dynamic_cast<const PackedObject*>(saved.packed()))
                return Py_NewRef(packed->object.get());
            return wrap_or_none(saved.tensor());
        });
    });
}
PyObject* saved_unpack_hook(PyObject* o, void*) {
    return guarded([&] {
        return with_saved(reinterpret_cast<PySaved*>(o), "unpack_hook", [&](Saved& saved) {
            auto* hooks = dynamic_cast<PythonSavedHooks*>(saved.hooks());
            return Py_NewRef(hooks ? hooks->unpack_function.get() : Py_None);
        });
    });
}
PyObject* refuse_new(PyTypeObject*, PyObject*, PyObject*) {
    PyErr_SetString(PyExc_RuntimeError,
                    "Trying to create a SavedTensor object from Python is forbidden; nodes hand them out as "
                    "grad_fn._raw_saved_<argument>");
    return nullptr;
}

// unpack(node or None): the node is given for a result, whose history leads to it.
PyObject* saved_unpack(PyObject* o, PyObject* args) {
    PyObject* node = Py_None;
    unsigned output = 0;
    if (!PyArg_ParseTuple(args, "|OI", &node, &output)) return nullptr;
    return guarded([&]() -> PyObject* {
        auto* self = reinterpret_cast<PySaved*>(o);
        if (!self->saved) return with_saved(self, "unpack", [&](Saved& s) { return unpack_kept(self, s); });
        Edge edge = is_node(node) ? Edge{Ref<Node>(as_node(node)->node), output} : *self->edge;
        return wrap(self->saved->unpack(edge, *self->expected, "a tensor saved by save_for_backward", *self->maker,
                                        self->where));
    });
}
PyMethodDef saved_methods[] = {
    {"unpack", saved_unpack, METH_VARARGS, "The tensor; raises an error if it was changed since."},
    {"register_hooks", saved_register_hooks, METH_VARARGS,
     "register_hooks(pack_hook, unpack_hook): as autograd.graph.saved_tensors_hooks, for this tensor alone."},
    {}};
PyGetSetDef saved_getset[] = {
    {"data", saved_data, nullptr, "The tensor that is kept, or what the pack hook made of it.", nullptr},
    {"unpack_hook", saved_unpack_hook, nullptr, "The unpack hook, or None.", nullptr},
    {}};
PyType_Slot saved_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(saved_dealloc)},
                             {Py_tp_methods, saved_methods},
                             {Py_tp_getset, saved_getset},
                             {Py_tp_new, reinterpret_cast<void*>(refuse_new)},
                             {Py_tp_doc, const_cast<char*>("A tensor that a node of the graph keeps for backward.")},
                             {0, nullptr}};
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

// A SavedTensor that holds None, for save_for_backward(None).
PyObject* saved_none(PyObject*, PyObject*) {
    return guarded([] { return saved_tensor(nullptr, 0, false); });
}

PyMethodDef functions[] = {{"saved_none", saved_none, METH_NOARGS, nullptr},
                           {"push_saved_hooks", push_saved_hooks, METH_VARARGS, nullptr},
                           {"pop_saved_hooks", pop_saved_hooks, METH_NOARGS, nullptr},
                           {"save_tensor", save_tensor, METH_VARARGS, nullptr},
                           {}};

}  // namespace

PyObject* saved_tensor(OpNode* node, uint32_t number, bool result) {
    Owned o(ok(saved_type->tp_alloc(saved_type, 0)));
    auto* self = reinterpret_cast<PySaved*>(o.get());
    if (node) node->retain();
    self->node = node;
    self->number = number;
    self->result = result;
    return o.release();
}

void add_saved(PyObject* module) {
    PyType_Spec spec = {"flambeau.autograd.SavedTensor", sizeof(PySaved), 0, Py_TPFLAGS_DEFAULT, saved_slots};
    saved_type = reinterpret_cast<PyTypeObject*>(ok(PyType_FromSpec(&spec)));
    ok(PyModule_AddObjectRef(module, "SavedTensor", reinterpret_cast<PyObject*>(saved_type)));
    ok(PyModule_AddFunctions(module, functions));
}

}  // namespace fb::py
