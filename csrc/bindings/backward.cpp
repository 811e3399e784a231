// Tensor.backward, and the functions behind autograd.backward and autograd.grad.
#include "autograd/engine.h"
#include "bindings/convert.h"
#include "bindings/graph.h"
#include "bindings/items.h"
#include "ops/table/common.h"

namespace fb::py {
namespace {

Edge edge_of(PyObject* o, const char* what) {
    if (PyTuple_Check(o)) {
        Items pair(o);
        int64_t output = 0;
        if (pair.size() == 2 && is_node(pair[0]) && int_of(pair[1], output)) {
            Node* node = as_node(pair[0])->node;
            auto count = static_cast<int64_t>(node->outputs.size());
            check(output >= 0 && output < count, what, " names output ", output, " of a node with ", count);
            return {Ref<Node>(node), static_cast<uint32_t>(output)};
        }
    }
    if (!is_tensor(o)) fail_type(what, " must be tensors, got ", Py_TYPE(o)->tp_name);
    return gradient_edge(tensor_of(o));
}

std::vector<Tensor> without_lock(BackwardTask& task) {
    UnlockedOp unlocked;
    std::vector<Tensor> results = run_backward(task);
    task.roots.clear();  // releases the graph without the interpreter lock: freeing a large one takes time
    return results;
}

// run_backward(outputs, gradients, keep_graph, create_graph, inputs or None, accumulate): gradients of the inputs, or
// None if there are no inputs or they are accumulated.
PyObject* py_run_backward(PyObject*, PyObject* args) {
    PyObject *outputs, *gradients, *inputs;
    int keep, create, accumulate = 0;
    if (!PyArg_ParseTuple(args, "O!O!ppO|p", &PyTuple_Type, &outputs, &PyTuple_Type, &gradients, &keep, &create,
                          &inputs, &accumulate))
        return nullptr;
    return guarded([&]() -> PyObject* {
        OpScope scope(nullptr);
        BackwardTask task;
        task.keep_graph = keep;
        task.create_graph = create;
        task.accumulate = accumulate;
        Items roots(outputs), weights(gradients);
        if (roots.size() != weights.size())
            fail_value("got ", weights.size(), " gradients for ", roots.size(), " outputs");
        for (Py_ssize_t i = 0; i < roots.size(); i++) {
            Edge edge = edge_of(roots[i], "the outputs");
            if (!edge.node)
                fail_state(
                    "backward: element ", i, " of tensors does not require grad and does not have a grad_fn",
                    "; nothing it was computed from has requires_grad=True, or it was detached or computed under "
                    "no_grad()");
            task.roots.push_back(edge);
            task.gradients.push_back(expect_tensor(weights[i], "a gradient"));
        }
        if (inputs != Py_None) {
            for (PyObject* input : Items(inputs)) {
                Edge edge = edge_of(input, "the inputs");
                if (!edge.node)
                    fail_state("One of the differentiated Tensors does not require grad (input ", task.inputs.size(),
                               ")");
                // The edge of a non-leaf tensor cannot store its gradient: retain it.
                if (accumulate && !edge.node->accumulates && is_tensor(input)) {
                    if (Tensor t = tensor_of(input); !grad_meta(t.impl())->retains())
                        exclusively([&] { retain_grad(t); });
                }
                task.inputs.push_back(edge);
            }
        }
        std::vector<Tensor> results = without_lock(task);
        if (inputs == Py_None || accumulate) Py_RETURN_NONE;
        Owned tuple(ok(PyTuple_New(static_cast<Py_ssize_t>(results.size()))));
        for (size_t i = 0; i < results.size(); i++)
            PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), ok(wrap_or_none(results[i])));
        return tuple.release();
    });
}

PyObject* py_in_backward(PyObject*, PyObject*) { return PyBool_FromLong(in_backward()); }

PyObject* py_in_partial_backward(PyObject*, PyObject*) { return PyBool_FromLong(in_partial_backward()); }
// queue_callback(function): called when the running backward is done.
PyObject* py_queue_callback(PyObject*, PyObject* f) {
    return guarded([&]() -> PyObject* {
        if (!in_backward()) fail_state("Final callbacks can only be installed during backward pass");
        auto kept = std::make_shared<Kept>(f);
        after_backward([kept] {
            Lock lock;
            Owned result(ok(in_python<PyObject_CallNoArgs>(kept->get())));
        });
        Py_RETURN_NONE;
    });
}

// running_backwards(): IDs of the backward passes running on this thread, innermost first.
PyObject* py_running_backwards(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        std::vector<uint64_t> ids = running_backwards();
        Owned tuple(ok(PyTuple_New(static_cast<Py_ssize_t>(ids.size()))));
        for (size_t i = 0; i < ids.size(); i++)
            PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), ok(PyLong_FromUnsignedLongLong(ids[i])));
        return tuple.release();
    });
}
// backward_reaches(tensor): whether the running backward may send the tensor a gradient.
PyObject* py_backward_reaches(PyObject*, PyObject* o) {
    return guarded([&] { return PyBool_FromLong(backward_reaches(gradient_edge(tensor_of(o)))); });
}

PyMethodDef functions[] = {{"run_backward", py_run_backward, METH_VARARGS, nullptr},
                           {"in_partial_backward", py_in_partial_backward, METH_NOARGS, nullptr},
                           {"queue_callback", py_queue_callback, METH_O, nullptr},
                           {"running_backwards", py_running_backwards, METH_NOARGS, nullptr},
                           {"backward_reaches", py_backward_reaches, METH_O, nullptr},
                           {"in_backward", py_in_backward, METH_NOARGS, nullptr},
                           {}};

}  // namespace

// A fast path for the common case of Tensor.backward: no inputs, and a gradient that fits or none for one element.
// Everything else, errors included, is left to autograd.backward.
PyObject* m_backward(PyObject* o, PyObject* args, PyObject* kwargs) {
    PyObject *gradient = Py_None, *retain = Py_None, *create = Py_False, *inputs = Py_None;
    static const char* names[] = {"gradient", "retain_graph", "create_graph", "inputs", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOO", const_cast<char**>(names), &gradient, &retain, &create,
                                     &inputs))
        return nullptr;
    return guarded([&]() -> PyObject* {
        Tensor t = tensor_of(o);
        bool plain = inputs == Py_None && !t.impl()->functorial && requires_grad(t) && create == Py_False &&
                     (retain == Py_None || PyBool_Check(retain));
        Tensor g;
        if (plain && gradient == Py_None) {
            plain = t.numel() == 1 && !is_complex(t.dtype());
            if (plain) g = full(t.shape(), Scalar(1), t.dtype(), t.device());
        } else if (plain) {
            plain = is_tensor(gradient) && tensor_of(gradient).shape() == t.shape() &&
                    is_complex(tensor_of(gradient).dtype()) == is_complex(t.dtype()) &&
                    !tensor_of(gradient).impl()->functorial;
            if (plain) g = tensor_of(gradient);
        }
        if (!plain) {
            Owned module(ok(in_python<PyImport_ImportModule>("flambeau.autograd")));
            Owned function(ok(in_python<PyObject_GetAttrString>(module.get(), "backward")));
            Owned call(ok(PyTuple_Pack(4, o, gradient, retain, create)));
            Owned keyword(ok(PyDict_New()));
            ok(PyDict_SetItemString(keyword.get(), "inputs", inputs));
            return ok(in_python<PyObject_Call>(function.get(), call.get(), keyword.get()));
        }
        OpScope scope(nullptr);
        BackwardTask task;
        task.keep_graph = retain == Py_True;
        task.roots.push_back(gradient_edge(t));
        task.gradients.push_back(std::move(g));
        without_lock(task);
        Py_RETURN_NONE;
    });
}

void add_backward(PyObject* module) { ok(PyModule_AddFunctions(module, functions)); }

}  // namespace fb::py
