// Communication between processes: collectives through shared memory, and failure detection. The protocol, and how
// failures are reported, is in flambeau/distributed.
#include <sys/mman.h>

#include "bindings/convert.h"
#include "bindings/items.h"
#include "bindings/shared.h"
#include "cluster/group.h"
#include "cluster/watch.h"

namespace fb::py {
namespace {

struct Segment {
    char* memory;
    size_t bytes;
    cluster::Group group;
};
const char* const capsule_name = "flambeau.cluster.Group";

void close_segment(PyObject* capsule) {
    auto* segment = static_cast<Segment*>(PyCapsule_GetPointer(capsule, capsule_name));
    munmap(segment->memory, segment->bytes);
    delete segment;
}

std::vector<int> numbers(PyObject* sequence) {
    std::vector<int> found;
    for (PyObject* item : Items(sequence)) {
        long value = PyLong_AsLong(item);
        if (value == -1 && PyErr_Occurred()) throw PythonError{};
        found.push_back(static_cast<int>(value));
    }
    return found;
}

// cluster_open(fd, rank, ranks, slot)
PyObject* cluster_open(PyObject*, PyObject* args) {
    int fd, rank;
    PyObject* ranks;
    Py_ssize_t slot;
    if (!PyArg_ParseTuple(args, "iiOn", &fd, &rank, &ranks, &slot)) return nullptr;
    return guarded([&]() -> PyObject* {
        std::vector<int> all = numbers(ranks);
        size_t bytes = cluster::Group::bytes(static_cast<int>(all.size()), static_cast<size_t>(slot));
        void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory == MAP_FAILED) return PyErr_SetFromErrno(PyExc_OSError);
        auto* address = static_cast<char*>(memory);
        auto* segment =
            new Segment{address, bytes, cluster::Group(address, rank, std::move(all), static_cast<size_t>(slot))};
        return PyCapsule_New(segment, capsule_name, close_segment);
    });
}

PyObject* cluster_bytes(PyObject*, PyObject* args) {
    int size;
    Py_ssize_t slot;
    if (!PyArg_ParseTuple(args, "in", &size, &slot)) return nullptr;
    return PyLong_FromSize_t(cluster::Group::bytes(size, static_cast<size_t>(slot)));
}

// The memory of flat tensors, which the caller keeps alive.
std::vector<cluster::Span> spans(PyObject* sequence, DType& dtype) {
    std::vector<cluster::Span> found;
    for (PyObject* item : Items(sequence)) {
        if (!is_tensor(item)) not_a_tensor(item);
        Tensor t = host_memory(item);
        if (!t.is_contiguous()) fail_value("cluster_call: tensors must be contiguous");
        dtype = t.dtype();
        found.push_back(
            {static_cast<char*>(t.raw()), static_cast<size_t>(t.numel()) * static_cast<size_t>(itemsize(t.dtype()))});
    }
    return found;
}

// cluster_call(group, call, op, root, text, seconds, ins, outs): None, or (outcome, rank, text) of a failure.
PyObject* cluster_call(PyObject*, PyObject* args) {
    PyObject *capsule, *ins, *outs;
    int call, op, root;
    const char* text;
    Py_ssize_t length;
    double seconds;
    if (!PyArg_ParseTuple(args, "Oiiis#dOO", &capsule, &call, &op, &root, &text, &length, &seconds, &ins, &outs))
        return nullptr;
    auto* segment = static_cast<Segment*>(PyCapsule_GetPointer(capsule, capsule_name));
    if (!segment) return nullptr;
    return guarded([&]() -> PyObject* {
        cluster::Request request;
        request.call = static_cast<cluster::Call>(call);
        request.op = static_cast<cluster::Join>(op);
        request.root = root;
        request.text.assign(text, static_cast<size_t>(length));
        request.seconds = seconds;
        request.in = spans(ins, request.dtype);
        request.out = spans(outs, request.dtype);
        request.interrupted = [] {
            Lock lock;
            return PyErr_CheckSignals() != 0;
        };
        cluster::Answer answer;
        {
            Unlocked unlocked;
            answer = segment->group.run(request);
        }
        if (answer.outcome == cluster::Outcome::Done) Py_RETURN_NONE;
        if (answer.outcome == cluster::Outcome::Interrupted) throw PythonError{};
        return Py_BuildValue("iis#", static_cast<int>(answer.outcome), answer.rank, answer.text.data(),
                             static_cast<Py_ssize_t>(answer.text.size()));
    });
}

// cluster_can_join(dtype, op)
PyObject* cluster_can_join(PyObject*, PyObject* args) {
    PyObject* dtype;
    int op;
    if (!PyArg_ParseTuple(args, "O!i", dtype_type, &dtype, &op)) return nullptr;
    return PyBool_FromLong(cluster::can_join(dtype_of(dtype), static_cast<cluster::Join>(op)));
}

// cluster_watch(rank, size, descriptors, ranks, silence, changed)
PyObject* cluster_watch(PyObject*, PyObject* args) {
    int rank, size, changed;
    PyObject *descriptors, *ranks;
    double silence;
    if (!PyArg_ParseTuple(args, "iiOOdi", &rank, &size, &descriptors, &ranks, &silence, &changed)) return nullptr;
    return guarded([&]() -> PyObject* {
        std::vector<int> fds = numbers(descriptors), others = numbers(ranks);
        std::vector<std::pair<int, int>> connections;
        for (size_t i = 0; i < fds.size(); i++) connections.emplace_back(fds[i], others[i]);
        cluster::start_watch(rank, size, connections, silence, changed);
        Py_RETURN_NONE;
    });
}

// cluster_states(): the first lost rank or -1, and the state of each rank.
PyObject* cluster_states(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        auto peers = cluster::peers();
        Owned states(ok(PyList_New(0)));
        for (size_t i = 0; peers && i < peers->states.size(); i++) {
            Owned state(ok(PyLong_FromLong(static_cast<long>(peers->states[i].load()))));
            ok(PyList_Append(states.get(), state.get()));
        }
        return Py_BuildValue("iN", peers ? peers->lost.load() : -1, states.release());
    });
}

PyObject* cluster_leave(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        {
            Unlocked unlocked;
            cluster::end_watch();
        }
        Py_RETURN_NONE;
    });
}

PyMethodDef functions[] = {
    {"cluster_open", cluster_open, METH_VARARGS, "cluster_open(fd, rank, ranks, slot): a group on a shared file."},
    {"cluster_bytes", cluster_bytes, METH_VARARGS, "cluster_bytes(size, slot): size of the file of a group."},
    {"cluster_call", cluster_call, METH_VARARGS,
     "cluster_call(group, call, op, root, text, seconds, ins, outs): None, or (outcome, rank, text) of a failure."},
    {"cluster_can_join", cluster_can_join, METH_VARARGS,
     "cluster_can_join(dtype, op): whether a reduction has a kernel."},
    {"cluster_watch", cluster_watch, METH_VARARGS,
     "cluster_watch(rank, size, descriptors, ranks, silence, changed): begins to watch other processes."},
    {"cluster_states", cluster_states, METH_NOARGS, "cluster_states(): the first lost rank or -1, and all states."},
    {"cluster_leave", cluster_leave, METH_NOARGS, "cluster_leave(): leaves on purpose."},
    {}};

}  // namespace

void add_cluster(PyObject* module) { ok(PyModule_AddFunctions(module, functions)); }

}  // namespace fb::py
