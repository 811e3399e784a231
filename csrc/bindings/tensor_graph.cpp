// Graph attributes of tensors: requires_grad, grad, history, hooks.
#include "bindings/graph.h"
#include "bindings/override.h"
#include "ops/table/common.h"
#include "ops/table/dispatch.h"

namespace fb::py {
namespace {

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
const char* const not_a_leaf =
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
    "populated "
    "during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use "
    ".retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the "
    "leaf "
    "Tensor instead.";
PyObject* get_grad(PyObject* o, void*) {
    GradMeta* meta = grad_meta(reinterpret_cast<PyTensor*>(o)->impl);
    if (!meta) Py_RETURN_NONE;
    return guarded([&]() -> PyObject* {
        Tensor grad = meta->grad();
        bool never = !grad && meta->tracked() && !meta->requires_grad() && !meta->retains();
        if (never && in_python<PyErr_WarnEx>(PyExc_UserWarning, not_a_leaf, 1) < 0) return nullptr;
        if (!grad) Py_RETURN_NONE;
        // With a dictionary the object lives as long as the gradient: Note [Objects kept by the core].
        Owned object(wrap(grad));
        auto* tensor = reinterpret_cast<PyTensor*>(object.get());
        if (!tensor->dict) tensor->dict = ok(PyDict_New());
        return object.release();
    });
}
int set_grad(PyObject* o, PyObject* value, void*) {
    return guarded_int([&] {
        OpScope scope("grad");
        Tensor t = tensor_of(o);
        Tensor g;
        if (value && value != Py_None) {
            if (!is_tensor(value))
                fail_type("assigned grad expected to be a Tensor or None but got grad of type ",
                          Py_TYPE(value)->tp_name);
            g = tensor_of(value);
            check(!g.is_same(t), "can't assign Variable as its own grad");
            DType expected = grad_dtype(t).value_or(g.dtype());
            check(g.dtype() == expected, "attempting to assign a gradient with dtype '", g.dtype(),
                  "' to a tensor with grad_dtype '", expected, "'; convert it with .to(", expected, ")");
            check(g.device() == t.device(), "attempting to assign a gradient with device type '", to_string(g.device()),
                  "' to a tensor with device type '", to_string(t.device()), "'; move it with .to()");
            check(g.shape() == t.shape(), "attempting to assign a gradient of size '", g.shape(),
                  "' to a tensor of size '", t.shape(),
                  "'. Please ensure that the gradient and the tensor are the same size");
        } else if (!t.impl()->autograd) {
            return 0;
        }
        own_meta(t).set_grad(std::move(g));
        return 0;
    });
}
PyObject* get_grad_dtype(PyObject* o, void*) {
    return guarded([&]() -> PyObject* {
        OpScope scope("grad_dtype");
        Tensor t = tensor_of(o);
        if (!is_leaf(t)) fail_state("grad_dtype can only be accessed on leaf tensors");
        std::optional<DType> dtype = grad_dtype(t);
        if (!dtype) Py_RETURN_NONE;
        return wrap(*dtype);
    });
}
int set_grad_dtype(PyObject* o, PyObject* value, void*) {
    return guarded_int([&] {
        OpScope scope("grad_dtype");
        Tensor t = tensor_of(o);
        if (!is_leaf(t)) fail_state("grad_dtype can only be set on leaf tensors");
        if (!value || (value != Py_None && !is_dtype(value)))
            fail_type("expected a dtype, or None for any, got ", value ? Py_TYPE(value)->tp_name : "nothing");
        int dtype = value == Py_None ? GradMeta::any_dtype : static_cast<int>(dtype_of(value));
        GradMeta& meta = own_meta(t);
        Tensor grad = meta.grad();
        if (grad && dtype != GradMeta::any_dtype && dtype != static_cast<int>(grad.dtype()))
            fail_state("Cannot set grad_dtype to '", static_cast<DType>(dtype),
                       "' because there is already a gradient, of dtype '", grad.dtype(), "'; set grad to None first");
        meta.grad_dtype.store(dtype, std::memory_order_relaxed);
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
    return PyLong_FromUnsignedLong(meta ? meta->output() : 0);
}
PyObject* get_retains_grad(PyObject* o, void*) {
    GradMeta* meta = grad_meta(reinterpret_cast<PyTensor*>(o)->impl);
    return PyBool_FromLong(meta && meta->retains());
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
    result.impl()->inference = t.impl()->inference;
    return result;
}
PyObject* m_detach(PyObject* o, PyObject*) {
    return guarded([&] { return overridden(&o, 1) ? give_to_class("detach", &o, 1) : wrap(same_memory(settled(o))); });
}
// `.data`: like detach(), but backward does not notice writes through it.
PyObject* m_untracked(PyObject* o, PyObject*) {
    return guarded([&]() -> PyObject* {
        if (overridden(&o, 1)) {
            Owned data(ok(in_python<PyObject_GetAttrString>(reinterpret_cast<PyObject*>(tensor_type), "data")));
            Owned get(ok(in_python<PyObject_GetAttrString>(data.get(), "__get__")));
            return give_to_class(get.get(), &o, 1, nullptr);
        }
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
            meta->set_leaf(false);
            meta->set_retained(nullptr);
        }
        return Py_NewRef(o);
    });
}
PyObject* m_retain_grad(PyObject* o, PyObject*) {
    return guarded([&]() -> PyObject* {
        OpScope scope("retain_grad");
        Tensor t = tensor_of(o);
        if (!requires_grad(t)) fail_state("can't retain_grad on a tensor that has requires_grad=False");
        if (grad_fn(t) && !grad_meta(t.impl())->retains()) exclusively([&] { retain_grad(t); });
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
        int64_t id = new_hook_id();
        exclusively([&] {
            if (!node && !meta.hooks) meta.hooks = std::make_unique<NodeHooks>();
            NodeHooks& hooks = node ? node->own_hooks() : *meta.hooks;
            hooks.tensor.push_back({node ? meta.output() : 0, id, tensor_hook(f)});
        });
        if (!node && !PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
        // The handle removes the hook from its current place, whatever happens to the tensor.
        Owned place(node ? wrap_node(node) : Py_NewRef(o));
        return Py_BuildValue("(OL)", place.get(), static_cast<long long>(id));
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
        int64_t id = new_hook_id();
        exclusively([&] {
            if (!meta.hooks) meta.hooks = std::make_unique<NodeHooks>();
            meta.hooks->after.push_back({id, leaf_hook(f)});
        });
        if (!PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
        return PyLong_FromLongLong(id);
    });
}
PyObject* m_remove_hook(PyObject* o, PyObject* id) {
    GradMeta* meta = grad_meta(reinterpret_cast<PyTensor*>(o)->impl);
    long long number = PyLong_AsLongLong(id);
    if (number == -1 && PyErr_Occurred()) return nullptr;
    return PyBool_FromLong(meta && erase_hook(meta->hooks.get(), number));
}
// Where the tensor's gradient goes: (node, output).
PyObject* m_gradient_edge(PyObject* o, PyObject*) {
    return guarded([&]() -> PyObject* {
        Edge edge = gradient_edge(tensor_of(o));
        Owned node(wrap_node(edge.node));
        return Py_BuildValue("(OI)", node.get(), edge.output);
    });
}

}  // namespace

PyGetSetDef autograd_getset[] = {
    {"requires_grad", get_requires_grad, set_requires, "Whether operations on this tensor are recorded for backward.",
     nullptr},
    {"grad", get_grad, set_grad, "The gradient that backward has summed up, or None.", nullptr},
    {"_grad", get_grad, set_grad, "Another name of grad.", nullptr},
    {"grad_dtype", get_grad_dtype, set_grad_dtype,
     "Which dtype gradients of this leaf are converted to: its own, another one, or None for none.", nullptr},
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
     "retain_grad()\n\nKeeps the gradient of this non-leaf tensor in .grad.\n\nExample:\n    >>> x = "
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

}  // namespace fb::py
