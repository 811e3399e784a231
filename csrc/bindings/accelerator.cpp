// Streams, events and counts of accelerators for flambeau.accelerator.
#include <chrono>
#include <thread>

#include "backend/gpu/cuda/cuda.h"
#include "backend/gpu/opencl/opencl.h"
#include "backend/gpu/work.h"
#include "bindings/autograd.h"
#include "bindings/convert.h"
#include "bindings/expressions.h"
#include "bindings/items.h"
#include "bindings/python.h"

namespace fb::py {
namespace {

Device device_arg(PyObject* o) {
    if (!Py_IS_TYPE(o, device_type)) fail_type("expected a device, got ", Py_TYPE(o)->tp_name);
    return canonical(device_of(o));
}

// Waits in slices, so that Ctrl-C interrupts it.
void wait_interruptibly(Device device, const gpu::Mark& mark) {
    gpu::Driver& driver = gpu::driver(device);
    while (!driver.reached(mark)) {
        {
            Unlocked unlocked;
            driver.wait(mark, 50);
        }
        if (PyErr_CheckSignals() < 0) throw PythonError{};
    }
    gpu::raise_faults(device);
}

// accelerator_synchronize(device, stream): all streams if it is negative.
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

// accelerator_clock(device, stream): a capsule that receives the time when the stream reaches this point.
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
        // The stream has reached the mark; the time may arrive a moment later.
        double when = -1;
        for (int i = 0; i < 1000; i++) {
            __atomic_load(clock->get(), &when, __ATOMIC_ACQUIRE);
            if (when >= 0) break;
            Unlocked unlocked;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return PyFloat_FromDouble(when);
    });
}

// accelerator_count(kind), and the OpenCL report.
PyObject* count(PyObject*, PyObject* device) {
    return guarded([&] { return PyLong_FromLong(gpu::device_count(device_arg(device).type)); });
}
PyObject* opencl_devices(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        Owned all(ok(PyList_New(0)));
        for (const auto& [d, index] : gpu::opencl_report()) {
            Owned one(ok(Py_BuildValue(
                "{s:i,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:L,s:L,s:L,s:L,s:L,s:N,s:N,s:N,s:s}", "index", index, "name",
                d.name.c_str(), "vendor", d.vendor.c_str(), "platform", d.platform_name.c_str(), "type", d.type.c_str(),
                "version", d.version.c_str(), "driver", d.driver.c_str(), "library", d.api->library.c_str(), "units",
                static_cast<long long>(d.units), "memory", static_cast<long long>(d.memory), "max_allocation",
                static_cast<long long>(d.max_alloc), "group", static_cast<long long>(d.group), "local_memory",
                static_cast<long long>(d.local), "float64", PyBool_FromLong(d.f64), "float16", PyBool_FromLong(d.f16),
                "atomic64", PyBool_FromLong(d.atomic64), "rejected", d.rejected.c_str())));
            if (PyList_Append(all.get(), one.get()) < 0) throw PythonError{};
        }
        return all.release();
    });
}
PyObject* cuda_devices(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        Owned all(ok(PyList_New(0)));
        for (const gpu::CudaReport& d : gpu::cuda_report()) {
            Owned one(ok(Py_BuildValue("{s:i,s:s,s:i,s:i,s:i,s:L,s:L,s:L,s:s}", "index", d.index, "name",
                                       d.name.c_str(), "major", d.major, "minor", d.minor, "multi_processor_count",
                                       d.multiprocessors, "total_memory", static_cast<long long>(d.memory),
                                       "shared_memory", static_cast<long long>(d.shared_memory), "threads",
                                       static_cast<long long>(d.threads), "rejected", d.rejected.c_str())));
            if (PyList_Append(all.get(), one.get()) < 0) throw PythonError{};
        }
        return all.release();
    });
}
PyObject* cuda_why(PyObject*, PyObject*) {
    return guarded([&] { return PyUnicode_FromString(gpu::cuda::api() ? "" : gpu::cuda::why().c_str()); });
}
// cuda_compile(source, architecture): compiles with NVRTC; raises an error with its log.
PyObject* cuda_compile(PyObject*, PyObject* args) {
    const char *source, *architecture;
    if (!PyArg_ParseTuple(args, "ss", &source, &architecture)) return nullptr;
    return guarded([&] {
        std::string log, made;
        {
            Unlocked unlocked;
            made = gpu::cuda::compile(source, architecture, log);
        }
        if (made.empty()) fail_state("NVRTC: ", log);
        return PyBytes_FromStringAndSize(made.data(), static_cast<Py_ssize_t>(made.size()));
    });
}
PyObject* cuda_compiler(PyObject*, PyObject*) {
    return guarded([&] { return PyUnicode_FromString(gpu::cuda::compiler_version().c_str()); });
}
// accelerator_assembled("cuda"): the source of every program built so far, in a dialect.
PyObject* sources(PyObject*, PyObject* dialect) {
    return guarded([&]() -> PyObject* {
        std::string name = text_of(dialect);
        check(name == "cuda" || name == "opencl" || name == "c++", "accelerator_assembled: got '", name,
              "', expected cuda, opencl or c++");
        gpu::Dialect which = name == "cuda"     ? gpu::Dialect::Cuda
                             : name == "opencl" ? gpu::Dialect::OpenCL
                                                : gpu::Dialect::Cpp;
        Owned all(ok(PyList_New(0)));
        for (const std::string& source : gpu::built_sources(which)) {
            Owned one(ok(PyUnicode_FromStringAndSize(source.data(), static_cast<Py_ssize_t>(source.size()))));
            if (PyList_Append(all.get(), one.get()) < 0) throw PythonError{};
        }
        return all.release();
    });
}
PyObject* opencl_why(PyObject*, PyObject*) {
    return guarded([&] { return PyUnicode_FromString(gpu::opencl_why_none().c_str()); });
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
        gpu::synchronize(d);  // without the allocator's lock
        return PyLong_FromSize_t(gpu::driver(d).allocator().empty_cache());
    });
}

// Kernels from text. accelerator_build(device, text, [(name, [pointer, ...], body, size, [text of a fault, ...]), ...])
// returns capsules; faults are IndexErrors.
constexpr const char* kernel_name = "flambeau.accelerator.kernel";
struct Built {  // lives as long as the process, as kernels do
    const gpu::Kernel* kernel = nullptr;
    size_t pointers = 0;
    std::vector<std::string> texts;
    std::vector<gpu::Fault> faults;
};
std::vector<std::string> strings(PyObject* list) {
    std::vector<std::string> all;
    for (PyObject* item : Items(list)) all.emplace_back(text_of(item));
    return all;
}
PyObject* build(PyObject*, PyObject* args) {
    PyObject *device, *kernels;
    const char* text;
    if (!PyArg_ParseTuple(args, "OsO!", &device, &text, &PyList_Type, &kernels)) return nullptr;
    return guarded([&]() -> PyObject* {
        gpu::Program program{text, {}};
        std::vector<Built*> made;
        for (PyObject* item : Items(kernels)) {
            PyObject *pointers, *faults;
            const char *name, *body;
            int size;
            if (!PyArg_ParseTuple(item, "sO!siO!", &name, &PyList_Type, &pointers, &body, &size, &PyList_Type, &faults))
                throw PythonError{};
            auto* built = made.emplace_back(new Built);
            program.kernels.push_back({name, strings(pointers), body, size});
            built->pointers = program.kernels.back().pointers.size();
            built->texts = strings(faults);
            for (const std::string& fault : built->texts) built->faults.push_back({ErrorKind::Index, fault.c_str()});
            check(built->pointers <= gpu::most_pointers && size > 0 && size <= 1024, "kernel: expected at most ",
                  gpu::most_pointers, " pointers and groups of 1 to 1024 items, got ", built->pointers, " and ", size);
        }
        gpu::Driver& driver = gpu::driver(device_arg(device));
        std::vector<const gpu::Kernel*> kernels_of = driver.build(program);
        if (kernels_of.empty()) fail_state("kernel: it cannot be built on the ", driver.name(), ": ", driver.why());
        Owned all(ok(PyList_New(0)));
        for (size_t i = 0; i < made.size(); i++) {
            made[i]->kernel = kernels_of[i];
            Owned capsule(ok(PyCapsule_New(made[i], kernel_name, nullptr)));
            if (PyList_Append(all.get(), capsule.get()) < 0) throw PythonError{};
        }
        return all.release();
    });
}
// accelerator_launch(device, kernel, tensors, params, items, a, b)
PyObject* launch(PyObject*, PyObject* args) {
    PyObject *device, *kernel, *tensors;
    const char* params;
    Py_ssize_t bytes;
    long long items, a, b;
    if (!PyArg_ParseTuple(args, "OOO!y#LLL", &device, &kernel, &PyList_Type, &tensors, &params, &bytes, &items, &a, &b))
        return nullptr;
    return guarded([&]() -> PyObject* {
        Device d = device_arg(device);
        auto* built = static_cast<Built*>(PyCapsule_GetPointer(kernel, kernel_name));
        if (!built) throw PythonError{};
        std::vector<char*> pointers;
        for (PyObject* item : Items(tensors)) {
            Tensor t = expect_tensor(item, "a kernel's pointer");
            check(t.device() == d, "kernel: got a tensor on '", to_string(t.device()), "', expected '", to_string(d),
                  "'");
            pointers.push_back(t.raw());
        }
        check(pointers.size() == built->pointers, "kernel: got ", pointers.size(), " tensors, expected ",
              built->pointers);
        gpu::Launch l;
        l.kernel = built->kernel;
        l.pointers = pointers.data();
        l.params = params;
        l.bytes = static_cast<size_t>(bytes);
        l.items = items;
        l.faults = built->faults.empty() ? nullptr : built->faults.data();
        l.a = a;
        l.b = b;
        OpScope scope("kernel");
        gpu::launch(d, l);
        Py_RETURN_NONE;
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
PyObject* bare_launch(PyObject*, PyObject* device) {
    return guarded([&] { return PyFloat_FromDouble(gpu::driver(device_arg(device)).time_bare_launch()); });
}
PyObject* driver_name(PyObject*, PyObject* device) {
    return guarded([&] { return PyUnicode_FromString(gpu::driver(device_arg(device)).name()); });
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
                           {"accelerator_count", count, METH_O, nullptr},
                           {"opencl_devices", opencl_devices, METH_NOARGS, nullptr},
                           {"cuda_devices", cuda_devices, METH_NOARGS, nullptr},
                           {"cuda_why", cuda_why, METH_NOARGS, nullptr},
                           {"cuda_compile", cuda_compile, METH_VARARGS, nullptr},
                           {"cuda_compiler", cuda_compiler, METH_NOARGS, nullptr},
                           {"accelerator_assembled", sources, METH_O, nullptr},
                           {"opencl_why", opencl_why, METH_NOARGS, nullptr},
                           {"accelerator_memory", stats, METH_O, nullptr},
                           {"accelerator_reset_peaks", reset_peaks, METH_O, nullptr},
                           {"accelerator_empty_cache", release_cache, METH_O, nullptr},
                           {"accelerator_build", build, METH_VARARGS, nullptr},
                           {"accelerator_launch", launch, METH_VARARGS, nullptr},
                           {"accelerator_coverage", coverage, METH_NOARGS, nullptr},
                           {"accelerator_reset_coverage", reset_coverage, METH_NOARGS, nullptr},
                           {"accelerator_is_strict", is_strict, METH_NOARGS, nullptr},
                           {"set_accelerator_strict", set_strict, METH_O, nullptr},
                           {"set_accelerator_kernels", set_uses_kernels, METH_O, nullptr},
                           {"accelerator_name", driver_name, METH_O, nullptr},
                           {"accelerator_bare_launch", bare_launch, METH_O, nullptr},
                           {"accelerator_why", why, METH_O, nullptr},
                           {}};

}  // namespace

void add_accelerator(PyObject* module) {
    ok(PyModule_AddFunctions(module, functions));
    gpu::report_fallback = warn_of_fallback;
    gpu::python_prefix = [] {
        Lock lock;
        PyObject* prefix = PySys_GetObject("prefix");
        return std::string(prefix && PyUnicode_Check(prefix) ? text_of(prefix) : "");
    };
    gpu::line_now = [] {
        Lock lock;
        return here();
    };
}

}  // namespace fb::py
