// Streams, events and counts of accelerators for flambeau.accelerator.
#include "backend/gpu/driver.h"
#include "bindings/convert.h"
#include "bindings/expressions.h"
#include "bindings/python.h"

namespace fb::py {
namespace {

Device device_arg(PyObject* o) {
    if (!Py_IS_TYPE(o, device_type)) fail_type("expected a device, got ", Py_TYPE(o)->tp_name);
    return canonical(device_of(o));
}

// Waits in slices, so that Ctrl-C ends it.
void wait_interruptibly(Device device, const gpu::Mark& mark) {
    gpu::Driver& driver = gpu::driver(device);
    while (!driver.reached(mark)) {
        {
            Unlocked unlocked;
            driver.wait(mark, 50);
        }
        if (PyErr_CheckSignals() < 0) throw PythonError{};
    }
}

// accelerator_synchronize(device, stream): all streams when that is negative.
PyObject* synchronize(PyObject*, PyObject* args) {
    PyObject* device;
    int stream;
    if (!PyArg_ParseTuple(args, "Oi", &device, &stream)) return nullptr;
    return guarded([&]() -> PyObject* {
        Device d = device_arg(device);
        gpu::Driver& driver = gpu::driver(d);
        check(stream < driver.streams(), "there is no stream ", stream);
        for (int i = stream < 0 ? 0 : stream; i < (stream < 0 ? driver.streams() : stream + 1); i++)
            wait_interruptibly(d, driver.mark(i));
        Py_RETURN_NONE;
    });
}

PyObject* create_stream(PyObject*, PyObject* device) {
    return guarded([&] { return PyLong_FromLong(gpu::driver(device_arg(device)).create_stream()); });
}
PyObject* current_stream(PyObject*, PyObject* device) {
    return guarded([&] { return PyLong_FromLong(gpu::current_stream(device_arg(device))); });
}
PyObject* set_stream(PyObject*, PyObject* args) {
    PyObject* device;
    int stream;
    if (!PyArg_ParseTuple(args, "Oi", &device, &stream)) return nullptr;
    return guarded([&]() -> PyObject* {
        Device d = device_arg(device);
        check(stream >= 0 && stream < gpu::driver(d).streams(), "there is no stream ", stream);
        gpu::set_current_stream(d, stream);
        Py_RETURN_NONE;
    });
}

// A mark is (stream, number).
gpu::Mark mark_of(Device d, int stream, unsigned long long number) {
    check(stream >= 0 && stream < gpu::driver(d).streams(), "there is no stream ", stream);
    return {stream, number};
}
PyObject* mark(PyObject*, PyObject* args) {
    PyObject* device;
    int stream;
    if (!PyArg_ParseTuple(args, "Oi", &device, &stream)) return nullptr;
    return guarded([&] {
        Device d = device_arg(device);
        mark_of(d, stream, 0);
        gpu::Mark m = gpu::driver(d).mark(stream);
        return Py_BuildValue("iK", m.stream, static_cast<unsigned long long>(m.number));
    });
}
PyObject* reached(PyObject*, PyObject* args) {
    PyObject* device;
    int stream;
    unsigned long long number;
    if (!PyArg_ParseTuple(args, "OiK", &device, &stream, &number)) return nullptr;
    return guarded([&] {
        Device d = device_arg(device);
        return PyBool_FromLong(gpu::driver(d).reached(mark_of(d, stream, number)));
    });
}
PyObject* wait_mark(PyObject*, PyObject* args) {
    PyObject* device;
    int stream;
    unsigned long long number;
    if (!PyArg_ParseTuple(args, "OiK", &device, &stream, &number)) return nullptr;
    return guarded([&]() -> PyObject* {
        Device d = device_arg(device);
        wait_interruptibly(d, mark_of(d, stream, number));
        Py_RETURN_NONE;
    });
}
// accelerator_wait_in_stream(device, waiting stream, stream, number)
PyObject* wait_in_stream(PyObject*, PyObject* args) {
    PyObject* device;
    int waiting, stream;
    unsigned long long number;
    if (!PyArg_ParseTuple(args, "OiiK", &device, &waiting, &stream, &number)) return nullptr;
    return guarded([&]() -> PyObject* {
        Device d = device_arg(device);
        mark_of(d, waiting, 0);
        gpu::driver(d).wait_in_stream(waiting, mark_of(d, stream, number));
        Py_RETURN_NONE;
    });
}

// accelerator_clock(device, stream): a capsule that gets the time when the stream comes by.
constexpr const char* clock_name = "flambeau.accelerator.clock";
using Clock = std::shared_ptr<double>;
PyObject* start_clock(PyObject*, PyObject* args) {
    PyObject* device;
    int stream;
    if (!PyArg_ParseTuple(args, "Oi", &device, &stream)) return nullptr;
    return guarded([&]() -> PyObject* {
        Device d = device_arg(device);
        mark_of(d, stream, 0);
        auto* clock = new Clock(std::make_shared<double>(-1));
        gpu::driver(d).mark_time(stream, *clock);
        return ok(PyCapsule_New(clock, clock_name, [](PyObject* capsule) {
            delete static_cast<Clock*>(PyCapsule_GetPointer(capsule, clock_name));
        }));
    });
}
PyObject* read_clock(PyObject*, PyObject* capsule) {
    return guarded([&]() -> PyObject* {
        auto* clock = static_cast<Clock*>(PyCapsule_GetPointer(capsule, clock_name));
        if (!clock) throw PythonError{};
        return PyFloat_FromDouble(**clock);
    });
}

PyObject* stats(PyObject*, PyObject* device) {
    return guarded([&] {
        CachingAllocator& a = gpu::driver(device_arg(device)).allocator();
        MemoryStats s = a.stats();
        return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "allocated", s.allocated,
                             "allocated_peak", s.allocated_peak, "active", s.active, "active_peak", s.active_peak,
                             "reserved", s.reserved, "reserved_peak", s.reserved_peak, "allocations", s.allocations,
                             "frees", s.frees, "segments", s.segments, "maps", s.maps, "retries", s.retries, "total",
                             static_cast<long long>(a.device_total()));
    });
}
PyObject* reset_peaks(PyObject*, PyObject* device) {
    return guarded([&]() -> PyObject* {
        gpu::driver(device_arg(device)).allocator().reset_peak();
        Py_RETURN_NONE;
    });
}
PyObject* release_cache(PyObject*, PyObject* device) {
    return guarded([&] {
        Device d = device_arg(device);
        gpu::synchronize(d);  // not with the allocator's lock
        return PyLong_FromSize_t(gpu::driver(d).allocator().empty_cache());
    });
}

PyObject* coverage(PyObject*, PyObject*) {
    return guarded([]() -> PyObject* {
        Owned all(ok(PyDict_New()));
        for (const gpu::Count& count : gpu::coverage()) {
            Owned pair(ok(
                Py_BuildValue("LL", static_cast<long long>(count.kernels), static_cast<long long>(count.fallbacks))));
            ok(PyDict_SetItemString(all.get(), count.op.c_str(), pair.get()));
        }
        return all.release();
    });
}
PyObject* reset_coverage(PyObject*, PyObject*) {
    gpu::reset_coverage();
    Py_RETURN_NONE;
}
PyObject* is_strict(PyObject*, PyObject*) { return PyBool_FromLong(gpu::is_strict()); }
PyObject* set_strict(PyObject*, PyObject* on) {
    return guarded([&]() -> PyObject* {
        gpu::set_strict(truth(on));
        Py_RETURN_NONE;
    });
}
PyObject* set_uses_kernels(PyObject*, PyObject* on) {
    return guarded([&]() -> PyObject* {
        gpu::set_uses_kernels(truth(on));
        Py_RETURN_NONE;
    });
}
PyObject* why(PyObject*, PyObject* device) {
    return guarded([&] { return PyUnicode_FromString(gpu::driver(device_arg(device)).why().c_str()); });
}

void warn_of_fallback(const char* op, Device device) {
    Lock lock;
    std::ostringstream text;
    text << "'" << op << "' has no kernel on device '" << to_string(device)
         << "' and runs on the CPU, with copies there and back; accelerator.coverage() lists all such ops";
    if (PyErr_WarnEx(PyExc_UserWarning, text.str().c_str(), 1) < 0) throw PythonError{};
}

PyMethodDef functions[] = {{"accelerator_synchronize", synchronize, METH_VARARGS, nullptr},
                           {"accelerator_create_stream", create_stream, METH_O, nullptr},
                           {"accelerator_current_stream", current_stream, METH_O, nullptr},
                           {"accelerator_set_stream", set_stream, METH_VARARGS, nullptr},
                           {"accelerator_mark", mark, METH_VARARGS, nullptr},
                           {"accelerator_reached", reached, METH_VARARGS, nullptr},
                           {"accelerator_wait", wait_mark, METH_VARARGS, nullptr},
                           {"accelerator_wait_in_stream", wait_in_stream, METH_VARARGS, nullptr},
                           {"accelerator_start_clock", start_clock, METH_VARARGS, nullptr},
                           {"accelerator_read_clock", read_clock, METH_O, nullptr},
                           {"accelerator_memory", stats, METH_O, nullptr},
                           {"accelerator_reset_peaks", reset_peaks, METH_O, nullptr},
                           {"accelerator_empty_cache", release_cache, METH_O, nullptr},
                           {"accelerator_coverage", coverage, METH_NOARGS, nullptr},
                           {"accelerator_reset_coverage", reset_coverage, METH_NOARGS, nullptr},
                           {"accelerator_is_strict", is_strict, METH_NOARGS, nullptr},
                           {"set_accelerator_strict", set_strict, METH_O, nullptr},
                           {"set_accelerator_kernels", set_uses_kernels, METH_O, nullptr},
                           {"accelerator_why", why, METH_O, nullptr},
                           {}};

}  // namespace

void add_accelerator(PyObject* module) {
    ok(PyModule_AddFunctions(module, functions));
    gpu::report_fallback = warn_of_fallback;
}

}  // namespace fb::py
