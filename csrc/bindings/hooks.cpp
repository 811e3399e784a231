// Python callables as hooks of the graph.
#include <algorithm>

#include "bindings/convert.h"
#include "bindings/graph.h"
#include "bindings/items.h"

namespace fb::py {

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

namespace {

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
        Owned result(ok(in_python<PyObject_CallOneArg>(function.get(), argument.get())));
        if (result.get() == Py_None) return;
        Tensor g = gradient_of(result.get(), "a hook");
        if (g.shape() != gradients[0].shape()) {
            PyErr_Format(PyExc_RuntimeError, "hook has changed the size of value; return a tensor of the same shape");
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
        Owned result(ok(in_python<PyObject_Vectorcall>(function.get(), args, others ? 2 : 1, nullptr)));
        if (result.get() == Py_None) return;
        Owned list = is_tensor(result.get()) ? Owned(ok(PyTuple_Pack(1, result.get()))) : std::move(result);
        Items given(list.get());
        if (static_cast<size_t>(given.size()) != gradients.size()) {
            Owned name(PyObject_GetAttrString(function.get(), "__name__"));
            if (!name.get()) PyErr_Clear();
            PyErr_Format(PyExc_RuntimeError,
                         "hook '%V' has returned an incorrect number of values (got %zd, but expected %zu)", name.get(),
                         Py_TYPE(function.get())->tp_name, given.size(), gradients.size());
            throw PythonError{};
        }
        for (size_t i = 0; i < gradients.size(); i++)
            gradients[i] = gradient_of(given[static_cast<Py_ssize_t>(i)], "a hook");
    }
};

// hook(tensor), the leaf whose .grad is complete.
struct LeafHook final : PythonHook {
    using PythonHook::PythonHook;
    void call(Gradients& gradients, const Gradients*) override {
        Lock lock;
        Owned argument(ok(wrap(gradients[0])));
        Owned result(ok(in_python<PyObject_CallOneArg>(function.get(), argument.get())));
        if (result.get() != Py_None) {
            PyErr_SetString(PyExc_RuntimeError, "Tensor post accumulate grad hooks should return None.");
            throw PythonError{};
        }
    }
};

// Node.metadata: not a hook, but stored with the hooks, so that it lives as long as the node.
struct Metadata final : PythonHook {
    using PythonHook::PythonHook;
    static constexpr int64_t id = 0;  // an ID that no hook has
    void call(Gradients&, const Gradients*) override {}
};

int visit_each(const auto& list, visitproc visit, void* arg) {
    for (auto& entry : list) Py_VISIT(static_cast<PythonHook*>(entry.hook.get())->function.get());
    return 0;
}

// The removed hook is destroyed later: that may run Python.
template <class List>
bool erase_hook(List& list, int64_t id, Ref<GradientHook>& erased) {
    for (auto it = list.begin(); it != list.end(); ++it) {
        if (it->id == id) {
            erased = std::move(it->hook);
            list.erase(it);
            return true;
        }
    }
    return false;
}

}  // namespace

Ref<GradientHook> tensor_hook(PyObject* f) { return Ref<GradientHook>(new TensorHook(f)); }
Ref<GradientHook> node_hook(PyObject* f) { return Ref<GradientHook>(new NodeHook(f)); }
Ref<GradientHook> leaf_hook(PyObject* f) { return Ref<GradientHook>(new LeafHook(f)); }

int64_t new_hook_id() {
    static int64_t last = 0;
    return ++last;
}

bool erase_hook(NodeHooks* hooks, int64_t id) {
    Ref<GradientHook> erased;
    bool found = false;
    if (hooks) {
        exclusively([&] {
            found = erase_hook(hooks->tensor, id, erased) || erase_hook(hooks->before, id, erased) ||
                    erase_hook(hooks->after, id, erased);
        });
    }
    return found;
}

PyObject* metadata_of(Node& node) {
    PyObject* found = nullptr;
    Owned fresh(ok(PyDict_New()));
    exclusively([&] {
        auto& list = node.own_hooks().before;
        auto at = std::find_if(list.begin(), list.end(), [](auto& entry) { return entry.id == Metadata::id; });
        if (at == list.end()) {
            list.push_back({Metadata::id, Ref<GradientHook>(new Metadata(fresh.get()))});
            at = list.end() - 1;
        }
        found = Py_NewRef(static_cast<PythonHook*>(at->hook.get())->function.get());
    });
    return found;
}

int visit_hooks(const NodeHooks* hooks, visitproc visit, void* arg) {
    if (!hooks) return 0;
    if (int stop = visit_each(hooks->tensor, visit, arg)) return stop;
    if (int stop = visit_each(hooks->before, visit, arg)) return stop;
    return visit_each(hooks->after, visit, arg);
}

int visit_hooks(TensorImpl* impl, visitproc visit, void* arg) {
    GradMeta* meta = impl && impl->use_count() == 1 ? grad_meta(impl) : nullptr;
    return meta ? visit_hooks(meta->hooks.get(), visit, arg) : 0;
}

void clear_hooks(TensorImpl* impl) {
    GradMeta* meta = impl && impl->use_count() == 1 ? grad_meta(impl) : nullptr;
    if (meta) meta->hooks.reset();
}

}  // namespace fb::py
