// Elementwise formulas and reductions for Python: their expression trees, and the kernels of formulas on tensors.
#include "bindings/expressions.h"

#include "bindings/items.h"
#include "device/loop.h"
#include "device/reduction.h"
#include "ops/pointwise/elementwise.h"

namespace fb::py {
namespace {

// A literal is a float, a name a str, a call a tuple of its name and its arguments.
Owned tree_of(const Expression& e) {
    if (e.type == Expression::Type::Literal) return Owned(ok(PyFloat_FromDouble(e.value)));
    Owned name(ok(PyUnicode_FromString(e.name.c_str())));
    if (e.type == Expression::Type::Name) return name;
    Owned call(ok(PyTuple_New(static_cast<Py_ssize_t>(e.arguments.size()) + 1)));
    PyTuple_SET_ITEM(call.get(), 0, name.release());
    for (size_t i = 0; i < e.arguments.size(); i++)
        PyTuple_SET_ITEM(call.get(), static_cast<Py_ssize_t>(i) + 1, tree_of(e.arguments[i]).release());
    return call;
}

constexpr const char* result_names[] = {"same", "float", "bool", "real", "float real", "step", "int32"};

std::string kinds_of(unsigned domain) {
    std::string kinds;
    for (auto [bit, letter] : {std::pair(formulas::B, 'b'), {formulas::I, 'i'}, {formulas::F, 'f'}, {formulas::C, 'c'}})
        if (domain & bit) kinds += letter;
    return kinds;
}

PyObject* formulas_table(PyObject*, PyObject*) {
    return guarded([]() -> PyObject* {
        Owned table(ok(PyDict_New()));
        for (const Formula* f : formulas::all()) {
            Owned tree = tree_of(parse_formula(f->text));
            Owned row(ok(Py_BuildValue("{s:s,s:O,s:i,s:i,s:s,s:s,s:d,s:O}", "text", f->text, "tree", tree.get(),
                                       "inputs", f->inputs, "conditions", static_cast<int>(f->conditions), "kinds",
                                       kinds_of(f->domain).c_str(), "result", result_names[static_cast<int>(f->result)],
                                       "cost", f->cost, "wide", f->wide ? Py_True : Py_False)));
            if (f->second) ok(PyDict_SetItemString(row.get(), "second", tree_of(parse_formula(f->second)).get()));
            ok(PyDict_SetItemString(table.get(), f->name, row.get()));
        }
        return table.release();
    });
}

constexpr const char* lane_names[] = {"sums", "counts", "flags", "own", "moduli", ""};

PyObject* reductions_table(PyObject*, PyObject*) {
    return guarded([]() -> PyObject* {
        Owned table(ok(PyDict_New()));
        for (const ReductionRow& r : reduction_rows()) {
            Owned identity = tree_of(parse_formula(r.identity)), element = tree_of(parse_formula(r.element));
            Owned combine = tree_of(parse_formula(r.combine)), finish = tree_of(parse_formula(r.finish));
            Owned row(ok(Py_BuildValue("{s:s,s:s,s:i,s:O,s:O,s:O,s:O}", "kinds", kinds_of(r.domain).c_str(), "lanes",
                                       lane_names[static_cast<int>(r.lanes)], "numbers", r.numbers, "identity",
                                       identity.get(), "element", element.get(), "combine", combine.get(), "finish",
                                       finish.get())));
            ok(PyDict_SetItemString(table.get(), r.name, row.get()));
        }
        return table.release();
    });
}

PyObject* scans_table(PyObject*, PyObject*) {
    return guarded([]() -> PyObject* {
        Owned table(ok(PyDict_New()));
        for (const ScanRow& s : scan_rows())
            ok(PyDict_SetItemString(table.get(), s.name, Owned(ok(PyUnicode_FromString(s.row))).get()));
        return table.release();
    });
}

PyObject* parse(PyObject*, PyObject* text) {
    return guarded([&]() -> PyObject* {
        if (!PyUnicode_Check(text)) fail_type("expected a str, got ", Py_TYPE(text)->tp_name);
        return tree_of(parse_formula(text_of(text))).release();
    });
}

// Inputs have one shape, and one dtype except for conditions.
PyObject* compute_formula(PyObject*, PyObject* args) {
    const char* name;
    PyObject* inputs;
    double a = 0, b = 0, c = 0;
    if (!PyArg_ParseTuple(args, "sO!|ddd", &name, &PyTuple_Type, &inputs, &a, &b, &c)) return nullptr;
    return guarded([&]() -> PyObject* {
        OpScope scope("compute_formula");
        const Formula* formula = nullptr;
        for (const Formula* f : formulas::all()) {
            if (std::string_view(f->name) == name) formula = f;
        }
        check(formula, "there is no formula '", name, "'; formulas() lists them");
        std::vector<Tensor> given;
        for (PyObject* o : Items(inputs)) given.push_back(expect_tensor(o, "an input"));
        check(static_cast<int>(given.size()) == formula->inputs, "the formula ", name, " has ", formula->inputs,
              " inputs, got ", given.size());
        DType common = given[0].dtype();
        for (int i = 0; i < formula->inputs; i++) {
            if (!(formula->conditions >> i & 1)) common = given[static_cast<size_t>(i)].dtype();
        }
        const Tensor* in[3] = {};
        for (int i = 0; i < formula->inputs; i++) {
            const Tensor& t = given[static_cast<size_t>(i)];
            in[i] = &t;
            check(t.shape() == given[0].shape() && t.dtype() == (formula->conditions >> i & 1 ? DType::Bool : common),
                  "inputs must have one shape and dtype, conditions dtype bool; got ", t.dtype(), " ", t.shape());
        }
        ew::check_domain(*formula, common, common);
        using formulas::Result;
        DType result = formula->result == Result::Bool                                           ? DType::Bool
                       : formula->result == Result::Real || formula->result == Result::FloatReal ? real_of(common)
                                                                                                 : common;
        Tensor out = empty(given[0].shape(), result, given[0].device());
        if (formula->second) {
            DType other = formula->second_result == Result::Int32 ? DType::I32 : common;
            Tensor second = empty(given[0].shape(), other, given[0].device());
            device::looping(out).run_pair(*formula, out, second, given[0]);
            Owned first(ok(wrap(out)));
            return ok(PyTuple_Pack(2, first.get(), Owned(ok(wrap(second))).get()));
        }
        Numbers numbers(a, b, c);
        numbers.value = {a, convert<int64_t>(a)};
        device::looping(out).run(*formula, common, out, in, &numbers, formula->cost);
        return wrap(out);
    });
}

PyMethodDef functions[] = {
    {"formulas", formulas_table, METH_NOARGS, "formulas(): {name: what is known of an elementwise formula}."},
    {"reductions", reductions_table, METH_NOARGS, "reductions(): {name: the expression trees of a reduction}."},
    {"scans", scans_table, METH_NOARGS, "scans(): {name of a scan: the row of reductions() that runs}."},
    {"parse_formula", parse, METH_O, "parse_formula(text): the expression tree of a formula."},
    {"compute_formula", compute_formula, METH_VARARGS,
     "compute_formula(name, inputs, a=0, b=0, c=0): the kernel of a formula on tensors of one shape."},
    {}};

}  // namespace

void add_expressions(PyObject* module) { ok(PyModule_AddFunctions(module, functions)); }

}  // namespace fb::py
