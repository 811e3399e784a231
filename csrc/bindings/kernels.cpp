// Kernels and formulas of users, for flambeau.accelerator, and the text of all programs that were built.
#include "backend/gpu/elements.h"
#include "bindings/convert.h"
#include "bindings/expressions.h"
#include "bindings/items.h"
#include "device/loop.h"

namespace fb::py {
namespace {

// accelerator_sources() -> the programs that were built so far, without the head of a dialect.
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

// The inputs' names become those that run_elements knows, other names numbers of the call.
void rename(Expression& e, const std::vector<std::string>& inputs, const gpu::Reals& numbers) {
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
        fail_value("formula: the name '", e.name, "' is neither an input nor a number");
    }
    for (Expression& part : e.arguments) rename(part, inputs, numbers);
}

// accelerator_formula(text, [name, ...], [tensor, ...], [(number, value), ...], out) -> whether there is a kernel for
// it. Tensors and `out` are on one device, and `out` has the dtype to compute in.
PyObject* formula(PyObject*, PyObject* args) {
    const char* text;
    PyObject *names, *tensors, *numbers, *result;
    if (!PyArg_ParseTuple(args, "sO!O!O!O", &text, &PyList_Type, &names, &PyList_Type, &tensors, &PyList_Type, &numbers,
                          &result))
        return nullptr;
    return guarded([&]() -> PyObject* {
        OpScope scope("formula");
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
        rename(tree, inputs, reals);
        std::optional<std::string> expression = gpu::expression(tree, compute);
        bool done = expression && out.device().type != DeviceType::CPU &&
                    gpu::run_elements({{out, "(T)(" + *expression + ")", compute}}, compute, in, reals);
        return PyBool_FromLong(done);
    });
}

// accelerator_work(body, text, [(name, tensor), ...], [(name, int or float), ...], compute dtype, items) runs a kernel;
// an error with the compiler's words where it cannot be built.
PyObject* work(PyObject*, PyObject* args) {
    const char *body, *text;
    PyObject *tensors, *numbers, *dtype;
    long long items;
    if (!PyArg_ParseTuple(args, "ssO!O!OL", &body, &text, &PyList_Type, &tensors, &PyList_Type, &numbers, &dtype,
                          &items))
        return nullptr;
    return guarded([&]() -> PyObject* {
        OpScope scope("kernel");
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
        check(device.type != DeviceType::CPU, "expected tensors on an accelerator, got one on 'cpu'");
        static constexpr gpu::Fault fault{ErrorKind::Index, "the kernel reported an error at index {index}"};
        gpu::Work one(device);
        one.compute(dtype_of(dtype)).on_fail(fault, 0, 0).functions(text);
        for (const auto& [name, t] : all) {
            check(t.device() == device, "expected all tensors on '", to_string(device), "', got one on '",
                  to_string(t.device()), "'");
            check(gpu::stored_type(t.dtype()), "kernels do not know dtype ", t.dtype());
            one.tensor(name, t);
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
        if (!one.run(body, items)) fail_state("the kernel cannot be built: ", gpu::driver(device).why());
        Py_RETURN_NONE;
    });
}

PyMethodDef functions[] = {{"accelerator_sources", sources, METH_NOARGS, nullptr},
                           {"accelerator_formula", formula, METH_VARARGS, nullptr},
                           {"accelerator_work", work, METH_VARARGS, nullptr},
                           {}};

}  // namespace

void add_kernels(PyObject* module) { ok(PyModule_AddFunctions(module, functions)); }

}  // namespace fb::py
