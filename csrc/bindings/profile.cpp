// The profiler's recorder as Python functions, used by flambeau.profiler.
#include "base/profile.h"

#include <algorithm>

#include "backend/gpu/profile.h"
#include "bindings/autograd.h"
#include "bindings/python.h"
#include "memory/allocator.h"

namespace fb::py {
namespace {

// "file:line function" per frame, innermost first.
std::string interpreter_stack() {
    Lock lock;
    std::string text;
    Owned frame(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
    while (frame) {
        auto* f = reinterpret_cast<PyFrameObject*>(frame.get());
        Owned code(reinterpret_cast<PyObject*>(PyFrame_GetCode(f)));
        auto* c = reinterpret_cast<PyCodeObject*>(code.get());
        const char *file = PyUnicode_AsUTF8(c->co_filename), *function = PyUnicode_AsUTF8(c->co_name);
        if (!file || !function) PyErr_Clear();
        else
            text += std::string(text.empty() ? "" : "\n") + file + ":" + std::to_string(PyFrame_GetLineNumber(f)) +
                    " " + function;
        frame = Owned(reinterpret_cast<PyObject*>(PyFrame_GetBack(f)));
    }
    return text;
}

int64_t live_bytes() { return host_allocator().stats().allocated; }

// The running call: that of the op, else the interpreter's frame if this thread holds its lock.
Location line_of_allocation() {
    if (current_op) return current_location;
    return PyGILState_Check() ? here() : Location();
}

PyObject* profile_start(PyObject*, PyObject* args) {
    int shapes, memory, stack;
    Py_ssize_t limit;
    if (!PyArg_ParseTuple(args, "pppn", &shapes, &memory, &stack, &limit)) return nullptr;
    gpu::forget_device_events();
    start_profile({shapes != 0, memory != 0, stack != 0}, static_cast<size_t>(std::max<Py_ssize_t>(limit, 1)));
    Py_RETURN_NONE;
}

// profile_stop() -> (events, memory events, how many were dropped)
PyObject* profile_stop(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        Profile all = stop_profile();
        all.dropped += gpu::take_device_events(all.events);
        Owned list(ok(PyList_New(0))), memory(ok(PyList_New(0)));
        for (const ProfileEvent& e : all.events) {
            bool on_device = e.kind >= ProfileEvent::Kernel;
            std::string device = on_device ? to_string(e.device) : "cpu";
            Owned item(ok(Py_BuildValue(
                "(isLLLLsssiL)", static_cast<int>(e.kind), e.name.c_str(), static_cast<long long>(e.thread),
                static_cast<long long>(e.start), static_cast<long long>(e.end), static_cast<long long>(e.bytes),
                e.shapes.c_str(), e.stack.c_str(), device.c_str(), e.stream, static_cast<long long>(e.launched))));
            ok(PyList_Append(list.get(), item.get()));
        }
        for (const MemoryEvent& e : all.memory) {
            std::string line = describe_location ? describe_location(e.line) : "", device = to_string(e.device);
            Owned item(ok(Py_BuildValue("(LLKLLsss)", static_cast<long long>(e.time), static_cast<long long>(e.thread),
                                        static_cast<unsigned long long>(e.address), static_cast<long long>(e.bytes),
                                        static_cast<long long>(e.total), device.c_str(), e.op.c_str(), line.c_str())));
            ok(PyList_Append(memory.get(), item.get()));
        }
        return ok(Py_BuildValue("(OOL)", list.get(), memory.get(), static_cast<long long>(all.dropped)));
    });
}

// A range named by the user: a capsule while recording, else None.
constexpr const char* capsule_name = "flambeau.profile_range";
PyObject* profile_begin(PyObject*, PyObject* name) {
    return guarded([&]() -> PyObject* {
        const char* text = PyUnicode_AsUTF8(name);
        if (!text) return nullptr;
        if (!profiling) Py_RETURN_NONE;
        std::unique_ptr<ProfileEvent> event = begin_event(ProfileEvent::Range, text, "");
        PyObject* capsule = ok(PyCapsule_New(event.get(), capsule_name, [](PyObject* c) {
            delete static_cast<ProfileEvent*>(PyCapsule_GetPointer(c, capsule_name));
        }));
        event.release();
        return capsule;
    });
}
PyObject* profile_end(PyObject*, PyObject* capsule) {
    return guarded([&]() -> PyObject* {
        if (capsule == Py_None) Py_RETURN_NONE;
        auto* event = static_cast<ProfileEvent*>(PyCapsule_GetPointer(capsule, capsule_name));
        if (!event) return nullptr;
        end_event(std::make_unique<ProfileEvent>(*event));  // the capsule keeps and frees its own copy
        Py_RETURN_NONE;
    });
}

PyMethodDef functions[] = {
    {"profile_start", profile_start, METH_VARARGS, "profile_start(shapes, memory, stack, limit): begins to record."},
    {"profile_stop", profile_stop, METH_NOARGS,
     "profile_stop(): ends recording; lists of tuples, one per event, and how many were dropped."},
    {"profile_begin", profile_begin, METH_O, "profile_begin(name): opens a range; for profile_end."},
    {"profile_end", profile_end, METH_O, "profile_end(range): closes a range."},
    {}};

}  // namespace

void add_profile(PyObject* module) {
    profile_stack = interpreter_stack;
    profile_memory = live_bytes;
    profile_line = line_of_allocation;
    ok(PyModule_AddFunctions(module, functions));
}

}  // namespace fb::py
