#include "bindings/autocast.h"

#include <algorithm>

#include "autograd/node.h"
#include "bindings/items.h"
#include "ops/table/var.h"

namespace fb::py {

thread_local Autocast autocast;

namespace {

// The cast of a parameter, shared by all ops of a block. Holds the source, so that its address cannot be reused.
struct Kept {
    Tensor source, cast;
    uint64_t version;
};
thread_local std::vector<Kept> kept;
constexpr size_t most_kept = 4096;  // a block that never ends may cast more: then the cache is cleared

const std::optional<DType>& low_of(const Tensor& t) { return autocast.low[static_cast<size_t>(t.device().type)]; }
bool eligible(const Tensor& t) {
    return t && !t.is_wrapped_number() && low_of(t) &&
           (t.dtype() == DType::F32 || t.dtype() == DType::BF16 || t.dtype() == DType::F16);
}

Tensor cast_once(const Tensor& t, DType to) {
    bool keep = autocast.cache && grad_enabled() && to == low_of(t) && t.dtype() == DType::F32 && requires_grad(t) &&
                is_leaf(t);
    if (!keep) return cast(Var(t), to).tensor;
    uint64_t version = t.storage().version();
    for (Kept& k : kept) {
        if (!k.source.is_same(t)) continue;
        if (k.version != version || k.cast.dtype() != to) k = {t, cast(Var(t), to).tensor, version};
        return k.cast;
    }
    if (kept.size() >= most_kept) kept.clear();
    kept.push_back({t, cast(Var(t), to).tensor, version});
    return kept.back().cast;
}

template <class F>
void each(Args& a, F f) {
    for (int i = 0; i < a.count; i++) {
        if (auto* t = std::get_if<Tensor>(&a.values[i])) f(i, *t);
        else if (auto* list = std::get_if<std::vector<Tensor>>(&a.values[i]))
            for (Tensor& one : *list) f(i, one);
    }
}

}  // namespace

void cast_arguments(Cast how, Args& a, const std::function<void(int)>& changed) {
    DType to = DType::F32;
    if (how == Cast::Promote) {
        bool first = true;
        each(a, [&](int, Tensor& t) {
            if (!eligible(t)) return;
            to = first || to == t.dtype() ? t.dtype() : DType::F32;
            first = false;
        });
    }
    each(a, [&](int i, Tensor& t) {
        if (!eligible(t)) return;
        DType wanted = how == Cast::Low ? *low_of(t) : to;
        if (t.dtype() == wanted) return;
        t = cast_once(t, wanted);
        changed(i);
    });
}

namespace {

// set_autocast([(device, dtype), ...], cache): the device types for which it is on.
PyObject* set_autocast(PyObject*, PyObject* args) {
    PyObject* kinds;
    int cache;
    if (!PyArg_ParseTuple(args, "O!p", &PyList_Type, &kinds, &cache)) return nullptr;
    return guarded([&]() -> PyObject* {
        std::optional<DType> low[device_types];
        for (PyObject* item : Items(kinds)) {
            PyObject *device, *dtype;
            if (!PyArg_ParseTuple(item, "OO", &device, &dtype)) throw PythonError{};
            if (!is_dtype(dtype)) fail_type("expected a dtype, got ", Py_TYPE(dtype)->tp_name);
            low[static_cast<size_t>(device_of(device).type)] = dtype_of(dtype);
        }
        std::copy(std::begin(low), std::end(low), autocast.low);
        autocast.on = std::any_of(std::begin(low), std::end(low), [](const auto& d) { return d.has_value(); });
        autocast.cache = cache != 0;
        Py_RETURN_NONE;
    });
}

PyObject* clear_autocast_cache(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        // Moved out first: dropping a tensor may run Python code.
        std::vector<Kept> gone = std::move(kept);
        kept.clear();
        gone.clear();
        Py_RETURN_NONE;
    });
}

// set_autocast_lists(low, float32, promote): names of ops; unknown names are skipped.
PyObject* set_autocast_lists(PyObject*, PyObject* args) {
    PyObject* lists[3];
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyList_Type, &lists[0], &PyList_Type, &lists[1], &PyList_Type, &lists[2]))
        return nullptr;
    return guarded([&]() -> PyObject* {
        const Cast casts[] = {Cast::Low, Cast::Float32, Cast::Promote};
        for (int k = 0; k < 3; k++) {
            for (PyObject* name : Items(lists[k])) set_cast(text_of(name), casts[k]);
        }
        Py_RETURN_NONE;
    });
}

PyMethodDef functions[] = {
    {"set_autocast", set_autocast, METH_VARARGS, "set_autocast([(device, dtype), ...], cache): for this thread."},
    {"clear_autocast_cache", clear_autocast_cache, METH_NOARGS, "Forgets the casts of parameters."},
    {"set_autocast_lists", set_autocast_lists, METH_VARARGS, "set_autocast_lists(low, float32, promote): op names."},
    {}};

}  // namespace

void add_autocast(PyObject* module) { ok(PyModule_AddFunctions(module, functions)); }

}  // namespace fb::py
