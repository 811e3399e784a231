// A Python layer between ops and their kernels: see KernelHook.
#include "bindings/convert.h"
#include "bindings/graph.h"
#include "bindings/items.h"
#include "ops/table/common.h"
#include "ops/table/dispatch.h"

namespace fb::py {
namespace {

// A new tensor on the same memory, which can be given another history.
Tensor fresh(PyObject* o) {
    Tensor t = settled(o);
    return make_view(t.storage_ref(), t.dtype(), t.shape(), t.strides(), t.offset());
}

class PythonKernelHook final : public KernelHook {
  public:
    explicit PythonKernelHook(PyObject* f) : function_(f) {}

    bool replace(const OpOverload& op, const Args& a, Value& result) override {
        Lock lock;
        Owned answer = call(op, a, Py_None);
        if (answer.get() == Py_None) return false;
        if (is_tensor(answer.get())) {
            result = fresh(answer.get());
            return true;
        }
        std::vector<Tensor> list;
        for (PyObject* item : Items(answer.get())) list.push_back(is_tensor(item) ? fresh(item) : Tensor());
        result = std::move(list);
        return true;
    }
    void computed(const OpOverload& op, const Args& a, const Value& result) override {
        if (!std::holds_alternative<Tensor>(result) && !std::holds_alternative<std::vector<Tensor>>(result)) return;
        Lock lock;
        Owned value(ok(PyTuple_New(0)));
        auto detached = [](const Tensor& t) {
            if (t) settle(t);
            return t ? wrap(make_view(t.storage_ref(), t.dtype(), t.shape(), t.strides(), t.offset()))
                     : Py_NewRef(Py_None);
        };
        if (const Tensor* t = std::get_if<Tensor>(&result)) {
            value = Owned(ok(detached(*t)));
        } else {
            const auto& list = std::get<std::vector<Tensor>>(result);
            value = Owned(ok(PyTuple_New(static_cast<Py_ssize_t>(list.size()))));
            for (size_t i = 0; i < list.size(); i++)
                PyTuple_SET_ITEM(value.get(), static_cast<Py_ssize_t>(i), ok(detached(list[i])));
        }
        call(op, a, value.get());
    }
    PyObject* function() const { return function_.get(); }

  private:
    // Calls function(op name, arguments, result or None), with the hook disabled inside.
    Owned call(const OpOverload& op, const Args& a, PyObject* result) {
        struct Quiet {
            KernelHook* previous = std::exchange(kernel_hook, nullptr);
            bool flag = std::exchange(grad_modes.handed_over, false);
            ~Quiet() {
                kernel_hook = previous;
                grad_modes.handed_over = flag;
            }
        } quiet;
        Owned arguments(ok(PyDict_New()));
        for (int i = 0; i < a.count; i++) {
            const Value& v = a.values[i];
            const Tensor* t = std::get_if<Tensor>(&v);
            Owned value(t && *t && t->is_wrapped_number() ? wrap(fb::item(*t))
                        : std::holds_alternative<Dims>(v) ? wrap_tuple(std::get<Dims>(v))
                                                          : wrap_value(v));
            ok(PyDict_SetItemString(arguments.get(), op.signature.params[static_cast<size_t>(i)].name.c_str(),
                                    value.get()));
        }
        return Owned(ok(
            in_python<PyObject_CallFunction>(function_.get(), "sOO", op.entry->name.c_str(), arguments.get(), result)));
    }

    Kept function_;
};

thread_local std::unique_ptr<PythonKernelHook> current;

// set_kernel_hook(function or None): returns the previous one.
PyObject* set_kernel_hook(PyObject*, PyObject* f) {
    return guarded([&]() -> PyObject* {
        Owned previous(Py_NewRef(current ? current->function() : Py_None));
        if (f == Py_None) current.reset();
        else current = std::make_unique<PythonKernelHook>(f);
        kernel_hook = current.get();
        grad_modes.handed_over = current != nullptr;
        return previous.release();
    });
}

PyMethodDef functions[] = {{"set_kernel_hook", set_kernel_hook, METH_O, nullptr}, {}};

}  // namespace

void add_kernel_hook(PyObject* module) { ok(PyModule_AddFunctions(module, functions)); }

}  // namespace fb::py
