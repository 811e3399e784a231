// Tensors' and nodes' attributes, backward, hooks, saved tensors and Python's own nodes.
#include "bindings/autograd.h"

#include <cstring>
#include <unordered_set>

#include "autograd/engine.h"
#include "autograd/saved.h"
#include "bindings/convert.h"
#include "ops/common.h"
#include "ops/dispatch.h"

namespace fb::py {
namespace {

// ---- hooks ---------------------------------------------------------------------------------------------------------

PyObject* wrap_or_none(const Tensor& t) { return t ? wrap(t) : Py_NewRef(Py_None); }

Owned wrap_all(const Gradients& gradients) {
    Owned tuple(ok(PyTuple_New(static_cast<Py_ssize_t>(gradients.size()))));
    for (size_t i = 0; i < gradients.size(); i++)
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), ok(wrap_or_none(gradients[i])));
    return tuple;
}

Tensor gradient_of(PyObject* o, const char* who) {
    if (o == Py_None) return Tensor();
    if (!is_tensor(o)) {
        PyErr_Format(PyExc_TypeError, "%s must return a tensor or None, got %s", who, Py_TYPE(o)->tp_name);
        throw PythonError{};
    }
    return tensor_of(o);
}

struct PythonHook : GradientHook {
    explicit PythonHook(PyObject* f) : function(f) {}
    Kept function;
};

// hook(grad) -> replacement or None.
struct TensorHook final : PythonHook {
    using PythonHook::PythonHook;
    void call(Gradients& gradients, const Gradients*) override {
        Lock lock;
        Owned argument(ok(wrap(gradients[0])));
        Owned result(ok(PyObject_CallOneArg(function.get(), argument.get())));
        if (result.get() == Py_None) return;
        Tensor g = gradient_of(result.get(), "a hook");
        if (g.shape() != gradients[0].shape()) {
            PyErr_Format(PyExc_RuntimeError,
                         "a hook changed the shape of the gradient; return a tensor of the same shape");
            throw PythonError{};
        }
        gradients[0] = std::move(g);
    }
};

// hook(grads) or hook(grad_inputs, grad_outputs) -> replacements or None.
struct NodeHook final : PythonHook {
    using PythonHook::PythonHook;
    void call(Gradients& gradients, const Gradients* others) override {
        Lock lock;
        Owned first = wrap_all(gradients), second;
        PyObject* args[2] = {first.get(), nullptr};
        if (others) {
            second = wrap_all(*others);
            args[1] = second.get();
        }
        Owned result(ok(PyObject_Vectorcall(function.get(), args, others ? 2 : 1, nullptr)));
        if (result.get() == Py_None) return;
        Owned list(ok(is_tensor(result.get()) ? PyTuple_Pack(1, result.get()) : PySequence_Tuple(result.get())));
        if (static_cast<size_t>(PyTuple_GET_SIZE(list.get())) != gradients.size()) {
            PyErr_Format(PyExc_RuntimeError, "a hook returned %zd gradients, expected %zu",
                         PyTuple_GET_SIZE(list.get()), gradients.size());
            throw PythonError{};
        }
        for (size_t i = 0; i < gradients.size(); i++)
            gradients[i] = gradient_of(PyTuple_GET_ITEM(list.get(), static_cast<Py_ssize_t>(i)), "a hook");
    }
};

// hook(tensor), the leaf whose .grad is complete.
struct LeafHook final : PythonHook {
    using PythonHook::PythonHook;
    void call(Gradients& gradients, const Gradients*) override {
        Lock lock;
        Owned argument(ok(wrap(gradients[0])));
        Owned result(ok(PyObject_CallOneArg(function.get(), argument.get())));
        if (result.get() != Py_None) {
            PyErr_SetString(PyExc_RuntimeError, "a post-accumulate hook must return None");
            throw PythonError{};
        }
    }
};

int64_t next_hook = 0;

template <class List>
bool erase_hook(List& list, int64_t id) {
    for (auto it = list.begin(); it != list.end(); ++it) {
        if (it->id == id) {
            list.erase(it);
            return true;
        }
    }
    return false;
}
bool erase_hook(NodeHooks* hooks, int64_t id) {
    return hooks && (erase_hook(hooks->tensor, id) || erase_hook(hooks->before, id) || erase_hook(hooks->after, id));
}

// ---- nodes as Python objects ---------------------------------------------------------------------------------------

struct PyGraphNode {
    PyObject_HEAD Node* node;
    PyObject* metadata;
};
PyTypeObject* node_type = nullptr;
PyGraphNode* as_node(PyObject* o) { return reinterpret_cast<PyGraphNode*>(o); }

// A Function of the user: its context does the work.
class PythonNode final : public Node {
  public:
    PythonNode(PyObject* context, std::string name) : context(context), name_(std::move(name)) {}
    Gradients apply(Gradients&& gradients) override {
        Lock lock;
        Owned grads = wrap_all(gradients);
        Owned self(wrap_node(Ref<Node>(this)));
        Owned result(ok(PyObject_CallMethod(context.get(), "_run_backward", "OO", grads.get(), self.get())));
        Gradients results(next.size());
        for (size_t i = 0; i < next.size(); i++)
            results[i] = gradient_of(PyTuple_GET_ITEM(result.get(), static_cast<Py_ssize_t>(i)), name_.c_str());
        return results;
    }
    std::string name() const override { return name_; }
    void release_saved() override {
        Lock lock;
        Owned result(ok(PyObject_CallMethod(context.get(), "_release_saved", nullptr)));
    }
    Kept context;

  private:
    std::string name_;
};

void node_dealloc(PyObject* o) {
    PyTypeObject* type = Py_TYPE(o);
    PyGraphNode* self = as_node(o);
    if (self->node) {
        if (self->node->pyobj == self) self->node->pyobj = nullptr;
        self->node->release();
    }
    Py_CLEAR(self->metadata);
    type->tp_free(o);
    Py_DECREF(type);
}
PyObject* node_repr(PyObject* o) {
    return PyUnicode_FromFormat("<%s object at %p>", as_node(o)->node->name().c_str(), as_node(o)->node);
}
PyObject* node_name(PyObject* o, PyObject*) { return PyUnicode_FromString(as_node(o)->node->name().c_str()); }
PyObject* node_sequence(PyObject* o, PyObject*) { return PyLong_FromUnsignedLongLong(as_node(o)->node->sequence); }
PyObject* node_next(PyObject* o, void*) {
    return guarded([&]() -> PyObject* {
        Node* node = as_node(o)->node;
        Owned tuple(ok(PyTuple_New(static_cast<Py_ssize_t>(node->next.size()))));
        for (size_t i = 0; i < node->next.size(); i++) {
            Owned next(wrap_node(node->next[i].node));
            PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                             ok(Py_BuildValue("(OI)", next.get(), node->next[i].output)));
        }
        return tuple.release();
    });
}
PyObject* node_metadata(PyObject* o, void*) {
    if (!as_node(o)->metadata) as_node(o)->metadata = PyDict_New();
    return Py_XNewRef(as_node(o)->metadata);
}
PyObject* node_where(PyObject* o, void*) {
    return PyUnicode_FromString(describe_location(as_node(o)->node->where).c_str());
}
PyObject* node_outputs(PyObject* o, void*) {
    return guarded([&]() -> PyObject* {
        Node* node = as_node(o)->node;
        Owned list(ok(PyList_New(0)));
        for (const Node::Output& output : node->outputs) {
            Owned shape(wrap_size(output.shape)), dtype(wrap(output.dtype)),
                pair(PyTuple_Pack(2, shape.get(), dtype.get()));
            ok(PyList_Append(list.get(), pair.get()));
        }
        return list.release();
    });
}
// [(argument name, tensor)] of what the node keeps.
PyObject* node_saved(PyObject* o, PyObject*) {
    return guarded([&]() -> PyObject* {
        Owned list(ok(PyList_New(0)));
        auto* node = dynamic_cast<OpNode*>(as_node(o)->node);
        if (!node) return list.release();
        auto add = [&](const std::string& name, const Tensor& t) {
            Owned tensor(ok(wrap(t))), pair(Py_BuildValue("(sO)", name.c_str(), tensor.get()));
            ok(PyList_Append(list.get(), pair.get()));
        };
        for (size_t i = 0; i < node->op.signature.params.size(); i++) {
            const Param& p = node->op.signature.params[i];
            if (p.type != ArgType::Tensor && p.type != ArgType::Operand && p.type != ArgType::TensorList) continue;
            auto at = static_cast<size_t>(node->op.place[i]);
            for (uint32_t s = node->first[at]; s < node->first[at + 1]; s++) {
                if (!node->slots[s].saved.defined()) continue;
                add(p.name, node->slots[s].saved.unpack(node->next[s], "the argument '" + p.name + "'",
                                                        node->op.entry->name, node->where));
            }
        }
        for (size_t i = 0; i < node->results.size(); i++) {
            if (node->results[i].defined())
                add("result", node->results[i].unpack({Ref<Node>(node), static_cast<uint32_t>(i)}, "the result",
                                                      node->op.entry->name, node->where));
        }
        return list.release();
    });
}
PyObject* add_node_hook(PyObject* o, PyObject* f, bool before) {
    return guarded([&]() -> PyObject* {
        if (!PyCallable_Check(f)) fail_type("a hook must be callable, got ", Py_TYPE(f)->tp_name);
        NodeHooks& hooks = as_node(o)->node->own_hooks();
        (before ? hooks.before : hooks.after).push_back({++next_hook, Ref<GradientHook>(new NodeHook(f))});
        return PyLong_FromLongLong(next_hook);
    });
}
PyObject* node_add_hook(PyObject* o, PyObject* f) { return add_node_hook(o, f, false); }
PyObject* node_add_prehook(PyObject* o, PyObject* f) { return add_node_hook(o, f, true); }
PyObject* node_remove_hook(PyObject* o, PyObject* id) {
    return PyBool_FromLong(erase_hook(as_node(o)->node->hooks.get(), PyLong_AsLongLong(id)));
}
PyObject* node_getattro(PyObject* o, PyObject* name) {
    PyObject* found = PyObject_GenericGetAttr(o, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    Node* node = as_node(o)->node;
    if (auto* python = dynamic_cast<PythonNode*>(node)) {
        PyErr_Clear();
        return PyObject_GetAttr(python->context.get(), name);
    }
    if (auto* leaf = dynamic_cast<AccumulateGrad*>(node)) {
        if (PyUnicode_CompareWithASCIIString(name, "variable") == 0) {
            PyErr_Clear();
            return wrap(leaf->leaf);
        }
    }
    return nullptr;
}
PyGetSetDef node_getset[] = {{"next_functions", node_next, nullptr,
                              "(node, output) of each input; node is None where no gradient goes.", nullptr},
                             {"metadata", node_metadata, nullptr, "A dictionary of your own.", nullptr},
                             {"_location", node_where, nullptr, "file:line of the call that was recorded.", nullptr},
                             {"_outputs", node_outputs, nullptr, "[(shape, dtype)] of the results.", nullptr},
                             {}};
PyMethodDef node_methods[] = {{"name", node_name, METH_NOARGS, "name(): the op's name, as in MulBackward0."},
                              {"_sequence_nr", node_sequence, METH_NOARGS, "Larger for nodes recorded later."},
                              {"_saved", node_saved, METH_NOARGS, "[(name, tensor)] kept for backward."},
                              {"_add_hook", node_add_hook, METH_O, nullptr},
                              {"_add_prehook", node_add_prehook, METH_O, nullptr},
                              {"_remove_hook", node_remove_hook, METH_O, nullptr},
                              {}};
PyType_Slot node_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
                            {Py_tp_repr, reinterpret_cast<void*>(node_repr)},
                            {Py_tp_getattro, reinterpret_cast<void*>(node_getattro)},
                            {Py_tp_getset, node_getset},
                            {Py_tp_methods, node_methods},
                            {Py_tp_doc, const_cast<char*>("A recorded operation of the graph.")},
                            {0, nullptr}};

// ---- tensors -------------------------------------------------------------------------------------------------------

PyObject* get_requires_grad(PyObject* o, void*) { return PyBool_FromLong(requires_grad(tensor_of(o))); }
int set_requires(PyObject* o, PyObject* value, void*) {
    return guarded_int([&] {
        OpScope scope("requires_grad");
        if (!value || !PyBool_Check(value)) fail_type("expected True or False");
        set_requires_grad(tensor_of(o), value == Py_True);
        return 0;
    });
}
PyObject* m_requires_grad(PyObject* o, PyObject* args, PyObject* kwargs) {
    int on = 1;
    static const char* names[] = {"requires_grad", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p", const_cast<char**>(names), &on)) return nullptr;
    return guarded([&]() -> PyObject* {
        OpScope scope("requires_grad_");
        set_requires_grad(tensor_of(o), on != 0);
        return Py_NewRef(o);
    });
}
PyObject* get_grad(PyObject* o, void*) {
    GradMeta* meta = grad_meta(reinterpret_cast<PyTensor*>(o)->impl);
    if (!meta) Py_RETURN_NONE;
    const Tensor& g = meta->retained ? meta->retained->grad : meta->grad;
    return guarded([&] { return wrap_or_none(g); });
}
int set_grad(PyObject* o, PyObject* value, void*) {
    return guarded_int([&] {
        OpScope scope("grad");
        Tensor t = tensor_of(o);
        Tensor g;
        if (value && value != Py_None) {
            if (!is_tensor(value)) fail_type("expected a tensor or None, got ", Py_TYPE(value)->tp_name);
            g = tensor_of(value);
            check(!g.is_same(t), "a tensor cannot be its own gradient");
            check(g.shape() == t.shape(), "the gradient has shape ", g.shape(), ", the tensor ", t.shape());
            check(g.dtype() == t.dtype(), "the gradient has dtype ", g.dtype(), ", the tensor ", t.dtype());
        } else if (!t.impl()->autograd) {
            return 0;
        }
        GradMeta& meta = own_meta(t);
        (meta.retained ? meta.retained->grad : meta.grad) = g;
        return 0;
    });
}
PyObject* get_grad_fn(PyObject* o, void*) {
    return guarded([&] { return wrap_node(grad_fn(tensor_of(o))); });
}
PyObject* get_is_leaf(PyObject* o, void*) {
    return guarded([&] { return PyBool_FromLong(is_leaf(tensor_of(o))); });
}
PyObject* get_output_nr(PyObject* o, void*) {
    GradMeta* meta = grad_meta(reinterpret_cast<PyTensor*>(o)->impl);
    return PyLong_FromUnsignedLong(meta ? meta->output : 0);
}
PyObject* get_retains_grad(PyObject* o, void*) {
    GradMeta* meta = grad_meta(reinterpret_cast<PyTensor*>(o)->impl);
    return PyBool_FromLong(meta && meta->retained);
}
PyObject* get_base(PyObject* o, void*) {
    TensorImpl* base = reinterpret_cast<PyTensor*>(o)->impl->base.get();
    return guarded([&] { return base ? wrap(Tensor(Ref<TensorImpl>(base))) : Py_NewRef(Py_None); });
}
PyObject* m_is_view(PyObject* o, PyObject*) {
    return PyBool_FromLong(static_cast<bool>(reinterpret_cast<PyTensor*>(o)->impl->base));
}
PyObject* m_is_inference(PyObject* o, PyObject*) {
    return PyBool_FromLong(reinterpret_cast<PyTensor*>(o)->impl->inference);
}
Tensor same_memory(const Tensor& t) {
    Tensor result = make_view(t.storage_ref(), t.dtype(), t.shape(), t.strides(), t.offset());
    result.impl()->inference = grad_modes.inference || t.impl()->inference;
    return result;
}
PyObject* m_detach(PyObject* o, PyObject*) {
    return guarded([&] { return wrap(same_memory(settled(o))); });
}
// What `.data` gives: like detach(), but writes through it go unnoticed by the checks of backward.
PyObject* m_untracked(PyObject* o, PyObject*) {
    return guarded([&] {
        Tensor t = same_memory(settled(o));
        t.impl()->untracked = true;
        return wrap(t);
    });
}
PyObject* m_detach_inplace(PyObject* o, PyObject*) {
    return guarded([&]() -> PyObject* {
        OpScope scope("detach_");
        Tensor t = tensor_of(o);
        if (t.impl()->base && requires_grad(t))
            fail_state("a view cannot be detached in place; use detach(), or detach_() of its base");
        if (GradMeta* meta = grad_meta(t.impl())) {
            meta->grad_fn = nullptr;
            meta->output = 0;
            meta->requires_grad = false;
            meta->retained = nullptr;
        }
        return Py_NewRef(o);
    });
}
PyObject* m_retain_grad(PyObject* o, PyObject*) {
    return guarded([&]() -> PyObject* {
        OpScope scope("retain_grad");
        Tensor t = tensor_of(o);
        if (!requires_grad(t)) fail_state("can't retain_grad on a tensor that has requires_grad=False");
        if (grad_fn(t) && !grad_meta(t.impl())->retained) retain_grad(t);
        Py_RETURN_NONE;
    });
}
PyObject* m_add_hook(PyObject* o, PyObject* f) {
    return guarded([&]() -> PyObject* {
        OpScope scope("register_hook");
        Tensor t = tensor_of(o);
        if (!requires_grad(t)) fail_state("cannot register a hook on a tensor that doesn't require gradient");
        if (!PyCallable_Check(f)) fail_type("a hook must be callable, got ", Py_TYPE(f)->tp_name);
        Ref<Node> node = grad_fn(t);
        GradMeta& meta = own_meta(t);
        if (!node && !meta.hooks) meta.hooks = std::make_unique<NodeHooks>();
        NodeHooks& hooks = node ? node->own_hooks() : *meta.hooks;
        hooks.tensor.push_back({node ? meta.output : 0, ++next_hook, Ref<GradientHook>(new TensorHook(f))});
        if (!node && !PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
        // The handle removes the hook from where it is now, whatever happens to the tensor.
        Owned place(node ? wrap_node(node) : Py_NewRef(o));
        return Py_BuildValue("(OL)", place.get(), static_cast<long long>(next_hook));
    });
}
PyObject* m_add_post_hook(PyObject* o, PyObject* f) {
    return guarded([&]() -> PyObject* {
        OpScope scope("register_post_accumulate_grad_hook");
        Tensor t = tensor_of(o);
        if (!requires_grad(t)) fail_state("cannot register a hook on a tensor that doesn't require gradient");
        if (grad_fn(t)) fail_state("post accumulate grad hooks cannot be registered on non-leaf tensors");
        if (!PyCallable_Check(f)) fail_type("a hook must be callable, got ", Py_TYPE(f)->tp_name);
        GradMeta& meta = own_meta(t);
        if (!meta.hooks) meta.hooks = std::make_unique<NodeHooks>();
        meta.hooks->after.push_back({++next_hook, Ref<GradientHook>(new LeafHook(f))});
        if (!PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
        return PyLong_FromLongLong(next_hook);
    });
}
PyObject* m_remove_hook(PyObject* o, PyObject* id) {
    GradMeta* meta = grad_meta(reinterpret_cast<PyTensor*>(o)->impl);
    return PyBool_FromLong(meta && erase_hook(meta->hooks.get(), PyLong_AsLongLong(id)));
}
// Where the tensor's gradient goes: (node, output).
PyObject* m_gradient_edge(PyObject* o, PyObject*) {
    return guarded([&]() -> PyObject* {
        Edge edge = gradient_edge(tensor_of(o));
        Owned node(wrap_node(edge.node));
        return Py_BuildValue("(OI)", node.get(), edge.output);
    });
}

// ---- backward ------------------------------------------------------------------------------------------------------

Edge edge_of(PyObject* o, const char* what) {
    if (PyTuple_Check(o) && PyTuple_GET_SIZE(o) == 2 && Py_IS_TYPE(PyTuple_GET_ITEM(o, 0), node_type)) {
        Node* node = as_node(PyTuple_GET_ITEM(o, 0))->node;
        auto output = static_cast<uint32_t>(PyLong_AsUnsignedLong(PyTuple_GET_ITEM(o, 1)));
        check(output < node->outputs.size(), what, " names output ", output, " of a node with ", node->outputs.size());
        return {Ref<Node>(node), output};
    }
    if (!is_tensor(o)) fail_type(what, " must be tensors, got ", Py_TYPE(o)->tp_name);
    return gradient_edge(tensor_of(o));
}

std::vector<Tensor> without_lock(BackwardTask& task) {
    std::vector<Tensor> results;
    PyThreadState* state = PyEval_SaveThread();
    try {
        results = run_backward(task);
        task.roots.clear();  // freeing a large graph takes time too
    } catch (...) {
        PyEval_RestoreThread(state);
        throw;
    }
    PyEval_RestoreThread(state);
    return results;
}

// run_backward(outputs, gradients, keep_graph, create_graph, inputs or None): gradients of the inputs, or None.
PyObject* py_run_backward(PyObject*, PyObject* args) {
    PyObject *outputs, *gradients, *inputs;
    int keep, create;
    if (!PyArg_ParseTuple(args, "O!O!ppO", &PyTuple_Type, &outputs, &PyTuple_Type, &gradients, &keep, &create, &inputs))
        return nullptr;
    return guarded([&]() -> PyObject* {
        OpScope scope(nullptr);
        BackwardTask task;
        task.keep_graph = keep;
        task.create_graph = create;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); i++) {
            Edge edge = edge_of(PyTuple_GET_ITEM(outputs, i), "the outputs");
            if (!edge.node) fail_state("element ", i, " of tensors does not require grad and does not have a grad_fn");
            task.roots.push_back(edge);
            task.gradients.push_back(tensor_of(PyTuple_GET_ITEM(gradients, i)));
        }
        if (inputs != Py_None) {
            for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
                Edge edge = edge_of(PyTuple_GET_ITEM(inputs, i), "the inputs");
                if (!edge.node) fail_state("One of the differentiated Tensors does not require grad (input ", i, ")");
                task.inputs.push_back(edge);
            }
        }
        std::vector<Tensor> results = without_lock(task);
        if (inputs == Py_None) Py_RETURN_NONE;
        Owned tuple(ok(PyTuple_New(static_cast<Py_ssize_t>(results.size()))));
        for (size_t i = 0; i < results.size(); i++)
            PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), ok(wrap_or_none(results[i])));
        return tuple.release();
    });
}

// The common case of Tensor.backward without a detour: no inputs, and a gradient that fits or none for one element.
// Anything else, errors included, is autograd.backward's.
PyObject* m_backward(PyObject* o, PyObject* args, PyObject* kwargs) {
    PyObject *gradient = Py_None, *retain = Py_None, *create = Py_False, *inputs = Py_None;
    static const char* names[] = {"gradient", "retain_graph", "create_graph", "inputs", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOO", const_cast<char**>(names), &gradient, &retain, &create,
                                     &inputs))
        return nullptr;
    return guarded([&]() -> PyObject* {
        Tensor t = tensor_of(o);
        bool plain = inputs == Py_None && !t.impl()->functorial && requires_grad(t) && PyBool_Check(create) &&
                     (retain == Py_None || PyBool_Check(retain));
        Tensor g;
        if (plain && gradient == Py_None) {
            plain = t.numel() == 1 && !is_complex(t.dtype());
            if (plain) g = full(t.shape(), Scalar(1), t.dtype());
        } else if (plain) {
            plain = is_tensor(gradient) && tensor_of(gradient).shape() == t.shape() &&
                    is_complex(tensor_of(gradient).dtype()) == is_complex(t.dtype()) &&
                    !tensor_of(gradient).impl()->functorial;
            if (plain) g = tensor_of(gradient);
        }
        if (!plain) {
            Owned module(ok(PyImport_ImportModule("flambeau.autograd")));
            Owned function(ok(PyObject_GetAttrString(module.get(), "backward")));
            Owned call(ok(PyTuple_Pack(4, o, gradient, retain, create)));
            Owned keyword(ok(PyDict_New()));
            ok(PyDict_SetItemString(keyword.get(), "inputs", inputs));
            return ok(PyObject_Call(function.get(), call.get(), keyword.get()));
        }
        OpScope scope(nullptr);
        BackwardTask task;
        task.create_graph = create == Py_True;
        task.keep_graph = retain == Py_None ? task.create_graph : retain == Py_True;
        task.roots.push_back(gradient_edge(t));
        task.gradients.push_back(std::move(g));
        without_lock(task);
        Py_RETURN_NONE;
    });
}

// ---- modes ---------------------------------------------------------------------------------------------------------

// modes(): (grad, inference, anomaly, anomaly_forward, allow_inf); set_modes(...) sets all of them.
PyObject* get_modes(PyObject*, PyObject*) {
    return Py_BuildValue("(OOOOO)", grad_modes.grad ? Py_True : Py_False, grad_modes.inference ? Py_True : Py_False,
                         grad_modes.anomaly ? Py_True : Py_False, grad_modes.anomaly_forward ? Py_True : Py_False,
                         grad_modes.allow_inf ? Py_True : Py_False);
}
PyObject* set_modes(PyObject*, PyObject* args) {
    int grad, inference, anomaly, forward, allow;
    if (!PyArg_ParseTuple(args, "ppppp", &grad, &inference, &anomaly, &forward, &allow)) return nullptr;
    grad_modes = {grad != 0, inference != 0, anomaly != 0, forward != 0, allow != 0};
    Py_RETURN_NONE;
}
PyObject* is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(grad_modes.grad); }
// set_grad(on): returns what it was.
PyObject* py_set_grad(PyObject*, PyObject* on) {
    bool previous = std::exchange(grad_modes.grad, PyObject_IsTrue(on) == 1);
    return PyBool_FromLong(previous);
}
// set_module_path(text or None): returns what it was.
PyObject* set_module_path(PyObject*, PyObject* o) {
    static auto* known = new std::unordered_set<std::string>;
    const std::string* previous = module_path;
    if (o == Py_None) {
        module_path = nullptr;
    } else {
        const char* text = PyUnicode_AsUTF8(o);
        if (!text) return nullptr;
        module_path = &*known->insert(text).first;
    }
    if (!previous) Py_RETURN_NONE;
    return PyUnicode_FromString(previous->c_str());
}
PyObject* py_in_backward(PyObject*, PyObject*) { return PyBool_FromLong(in_backward()); }

// ---- saved tensors -------------------------------------------------------------------------------------------------

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
        Owned packed(ok(PyObject_CallOneArg(pack_function.get(), argument.get())));
        if (t.storage().version() != version)
            fail_state("A saved tensor pack hook is modifying its input in place; work on a clone() there");
        return Ref<RefCounted>(new PackedObject(packed.get()));
    }
    Tensor unpack(const RefCounted& packed) override {
        Lock lock;
        Quiet quiet;
        Owned result(
            ok(PyObject_CallOneArg(unpack_function.get(), static_cast<const PackedObject&>(packed).object.get())));
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
    Edge* edge;  // where the kept tensor's history is found; filled in for results once the node exists
    std::string* maker;
    Location where;
};
PyTypeObject* saved_type = nullptr;
void saved_dealloc(PyObject* o) {
    PyTypeObject* type = Py_TYPE(o);
    auto* self = reinterpret_cast<PySaved*>(o);
    delete self->saved;
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
        Edge edge = Py_IS_TYPE(node, node_type) ? Edge{Ref<Node>(as_node(node)->node), output} : *self->edge;
        return wrap(self->saved->unpack(edge, "a tensor saved by save_for_backward", *self->maker, self->where));
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
        Tensor tensor = tensor_of(t);
        Owned o(ok(saved_type->tp_alloc(saved_type, 0)));
        auto* self = reinterpret_cast<PySaved*>(o.get());
        self->saved = new Saved(tensor, is_result != 0);
        self->edge = new Edge(is_result ? Edge{} : gradient_edge(tensor));
        self->maker = new std::string(maker);
        self->where = here();
        return o.release();
    });
}

// ---- Functions -----------------------------------------------------------------------------------------------------

// function_node(context, name, inputs): a node whose edges lead to the inputs (tensors or None).
PyObject* function_node(PyObject*, PyObject* args) {
    PyObject *context, *inputs;
    const char* name;
    if (!PyArg_ParseTuple(args, "OsO!", &context, &name, &PyTuple_Type, &inputs)) return nullptr;
    return guarded([&]() -> PyObject* {
        current_location = here();
        auto node = make_ref<PythonNode>(context, name);
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
            PyObject* o = PyTuple_GET_ITEM(inputs, i);
            node->next.push_back(is_tensor(o) ? gradient_edge(tensor_of(o)) : Edge{});
        }
        node->renumber();
        return wrap_node(Ref<Node>(node.get()));
    });
}
// set_output(node, tensor, dirty): makes the tensor the node's next output. An input returned as it is becomes a view.
PyObject* set_output(PyObject*, PyObject* args) {
    PyObject *node_object, *o;
    int dirty, record;
    if (!PyArg_ParseTuple(args, "O!Opp", node_type, &node_object, &o, &dirty, &record)) return nullptr;
    return guarded([&]() -> PyObject* {
        Node* node = as_node(node_object)->node;
        auto output = static_cast<uint32_t>(node->outputs.size());
        if (o == Py_None) {
            node->outputs.push_back({});
            Py_RETURN_NONE;
        }
        Tensor t = tensor_of(o);
        node->add_output(t);
        if (!record || !differentiable(t.dtype())) Py_RETURN_NONE;
        if (dirty) rebase_history(t, Ref<Node>(node));
        else set_history(t, Ref<Node>(node), output);
        Py_RETURN_NONE;
    });
}
PyObject* py_check_inplace(PyObject*, PyObject* o) {
    return guarded([&]() -> PyObject* {
        check_inplace(tensor_of(o));
        Py_RETURN_NONE;
    });
}
// mark_written(tensor): a Function says it changed the tensor by other means.
PyObject* mark_written(PyObject*, PyObject* o) {
    return guarded([&]() -> PyObject* {
        current_location = here();
        tensor_of(o).will_write();
        Py_RETURN_NONE;
    });
}

// ---- formulas in Python --------------------------------------------------------------------------------------------

// What a formula in Python sees: ctx.args (tensors only where kept), ctx.results, ctx.needs, ctx.shapes, ctx.dtypes.
void run_python_gradient(void* formula, GradCall& c) {
    Lock lock;
    const OpNode& node = c.node();
    const auto& params = node.op.signature.params;
    auto n = static_cast<Py_ssize_t>(params.size());
    Owned inputs(ok(PyDict_New())), needs(ok(PyDict_New())), shapes(ok(PyDict_New())), dtypes(ok(PyDict_New()));
    for (Py_ssize_t i = 0; i < n; i++) {
        const Param& p = params[static_cast<size_t>(i)];
        int at = static_cast<int>(i);
        if (p.type == ArgType::Tensor || p.type == ArgType::Operand || p.type == ArgType::TensorList) {
            ok(PyDict_SetItemString(needs.get(), p.name.c_str(), c.needs(at) ? Py_True : Py_False));
            bool list = p.type == ArgType::TensorList;
            Owned tensors(ok(PyList_New(0))), sizes(ok(PyList_New(0)));
            for (int k = 0; k < c.count(at); k++) {
                auto slot =
                    node.first[static_cast<size_t>(node.op.place[static_cast<size_t>(i)])] + static_cast<uint32_t>(k);
                Owned t(node.slots[slot].saved.defined() ? ok(wrap(c.in(at, k).tensor)) : Py_NewRef(Py_None));
                Owned size(wrap_size(c.shape(at, k)));
                ok(PyList_Append(tensors.get(), t.get()));
                ok(PyList_Append(sizes.get(), size.get()));
            }
            PyObject* none = Py_None;
            PyObject* tensor = list ? tensors.get() : c.count(at) ? PyList_GET_ITEM(tensors.get(), 0) : none;
            PyObject* size = list ? sizes.get() : c.count(at) ? PyList_GET_ITEM(sizes.get(), 0) : none;
            ok(PyDict_SetItemString(inputs.get(), p.name.c_str(), tensor));
            ok(PyDict_SetItemString(shapes.get(), p.name.c_str(), size));
            if (c.count(at)) {
                Owned dtype(wrap(c.dtype(at)));
                ok(PyDict_SetItemString(dtypes.get(), p.name.c_str(), dtype.get()));
            }
        } else if (p.type != ArgType::Any && p.type != ArgType::Generator) {
            const Value& v = c.value(at);
            Owned value(std::holds_alternative<Dims>(v) ? wrap_tuple(std::get<Dims>(v)) : wrap_value(v));
            ok(PyDict_SetItemString(inputs.get(), p.name.c_str(), value.get()));
        }
    }
    Owned results(ok(PyList_New(0)));
    for (size_t k = 0; k < node.results.size(); k++) {
        Owned t(node.results[k].defined() ? ok(wrap(c.out(static_cast<int>(k)).tensor)) : Py_NewRef(Py_None));
        ok(PyList_Append(results.get(), t.get()));
    }
    Owned grads(ok(PyTuple_New(static_cast<Py_ssize_t>(node.outputs.size()))));
    for (size_t k = 0; k < node.outputs.size(); k++) {
        int at = static_cast<int>(k);
        PyTuple_SET_ITEM(grads.get(), static_cast<Py_ssize_t>(k),
                         c.has(at) ? ok(wrap(c.g(at).tensor)) : Py_NewRef(Py_None));
    }
    Owned module(ok(PyImport_ImportModule("flambeau._gradients")));
    Owned run(ok(PyObject_GetAttrString(module.get(), "run")));
    Owned answer(
        ok(PyObject_CallFunctionObjArgs(run.get(), static_cast<PyObject*>(formula), inputs.get(), results.get(),
                                        grads.get(), needs.get(), shapes.get(), dtypes.get(), nullptr)));
    // A dictionary: argument name → gradient, or a list of them for a list.
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject* g = PyDict_GetItemString(answer.get(), params[static_cast<size_t>(i)].name.c_str());
        if (!g || g == Py_None) continue;
        if (is_tensor(g)) {
            c.set(static_cast<int>(i), tensor_of(g));
            continue;
        }
        Owned list(ok(PySequence_Tuple(g)));
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(list.get()); k++) {
            PyObject* one = PyTuple_GET_ITEM(list.get(), k);
            if (is_tensor(one)) c.set(static_cast<int>(i), static_cast<int>(k), tensor_of(one));
        }
    }
}

// gradients(): {signature: "formula", "python", "composite", "none" (nothing smooth) or "missing"} of the ops of the
// core.
PyObject* list_gradients(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        Owned dict(ok(PyDict_New()));
        for (const OpEntry& entry : op_table()) {
            for (const OpOverload& o : entry.overloads) {
                const Gradient* g = o.gradient;
                Owned text(PyUnicode_FromString((o.flags & COMPOSITE) ? "composite"
                                                : !g                  ? "missing"
                                                : g->fn               ? "formula"
                                                : g->python           ? "python"
                                                                      : "none"));
                ok(PyDict_SetItemString(dict.get(), o.text.c_str(), text.get()));
            }
        }
        return dict.release();
    });
}

PyMethodDef functions[] = {
    {"gradients", list_gradients, METH_NOARGS, "gradients(): which ops of the core have one."},
    {"run_backward", py_run_backward, METH_VARARGS, nullptr},
    {"modes", get_modes, METH_NOARGS, nullptr},
    {"set_modes", set_modes, METH_VARARGS, nullptr},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, nullptr},
    {"set_grad", py_set_grad, METH_O, nullptr},
    {"set_module_path", set_module_path, METH_O, nullptr},
    {"in_backward", py_in_backward, METH_NOARGS, nullptr},
    {"push_saved_hooks", push_saved_hooks, METH_VARARGS, nullptr},
    {"pop_saved_hooks", pop_saved_hooks, METH_NOARGS, nullptr},
    {"save_tensor", save_tensor, METH_VARARGS, nullptr},
    {"function_node", function_node, METH_VARARGS, nullptr},
    {"set_output", set_output, METH_VARARGS, nullptr},
    {"check_inplace", py_check_inplace, METH_O, nullptr},
    {"mark_written", mark_written, METH_O, nullptr},
    {"define_gradient", define_gradient, METH_VARARGS,
     "define_gradient(key, uses, formula, constants=0): a gradient in Python for an op of the core."},
    {}};

}  // namespace

int visit_hooks(TensorImpl* impl, visitproc visit, void* arg) {
    GradMeta* meta = impl && impl->use_count() == 1 ? grad_meta(impl) : nullptr;
    if (!meta || !meta->hooks) return 0;
    for (auto& entry : meta->hooks->tensor) Py_VISIT(static_cast<PythonHook*>(entry.hook.get())->function.get());
    for (auto& entry : meta->hooks->after) Py_VISIT(static_cast<PythonHook*>(entry.hook.get())->function.get());
    return 0;
}

void clear_hooks(TensorImpl* impl) {
    GradMeta* meta = impl && impl->use_count() == 1 ? grad_meta(impl) : nullptr;
    if (meta) meta->hooks.reset();
}

PyObject* wrap_node(const Ref<Node>& node) {
    if (!node) Py_RETURN_NONE;
    if (node->pyobj) return Py_NewRef(static_cast<PyObject*>(node->pyobj));
    Owned o(ok(node_type->tp_alloc(node_type, 0)));
    node->retain();
    as_node(o.get())->node = node.get();
    node->pyobj = o.get();
    return o.release();
}

PyObject* define_gradient(PyObject*, PyObject* args) {
    const char* key;
    PyObject *uses, *formula;
    unsigned constants = 0;
    if (!PyArg_ParseTuple(args, "sO!O|I", &key, &PyTuple_Type, &uses, &formula, &constants)) return nullptr;
    return guarded([&]() -> PyObject* {
        Gradient& gradient = gradient_table().emplace_back();
        gradient.key = key;
        gradient.constants = constants;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(uses); i++)
            gradient.uses.push_back(static_cast<uint32_t>(PyLong_AsUnsignedLong(PyTuple_GET_ITEM(uses, i))));
        gradient.python = Py_NewRef(formula);
        link_gradient(gradient);
        Py_RETURN_NONE;
    });
}

PyGetSetDef autograd_getset[] = {
    {"requires_grad", get_requires_grad, set_requires, "Whether operations on this tensor are recorded for backward.",
     nullptr},
    {"grad", get_grad, set_grad, "The gradient that backward has summed up, or None.", nullptr},
    {"grad_fn", get_grad_fn, nullptr, "The recorded operation that made this tensor, or None.", nullptr},
    {"is_leaf", get_is_leaf, nullptr, "Whether no recorded operation made this tensor.", nullptr},
    {"output_nr", get_output_nr, nullptr, "Which result of grad_fn this tensor is.", nullptr},
    {"retains_grad", get_retains_grad, nullptr, "Whether retain_grad() was called on this tensor.", nullptr},
    {"_base", get_base, nullptr, "The tensor this one is a view of, or None.", nullptr},
    {}};

PyMethodDef autograd_methods[] = {
    {"requires_grad_", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(m_requires_grad)),
     METH_VARARGS | METH_KEYWORDS,
     "requires_grad_(requires_grad=True)\n\nSwitches recording for this tensor on or off; returns it.\n\nExample:\n    "
     ">>> fb.ones(2).requires_grad_()\n    tensor([1., 1.], requires_grad=True)\n"},
    {"detach", m_detach, METH_NOARGS,
     "detach()\n\nA tensor on the same memory without history.\n\nExample:\n    >>> "
     "fb.ones(2).requires_grad_().detach()\n    tensor([1., 1.])\n"},
    {"detach_", m_detach_inplace, METH_NOARGS,
     "detach_()\n\nForgets this tensor's history: it becomes a leaf that does not require gradients.\n\nExample:\n    "
     ">>> "
     "(fb.ones(2).requires_grad_() * 2).detach_()\n    tensor([2., 2.])\n"},
    {"retain_grad", m_retain_grad, METH_NOARGS,
     "retain_grad()\n\nKeeps the gradient of this tensor in .grad although it is no leaf.\n\nExample:\n    >>> x = "
     "fb.ones(2).requires_grad_()\n    >>> y = x * 2\n    >>> y.retain_grad()\n    >>> y.sum().backward()\n    >>> "
     "y.grad\n    tensor([1., 1.])\n"},
    {"is_inference", m_is_inference, METH_NOARGS,
     "is_inference()\n\nWhether the tensor was made in inference mode.\n\nExample:\n    >>> "
     "fb.ones(2).is_inference()\n    "
     "False\n"},
    {"backward", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(m_backward)), METH_VARARGS | METH_KEYWORDS,
     "backward(gradient=None, retain_graph=None, create_graph=False, inputs=None)\n\nSums gradients of this tensor "
     "into "
     "the .grad of the leaves it depends on.\n\nArgs:\n    gradient: the gradient of this tensor; may be left out when "
     "it has one element.\n    retain_graph: keep what the graph holds for another backward; create_graph by "
     "default.\n   "
     " create_graph: record the backward itself, for gradients of gradients.\n    inputs: only these get a gradient; "
     "all "
     "leaves by default.\n\nExample:\n    >>> x = fb.tensor([1.0, 2.0], requires_grad=True)\n    >>> (x * "
     "x).sum().backward()\n    >>> x.grad\n    tensor([2., 4.])\n"},
    {"_is_view", m_is_view, METH_NOARGS, nullptr},
    {"_untracked", m_untracked, METH_NOARGS, nullptr},
    {"_add_hook", m_add_hook, METH_O, nullptr},
    {"_add_post_hook", m_add_post_hook, METH_O, nullptr},
    {"_remove_hook", m_remove_hook, METH_O, nullptr},
    {"_gradient_edge", m_gradient_edge, METH_NOARGS, nullptr},
    {}};

void add_autograd(PyObject* module) {
    PyType_Spec spec = {"flambeau.autograd.graph.Node", sizeof(PyGraphNode), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, node_slots};
    node_type = reinterpret_cast<PyTypeObject*>(ok(PyType_FromSpec(&spec)));
    ok(PyModule_AddObjectRef(module, "Node", reinterpret_cast<PyObject*>(node_type)));
    PyType_Spec saved_spec = {"flambeau._C.SavedTensor", sizeof(PySaved), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, saved_slots};
    saved_type = reinterpret_cast<PyTypeObject*>(ok(PyType_FromSpec(&saved_spec)));
    ok(PyModule_AddFunctions(module, functions));
    call_python_gradient = run_python_gradient;
}

}  // namespace fb::py
