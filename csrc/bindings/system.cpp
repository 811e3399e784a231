// Threads, memory and defaults as Python functions.
#include <sys/utsname.h>

#include "base/cpu_level.h"
#include "base/parallel.h"
#include "base/pool.h"
#include "bindings/convert.h"
#include "bindings/python.h"
#include "memory/allocator.h"
#include "memory/exact.h"

namespace fb {
extern Tensor (*pin_result)(const Tensor&);  // ops/table/dispatch.cpp
}

namespace fb::py {
namespace {

PyObject* get_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(num_threads()); }
PyObject* set_num_threads_(PyObject*, PyObject* o) {
    return guarded([&]() -> PyObject* {
        OpScope scope("set_num_threads");
        int64_t n;
        if (!PyLong_Check(o) || !int_of(o, n)) fail_type("expected an int, got ", Py_TYPE(o)->tp_name);
        check(n >= 1 && n <= 1024, "the number of threads must be from 1 to 1024, got ", n);
        set_num_threads(static_cast<int>(n));
        Py_RETURN_NONE;
    });
}
PyObject* threads_reason(PyObject*, PyObject*) { return PyUnicode_FromString(num_threads_reason().c_str()); }

PyObject* cpu_level_(PyObject*, PyObject*) { return PyUnicode_FromString(name(cpu_level())); }
// For tests: selects among kernels that exist for several processor levels.
PyObject* set_cpu_level_(PyObject*, PyObject* o) {
    return guarded([&]() -> PyObject* {
        OpScope scope("set_cpu_level");
        if (!PyUnicode_Check(o)) fail_type("expected a str, got ", Py_TYPE(o)->tp_name);
        const char* text = PyUnicode_AsUTF8(o);
        if (!text) throw PythonError{};
        set_cpu_level(level_named(text));
        Py_RETURN_NONE;
    });
}

PyObject* memory_stats(PyObject*, PyObject*) {
    MemoryStats s = host_allocator().stats();
    return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "allocated_bytes",
                         s.allocated, "allocated_bytes_peak", s.allocated_peak, "active_bytes", s.active,
                         "active_bytes_peak", s.active_peak, "reserved_bytes", s.reserved, "reserved_bytes_peak",
                         s.reserved_peak, "cached_bytes", s.cached, "segments", s.segments, "segments_peak",
                         s.segments_peak, "blocks", s.blocks, "blocks_peak", s.blocks_peak, "allocations",
                         s.allocations, "frees", s.frees, "system_allocations", s.maps, "system_frees", s.unmaps,
                         "retries", s.retries, "out_of_memory", s.ooms, "cap_bytes", s.cap);
}
PyObject* memory_summary(PyObject*, PyObject*) {
    return guarded([&] {
        CachingAllocator& a = host_allocator();
        return PyUnicode_FromString(memory_table(a.stats(), a.device_name(), a.device_total()).c_str());
    });
}
PyObject* empty_cache(PyObject*, PyObject*) { return PyLong_FromSize_t(host_allocator().empty_cache()); }
PyObject* reset_peak(PyObject*, PyObject*) {
    host_allocator().reset_peak();
    Py_RETURN_NONE;
}
PyObject* set_memory_cap(PyObject*, PyObject* o) {
    return guarded([&]() -> PyObject* {
        OpScope scope("set_memory_cap");
        int64_t bytes = 0;
        if (o != Py_None && !int_of(o, bytes))
            fail_type("expected a number of bytes or None, got ", Py_TYPE(o)->tp_name);
        check(bytes >= 0, "the cap must not be negative, got ", bytes);
        host_allocator().set_cap(static_cast<size_t>(bytes));
        Py_RETURN_NONE;
    });
}

PyObject* get_default_dtype(PyObject*, PyObject*) { return wrap(default_dtype()); }
PyObject* set_default_dtype_(PyObject*, PyObject* o) {
    return guarded([&]() -> PyObject* {
        OpScope scope("set_default_dtype");
        if (!is_dtype(o)) fail_type("expected a dtype, got ", Py_TYPE(o)->tp_name);
        set_default_dtype(dtype_of(o));
        Py_RETURN_NONE;
    });
}
PyObject* get_default_device_(PyObject*, PyObject*) { return wrap(default_device()); }
PyObject* set_default_device_(PyObject*, PyObject* o) {
    return guarded([&]() -> PyObject* {
        OpScope scope("set_default_device");
        Param param;
        param.type = ArgType::Device;
        param.optional = true;
        Value value;
        if (!convert_arg(o, param, value)) fail_type("expected a device, str or None, got ", Py_TYPE(o)->tp_name);
        set_default_device(std::holds_alternative<Device>(value) ? std::get<Device>(value) : Device{});
        Py_RETURN_NONE;
    });
}
PyObject* promote_types(PyObject*, PyObject* args) {
    PyObject *x, *y;
    if (!PyArg_ParseTuple(args, "O!O!:promote_types", dtype_type, &x, dtype_type, &y)) return nullptr;
    return guarded([&] { return wrap(promote(dtype_of(x), dtype_of(y))); });
}
PyObject* can_cast_(PyObject*, PyObject* args) {
    PyObject *x, *y;
    if (!PyArg_ParseTuple(args, "O!O!:can_cast", dtype_type, &x, dtype_type, &y)) return nullptr;
    return PyBool_FromLong(can_cast(dtype_of(x), dtype_of(y)));
}

PyObject* config(PyObject*, PyObject*) {
    std::string features;
    // __builtin_cpu_supports takes literals only, hence the macro.
#define FEATURE(name) (__builtin_cpu_supports(name) ? " " name : "")
    features = std::string(FEATURE("sse4.2")) + FEATURE("avx") + FEATURE("avx2") + FEATURE("fma") + FEATURE("f16c") +
               FEATURE("avx512f") + FEATURE("avx512bw") + FEATURE("avx512vl") + FEATURE("avx512bf16");
#undef FEATURE
    return Py_BuildValue("{s:s,s:s,s:s,s:s}", "compiled_for", FLAMBEAU_ARCH, "compiler", "g++ " __VERSION__,
                         "cpu_features", features.c_str() + !features.empty(), "sanitizers", exact_blocks_name());
}

#ifdef FLAMBEAU_THREAD_SANITIZE
// A deliberate bug: two threads write one variable without a lock.
PyObject* deliberate_race(PyObject*, PyObject*) {
    int counter = 0;
    auto chunk = [](void* context, int64_t) {
        volatile int* counter = static_cast<volatile int*>(context);
        for (int i = 0; i < 1000; i++) *counter = *counter + 1;
    };
    pool::run_chunks(2, 2, chunk, &counter);
    return PyLong_FromLong(counter);
}
#endif

// Deliberate bugs, so that a job whose checks are silently off cannot pass. Only where blocks are exact.
PyObject* deliberate_overrun(PyObject*, PyObject*) {
    Tensor t = empty({3}, DType::F32, cpu_device);
    volatile float* p = t.data<float>();
    p[3] = 1;
    Py_RETURN_NONE;
}
PyObject* deliberate_late_read(PyObject*, PyObject*) {
    Tensor t = empty({3}, DType::F32, cpu_device);
    volatile float* p = t.data<float>();
    t = Tensor();
    return PyFloat_FromDouble(p[0]);
}
PyMethodDef deliberate[] = {{"deliberate_overrun", deliberate_overrun, METH_NOARGS,
                             "Writes behind a tensor's memory; the process must be stopped."},
                            {"deliberate_late_read", deliberate_late_read, METH_NOARGS,
                             "Reads the memory of a tensor that is gone; the process must be stopped."},
                            {}};

PyMethodDef functions[] = {
    {"get_num_threads", get_num_threads, METH_NOARGS,
     "get_num_threads()\n\nHow many threads an op may use.\n\nExample:\n    >>> fb.get_num_threads() >= 1\n    True\n"},
    {"set_num_threads", set_num_threads_, METH_O,
     "set_num_threads(n)\n\nSets how many threads an op may use; results do not depend on it.\n\nExample:\n    >>> n = "
     "fb.get_num_threads()\n    >>> fb.set_num_threads(1)\n    >>> fb.set_num_threads(n)\n"},
    {"threads_reason", threads_reason, METH_NOARGS, "threads_reason(): why the thread count is what it is."},
    {"cpu_level", cpu_level_, METH_NOARGS, "cpu_level(): which instructions kernels use at most."},
    {"set_cpu_level", set_cpu_level_, METH_O, "set_cpu_level(name): lowers them, or raises them again."},
    {"memory_stats", memory_stats, METH_NOARGS, "memory_stats(): counters of the caching allocator."},
    {"memory_summary", memory_summary, METH_NOARGS, "memory_summary(): the counters as a table."},
    {"empty_cache", empty_cache, METH_NOARGS,
     "empty_cache(): returns cached memory to the system, and the number of bytes freed."},
    {"reset_peak", reset_peak, METH_NOARGS, "reset_peak(): peaks start again from the present values."},
    {"set_memory_cap", set_memory_cap, METH_O,
     "set_memory_cap(bytes): at most this much is reserved; None or 0 takes the cap away."},
    {"get_default_dtype", get_default_dtype, METH_NOARGS,
     "get_default_dtype()\n\nThe dtype of new floating point tensors.\n\nExample:\n    >>> fb.get_default_dtype()\n    "
     "flambeau.float32\n"},
    {"set_default_dtype", set_default_dtype_, METH_O,
     "set_default_dtype(d)\n\nSets the dtype of new floating point tensors.\n\nExample:\n    >>> "
     "fb.set_default_dtype(fb.float32)\n"},
    {"get_default_device", get_default_device_, METH_NOARGS,
     "get_default_device()\n\nWhere new tensors go.\n\nExample:\n    >>> fb.get_default_device()\n    "
     "device(type='cpu')\n"},
    {"set_default_device", set_default_device_, METH_O,
     "set_default_device(device)\n\nSets where new tensors go; None is the CPU.\n\nExample:\n    >>> "
     "fb.set_default_device('cpu')\n"},
    {"promote_types", promote_types, METH_VARARGS,
     "promote_types(type1, type2)\n\nThe dtype that holds the values of both.\n\nExample:\n    >>> "
     "fb.promote_types(fb.int32, fb.float32)\n    flambeau.float32\n"},
    {"can_cast", can_cast_, METH_VARARGS,
     "can_cast(from_, to)\n\nWhether values of one dtype may be stored in another without leaving their "
     "kind.\n\nExample:\n    >>> fb.can_cast(fb.double, fb.float)\n    True\n"},
    {"config", config, METH_NOARGS, "config(): how the core was compiled."},
#ifdef FLAMBEAU_THREAD_SANITIZE
    {"deliberate_race", deliberate_race, METH_NOARGS,
     "Two threads write one variable without a lock; the sanitizer must report it."},
#endif
    {}};

}  // namespace

// pin_memory=True of a factory: flambeau._tensor.pinning.pin().
static Tensor pin(const Tensor& t) {
    Lock lock;
    Owned module(ok(in_python<PyImport_ImportModule>("flambeau._tensor.pinning")));
    Owned function(ok(in_python<PyObject_GetAttrString>(module.get(), "pin")));
    Owned given(ok(wrap(t)));
    Owned made(ok(in_python<PyObject_CallOneArg>(function.get(), given.get())));
    return tensor_of(made.get());
}

void add_system(PyObject* module) {
    pin_result = pin;
    cpu_level();  // an invalid FLAMBEAU_CPU_LEVEL is reported at import
    ok(PyModule_AddFunctions(module, functions));
    if (exact_blocks()) ok(PyModule_AddFunctions(module, deliberate));
}

}  // namespace fb::py
