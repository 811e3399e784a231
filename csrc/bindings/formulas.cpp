// Gradient formulas written in Python for ops of the core.
#include "bindings/convert.h"
#include "bindings/graph.h"
#include "bindings/items.h"
#include "ops/table/common.h"
#include "ops/table/dispatch.h"

namespace fb::py {
namespace {

// The context of a Python formula: ctx.args (tensors only where saved), ctx.results, ctx.needs, ctx.shapes, ctx.dtypes.
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
            auto told = [&](const Owned& all) {
                if (list) return Owned::borrow(all.get());
                return c.count(at) ? Owned(ok(PySequence_GetItem(all.get(), 0))) : Owned::borrow(Py_None);
            };
            ok(PyDict_SetItemString(inputs.get(), p.name.c_str(), told(tensors).get()));
            ok(PyDict_SetItemString(shapes.get(), p.name.c_str(), told(sizes).get()));
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
    Owned module(ok(in_python<PyImport_ImportModule>("flambeau._registry.gradients")));
    Owned run(ok(in_python<PyObject_GetAttrString>(module.get(), "run")));
    Owned answer(ok(in_python<PyObject_CallFunctionObjArgs>(run.get(), static_cast<PyObject*>(formula), inputs.get(),
                                                            results.get(), grads.get(), needs.get(), shapes.get(),
                                                            dtypes.get(), nullptr)));
    // A dictionary: argument name → gradient, or a list of gradients for a list argument.
    for (Py_ssize_t i = 0; i < n; i++) {
        Owned g = find_item(answer.get(), params[static_cast<size_t>(i)].name.c_str());
        if (!g || g.get() == Py_None) continue;
        if (is_tensor(g.get())) {
            c.set(static_cast<int>(i), tensor_of(g.get()));
            continue;
        }
        Items list(g.get());
        check(list.size() <= c.count(static_cast<int>(i)), "a gradient formula gave ", list.size(),
              " gradients for a list of ", c.count(static_cast<int>(i)));
        for (Py_ssize_t k = 0; k < list.size(); k++) {
            if (is_tensor(list[k])) c.set(static_cast<int>(i), static_cast<int>(k), tensor_of(list[k]));
        }
    }
}

// gradients(): {signature: "formula", "python", "composite", "none" (not differentiable) or "missing"} for the ops of
// the core.
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

PyObject* define_gradient(PyObject*, PyObject* args) {
    const char* key;
    PyObject *uses, *formula;
    unsigned constants = 0;
    if (!PyArg_ParseTuple(args, "sO!O|I", &key, &PyTuple_Type, &uses, &formula, &constants)) return nullptr;
    return guarded([&]() -> PyObject* {
        Dims places;
        if (!dims_of(uses, places)) fail_type("the arguments in use must be ints");
        Gradient& gradient = gradient_table().emplace_back();
        gradient.key = key;
        gradient.constants = constants;
        for (int64_t use : places) gradient.uses.push_back(static_cast<uint32_t>(use));
        gradient.python = Py_NewRef(formula);
        link_gradient(gradient);
        Py_RETURN_NONE;
    });
}

PyMethodDef functions[] = {
    {"gradients", list_gradients, METH_NOARGS, "gradients(): which ops of the core have one."},
    {"define_gradient", define_gradient, METH_VARARGS,
     "define_gradient(key, uses, formula, constants=0): a gradient in Python for an op of the core."},
    {}};

}  // namespace

void add_formulas(PyObject* module) {
    ok(PyModule_AddFunctions(module, functions));
    call_python_gradient = run_python_gradient;
}

}  // namespace fb::py
