// Users' kernels and formulas, for flambeau.accelerator, and the text of all programs that were built.
#include <map>

#include "backend/gpu/elements.h"
#include "bindings/convert.h"
#include "bindings/expressions.h"
#include "bindings/interpreter.h"
#include "bindings/items.h"
#include "bindings/op.h"
#include "device/loop.h"

namespace fb::py {
namespace {

// accelerator_sources() -> the programs built so far, without the head of a dialect.
PyObject* sources(PyObject*, PyObject*) {
    return guarded([]() -> PyObject* {
        Owned list(ok(PyList_New(0)));
        for (const std::string& text : gpu::built_sources()) {
            Owned item(ok(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()))));
            if (PyList_Append(list.get(), item.get()) < 0) throw PythonError{};
        }
        return list.release();
    });
}

// Renames the inputs to the names that run_elements uses, and other names to numbers of the call. Literals are of type
// T: C divides whole ones as integers.
void rename(Expression& e, const std::vector<std::string>& inputs, const gpu::Reals& numbers, bool floating) {
    if (e.type == Expression::Type::Literal && floating) {
        for (char& c : e.name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        if (e.name.find_first_of(".e") == std::string::npos) e.name += ".0";
    }
    if (e.type == Expression::Type::Name) {
        for (size_t i = 0; i < inputs.size(); i++) {
            if (e.name != inputs[i]) continue;
            e.name = std::string(1, "xyzuvws"[i]);
            return;
        }
        for (const auto& [name, value] : numbers) {
            if (e.name != name) continue;
            e.name = "p." + name;
            return;
        }
        fail_value("the name '", e.name, "' is neither an input nor a number");
    }
    for (Expression& part : e.arguments) rename(part, inputs, numbers, floating);
}

// accelerator_formula(op, text, [name, ...], [tensor, ...], [(number, value), ...], out) -> whether there is a kernel
// for it. Tensors and `out` are on one device, and `out` has the dtype to compute in.
PyObject* formula(PyObject*, PyObject* args) {
    const char *op, *text;
    PyObject *names, *tensors, *numbers, *result;
    if (!PyArg_ParseTuple(args, "ssO!O!O!O", &op, &text, &PyList_Type, &names, &PyList_Type, &tensors, &PyList_Type,
                          &numbers, &result))
        return nullptr;
    return guarded([&]() -> PyObject* {
        OpScope scope(kept(op));
        std::vector<std::string> inputs;
        for (PyObject* o : Items(names)) inputs.emplace_back(text_of(o));
        std::vector<Tensor> in;
        for (PyObject* o : Items(tensors)) in.push_back(expect_tensor(o, "an input"));
        check(in.size() == inputs.size() && in.size() <= 7, "expected as many tensors as names, at most 7, got ",
              in.size(), " and ", inputs.size());
        gpu::Reals reals;
        for (PyObject* o : Items(numbers)) {
            const char* name;
            double number;
            if (!PyArg_ParseTuple(o, "sd", &name, &number)) throw PythonError{};
            reals.emplace_back(name, number);
        }
        Tensor out = expect_tensor(result, "the result");
        DType compute = compute_dtype(out.dtype());
        Expression tree = parse_formula(text);
        rename(tree, inputs, reals, is_floating(compute));
        std::optional<std::string> expression = gpu::expression(tree, compute);
        bool done = expression && out.device().type != DeviceType::CPU &&
                    gpu::run_elements({{out, "(T)(" + *expression + ")", compute}}, compute, in, reals);
        return PyBool_FromLong(done);
    });
}

// The texts of errors, interned like names.
const std::vector<gpu::Fault>& kept_faults(PyObject* texts) {
    std::vector<std::string> all;
    for (PyObject* o : Items(texts)) all.emplace_back(text_of(o));
    static Mutex lock;
    static auto* known = new std::map<std::vector<std::string>, std::vector<gpu::Fault>>;
    std::lock_guard guard(lock);
    auto [it, fresh] = known->try_emplace(all);
    if (fresh) {
        for (const std::string& text : it->first) it->second.push_back({ErrorKind::Index, text.c_str()});
    }
    return it->second;
}

// accelerator_work(op, body, functions, [(name, tensor), ...], [(name, int or float), ...], compute dtype, items, [text
// of an error, ...]) runs a kernel; returns "", or the compiler's message if it cannot be built. Tensors are
// contiguous; the shape of `x` is g.x_shape.
PyObject* work(PyObject*, PyObject* args) {
    const char *op, *body, *text;
    PyObject *tensors, *numbers, *dtype, *faults;
    long long items;
    if (!PyArg_ParseTuple(args, "sssO!O!OLO!", &op, &body, &text, &PyList_Type, &tensors, &PyList_Type, &numbers,
                          &dtype, &items, &PyList_Type, &faults))
        return nullptr;
    return guarded([&]() -> PyObject* {
        OpScope scope(kept(op));
        std::vector<std::pair<std::string, Tensor>> all;
        for (PyObject* o : Items(tensors)) {
            const char* name;
            PyObject* tensor;
            if (!PyArg_ParseTuple(o, "sO", &name, &tensor)) throw PythonError{};
            all.emplace_back(name, expect_tensor(tensor, "a kernel's tensor"));
        }
        check(!all.empty() && all.size() <= gpu::most_pointers, "expected 1 to ", gpu::most_pointers, " tensors, got ",
              all.size());
        Device device = all[0].second.device();
        gpu::Work one(device);
        const std::vector<gpu::Fault>& errors = kept_faults(faults);
        one.compute(compute_dtype(dtype_of(dtype)))
            .on_fail(errors.data(), static_cast<int>(errors.size()), 0, 0)
            .functions(text);
        for (const auto& [name, t] : all) {
            check(t.device() == device && gpu::stored_type(t.dtype()), "the tensor '", name, "' is ", t.dtype(),
                  " on '", to_string(t.device()), "'; expected a real dtype on '", to_string(device), "'");
            one.tensor(name, t);
            std::string shape = name + "_shape";
            if (std::string_view(body).find(shape) != std::string_view::npos)
                one.numbers(shape, t.shape().begin(), t.dim());
        }
        for (PyObject* o : Items(numbers)) {
            const char* name;
            PyObject* value;
            if (!PyArg_ParseTuple(o, "sO", &name, &value)) throw PythonError{};
            if (PyFloat_Check(value)) {
                one.real(name, PyFloat_AsDouble(value));
                continue;
            }
            long long whole = PyLong_AsLongLong(value);
            if (whole == -1 && PyErr_Occurred()) throw PythonError{};
            one.number(name, whole);
        }
        check(items >= 0, "expected a number of items that is not negative, got ", items);
        bool done;
        {
            Unlocked unlocked;
            done = one.run(body, items);
        }
        return ok(PyUnicode_DecodeUTF8(done ? "" : one.why().c_str(),
                                       done ? 0 : static_cast<Py_ssize_t>(one.why().size()), "replace"));
    });
}

PyMethodDef functions[] = {{"accelerator_sources", sources, METH_NOARGS, nullptr},
                           {"accelerator_formula", formula, METH_VARARGS, nullptr},
                           {"accelerator_work", work, METH_VARARGS, nullptr},
                           {}};

}  // namespace

void add_kernels(PyObject* module) { ok(PyModule_AddFunctions(module, functions)); }

}  // namespace fb::py
