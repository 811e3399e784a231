// Nodes of the graph as Python objects, and Functions: nodes implemented in Python.
#include <algorithm>
#include <deque>
#include <unordered_map>

#include "bindings/convert.h"
#include "bindings/graph.h"
#include "bindings/items.h"
#include "ops/table/dispatch.h"

namespace fb::py {

PyTypeObject* node_type = nullptr;

namespace {

// A user's Function: its context implements it.
class PythonNode final : public Node {
  public:
    PythonNode(PyObject* context, std::string name) : context(context), name_(std::move(name)) {}
    Gradients apply(Gradients&& gradients) override {
        Lock lock;
        Owned grads = wrap_all(gradients);
        Owned self(wrap_node(Ref<Node>(this)));
        Owned result(ok(in_python<PyObject_CallMethod>(context.get(), "_run_backward", "OO", grads.get(), self.get())));
        Items given(result.get());
        check(static_cast<size_t>(given.size()) == next.size(), name_, " gave ", given.size(), " gradients, expected ",
              next.size());
        Gradients results(next.size());
        for (size_t i = 0; i < next.size(); i++)
            results[i] = gradient_of(given[static_cast<Py_ssize_t>(i)], name_.c_str());
        return results;
    }
    std::string name() const override { return name_; }
    void release_saved() override {
        Lock lock;
        Owned result(ok(in_python<PyObject_CallMethod>(context.get(), "_release_saved", nullptr)));
    }
    Kept context;

  private:
    std::string name_;
};

// The collector sees what only this object keeps alive: hooks, metadata and the context of a Function.
int node_traverse(PyObject* o, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(o));
    Node* node = as_node(o)->node;
    if (!node || node->use_count() != 1) return 0;
    if (auto* python = dynamic_cast<PythonNode*>(node)) Py_VISIT(python->context.get());
    return visit_hooks(node->hooks.get(), visit, arg);
}
int node_clear(PyObject* o) {
    Node* node = as_node(o)->node;
    if (node && node->use_count() == 1) auto last = std::move(node->hooks);
    return 0;
}
void node_dealloc(PyObject* o) {
    PyTypeObject* type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    PyGraphNode* self = as_node(o);
    if (self->node) {
        if (self->node->pyobj == self) self->node->pyobj = nullptr;
        self->node->release();
    }
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
    return guarded([&] { return metadata_of(*as_node(o)->node); });
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
// [(argument name, tensor)] of what the node saves.
PyObject* node_saved(PyObject* o, PyObject*) {
    return guarded([&]() -> PyObject* {
        Owned list(ok(PyList_New(0)));
        auto* node = dynamic_cast<OpNode*>(as_node(o)->node);
        if (!node) return list.release();
        OpNode::Use use(*node);
        if (use.released()) return list.release();
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
                add(p.name, node->slots[s].saved.unpack(node->next[s], node->slots[s], "the argument '" + p.name + "'",
                                                        node->op.entry->name, node->where));
            }
        }
        for (size_t i = 0; i < node->results.size(); i++) {
            if (node->results[i].defined())
                add("result", node->results[i].unpack({Ref<Node>(node), static_cast<uint32_t>(i)}, node->outputs[i],
                                                      "the result", node->op.entry->name, node->where));
        }
        return list.release();
    });
}
PyObject* add_node_hook(PyObject* o, PyObject* f, bool before) {
    return guarded([&]() -> PyObject* {
        if (!PyCallable_Check(f)) fail_type("a hook must be callable, got ", Py_TYPE(f)->tp_name);
        int64_t id = new_hook_id();
        exclusively([&] {
            NodeHooks& hooks = as_node(o)->node->own_hooks();
            (before ? hooks.before : hooks.after).push_back({id, node_hook(f)});
        });
        return PyLong_FromLongLong(id);
    });
}
PyObject* node_add_hook(PyObject* o, PyObject* f) { return add_node_hook(o, f, false); }
PyObject* node_add_prehook(PyObject* o, PyObject* f) { return add_node_hook(o, f, true); }
PyObject* node_remove_hook(PyObject* o, PyObject* id) {
    long long number = PyLong_AsLongLong(id);
    if (number == -1 && PyErr_Occurred()) return nullptr;
    return PyBool_FromLong(erase_hook(as_node(o)->node->hooks.get(), number));
}
// node._saved_<argument>: the saved values, under PyTorch's names; null without an error if there is none. `raw`: as
// SavedTensor objects.
PyObject* saved_attribute(OpNode* node, std::string key, bool raw) {
    if (key == "self") key = "input";
    OpNode::Use use(*node);
    auto refuse_released = [&] {
        if (use.released())
            fail_state(
                "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                "already been freed): ",
                node->name(), " has freed its saved values; specify retain_graph=True in the first backward");
    };
    const auto& fields = node->op.signature.fields;
    auto field = std::find(fields.begin(), fields.end(), key);
    size_t k = field != fields.end() ? static_cast<size_t>(field - fields.begin()) : 0;
    if (key.starts_with("result") && key.size() == 7) k = static_cast<size_t>(key[6] - '0');
    if (key.starts_with("result") || field != fields.end()) {
        refuse_released();
        if (k >= node->results.size() || !node->results[k].defined()) return nullptr;
        if (raw) return saved_tensor(node, static_cast<uint32_t>(k), true);
        Edge edge{Ref<Node>(node), static_cast<uint32_t>(k)};
        return wrap(node->results[k].unpack(edge, node->outputs[k], "the result", node->op.entry->name, node->where));
    }
    for (size_t i = 0; i < node->op.signature.params.size(); i++) {
        const Param& p = node->op.signature.params[i];
        if (p.name != key) continue;
        auto at = static_cast<size_t>(node->op.place[i]);
        if (p.type != ArgType::Tensor && p.type != ArgType::Operand && p.type != ArgType::TensorList) {
            if (raw || p.type == ArgType::Any || p.type == ArgType::Generator) return nullptr;
            const Value& value = node->others[at];
            return std::holds_alternative<Dims>(value) ? wrap_tuple(std::get<Dims>(value)) : wrap_value(value);
        }
        refuse_released();
        auto one = [&](uint32_t s) {
            if (raw) return saved_tensor(node, s, false);
            if (!node->slots[s].saved.defined()) return Py_NewRef(Py_None);
            Tensor t = node->slots[s].saved.unpack(node->next[s], node->slots[s], "the argument '" + p.name + "'",
                                                   node->op.entry->name, node->where);
            return t.is_wrapped_number() ? wrap(item(t)) : wrap(t);
        };
        uint32_t first = node->first[at], last = node->first[at + 1];
        if (p.type != ArgType::TensorList) return first < last ? one(first) : Py_NewRef(Py_None);
        Owned tuple(ok(PyTuple_New(last - first)));
        for (uint32_t s = first; s < last; s++) PyTuple_SET_ITEM(tuple.get(), s - first, ok(one(s)));
        return tuple.release();
    }
    return nullptr;
}

PyObject* node_getattro(PyObject* o, PyObject* name) {
    PyObject* found = PyObject_GenericGetAttr(o, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    Node* node = as_node(o)->node;
    const char* text = PyUnicode_AsUTF8(name);
    bool raw = text && std::string_view(text).starts_with("_raw_saved_");
    if (auto* op = dynamic_cast<OpNode*>(node); op && text && (raw || std::string_view(text).starts_with("_saved_"))) {
        PyErr_Clear();
        PyObject* saved = guarded([&] { return saved_attribute(op, text + (raw ? 11 : 7), raw); });
        if (saved || PyErr_Occurred()) return saved;
        PyErr_Format(PyExc_AttributeError, "%s keeps no '%s'", op->name().c_str(), text);
        return nullptr;
    }
    if (auto* python = dynamic_cast<PythonNode*>(node)) {
        PyErr_Clear();
        return in_python<PyObject_GetAttr>(python->context.get(), name);
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
                            {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
                            {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
                            {Py_tp_repr, reinterpret_cast<void*>(node_repr)},
                            {Py_tp_getattro, reinterpret_cast<void*>(node_getattro)},
                            {Py_tp_getset, node_getset},
                            {Py_tp_methods, node_methods},
                            {Py_tp_doc, const_cast<char*>("A recorded operation of the graph.")},
                            {0, nullptr}};

// ---- Functions ------------------------------------------------------------------------------------------------------

// function_node(context, name, inputs): a node whose edges lead to the inputs (tensors or None).
PyObject* function_node(PyObject*, PyObject* args) {
    PyObject *context, *inputs;
    const char* name;
    if (!PyArg_ParseTuple(args, "OsO!", &context, &name, &PyTuple_Type, &inputs)) return nullptr;
    return guarded([&]() -> PyObject* {
        current_location = here();
        auto node = make_ref<PythonNode>(context, name);
        for (PyObject* o : Items(inputs)) node->next.push_back(is_tensor(o) ? gradient_edge(tensor_of(o)) : Edge{});
        node->renumber();
        return wrap_node(Ref<Node>(node.get()));
    });
}
// set_output(node, tensor, dirty): makes the tensor the node's next output. An input returned unchanged becomes a view.
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
        Tensor t = expect_tensor(o, "an output");
        node->add_output(t);
        if (!record || !differentiable(t.dtype())) Py_RETURN_NONE;
        if (dirty && t.impl()->base) rebase_history(t, Ref<Node>(node));
        else set_history(t, Ref<Node>(node), output);
        Py_RETURN_NONE;
    });
}
PyObject* py_check_inplace(PyObject*, PyObject* o) {
    return guarded([&]() -> PyObject* {
        check_inplace(expect_tensor(o, "what is changed in place"));
        Py_RETURN_NONE;
    });
}
// mark_written(tensor): a Function declares that it changed the tensor by other means.
PyObject* mark_written(PyObject*, PyObject* o) {
    return guarded([&]() -> PyObject* {
        current_location = here();
        expect_tensor(o, "what is marked as written").will_write();
        Py_RETURN_NONE;
    });
}

PyMethodDef functions[] = {{"function_node", function_node, METH_VARARGS, nullptr},
                           {"set_output", set_output, METH_VARARGS, nullptr},
                           {"check_inplace", py_check_inplace, METH_O, nullptr},
                           {"mark_written", mark_written, METH_O, nullptr},
                           {}};

}  // namespace

// Programs that draw graphs read type(node).__name__: one subtype of Node per name, created on first use.
static PyTypeObject* type_of_nodes(const std::string& name) {
    constexpr size_t most_types = 4096;  // users choose the names of Functions
    static auto* known = new std::unordered_map<std::string, PyTypeObject*>;
    if (known->size() >= most_types && !known->contains(name)) return node_type;
    PyTypeObject*& type = (*known)[name];
    if (!type) {
        static auto* names = new std::deque<std::string>;
        PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("A recorded operation of the graph.")}, {0, nullptr}};
        PyType_Spec spec = {names->emplace_back("flambeau.autograd.graph." + name).c_str(), sizeof(PyGraphNode), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
        Owned bases(ok(PyTuple_Pack(1, reinterpret_cast<PyObject*>(node_type))));
        Owned made(ok(PyType_FromSpecWithBases(&spec, bases.get())));
        type = reinterpret_cast<PyTypeObject*>(made.release());
    }
    return type;
}

PyObject* wrap_node(const Ref<Node>& node) {
    if (!node) Py_RETURN_NONE;
    if (node->pyobj) return Py_NewRef(static_cast<PyObject*>(node->pyobj));
    PyTypeObject* type = type_of_nodes(node->name());
    Owned o(ok(type->tp_alloc(type, 0)));
    node->retain();
    as_node(o.get())->node = node.get();
    node->pyobj = o.get();
    return o.release();
}

void add_nodes(PyObject* module) {
    PyType_Spec spec = {
        "flambeau.autograd.graph.Node", sizeof(PyGraphNode), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC, node_slots};
    node_type = reinterpret_cast<PyTypeObject*>(ok(PyType_FromSpec(&spec)));
    ok(PyModule_AddObjectRef(module, "Node", reinterpret_cast<PyObject*>(node_type)));
    ok(PyModule_AddFunctions(module, functions));
}

}  // namespace fb::py
