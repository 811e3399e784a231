// Fast helpers for loading data and files: random states of samples, checksums, reading with a checksum.
#include "bindings/data.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/crc32.h"

namespace fb::py {
namespace {

constexpr size_t piece = 1 << 18;  // read and summed while it is in the cache

// 64 well-mixed bits of an epoch's seed and a sample's index (the finaliser of SplitMix64).
uint64_t mixed(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

struct Argument {
    PyObject* const* given;
    uint64_t number(int i) const { return PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLongMask(given[i]); }
};

PyObject* mix(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 2) return PyErr_Format(PyExc_TypeError, "mix: takes a seed and an index");
    Argument a{args};
    uint64_t value = mixed(a.number(0), a.number(1));
    return PyErr_Occurred() ? nullptr : PyLong_FromUnsignedLongLong(value);
}

struct Buffer {
    Py_buffer view;
    ~Buffer() { PyBuffer_Release(&view); }
};

PyObject* crc32_of(PyObject*, PyObject* args) {
    Buffer buffer;
    unsigned int value = 0;
    if (!PyArg_ParseTuple(args, "y*|I", &buffer.view, &value)) {
        buffer.view.obj = nullptr;
        return nullptr;
    }
    {
        Unlocked unlocked;
        value = crc32(buffer.view.buf, static_cast<size_t>(buffer.view.len), value);
    }
    return PyLong_FromUnsignedLong(value);
}

// Fills the buffer from a file and computes its checksum, in pieces that stay in the cache between the two.
PyObject* read_summed(PyObject*, PyObject* args) {
    int fd, summed;
    long long offset;
    Buffer buffer;
    if (!PyArg_ParseTuple(args, "iw*Lp", &fd, &buffer.view, &offset, &summed)) {
        buffer.view.obj = nullptr;
        return nullptr;
    }
    auto* room = static_cast<char*>(buffer.view.buf);
    size_t total = static_cast<size_t>(buffer.view.len), done = 0;
    uint32_t sum = 0;
    int problem = 0;
    {
        Unlocked unlocked;
        while (done < total) {
            ssize_t got = pread(fd, room + done, std::min(piece, total - done), offset + static_cast<long long>(done));
            if (got < 0 && errno == EINTR) continue;
            problem = got < 0 ? errno : 0;
            if (got <= 0) break;
            if (summed) sum = crc32(room + done, static_cast<size_t>(got), sum);
            done += static_cast<size_t>(got);
        }
    }
    if (problem) {
        errno = problem;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return Py_BuildValue("nI", static_cast<Py_ssize_t>(done), sum);
}

// Computes the checksum of bytes and writes them to a file, in pieces that stay in the cache between the two.
PyObject* write_summed(PyObject*, PyObject* args) {
    int fd;
    long long offset;
    unsigned int sum;
    Buffer buffer;
    if (!PyArg_ParseTuple(args, "iy*LI", &fd, &buffer.view, &offset, &sum)) {
        buffer.view.obj = nullptr;
        return nullptr;
    }
    auto* data = static_cast<const char*>(buffer.view.buf);
    size_t total = static_cast<size_t>(buffer.view.len), done = 0, summed = 0;
    int problem = 0;
    {
        Unlocked unlocked;
        while (done < total && !problem) {
            size_t count = std::min(piece, total - done);
            if (done + count > summed) {  // after a write interrupted by a signal, part of the piece is summed already
                sum = crc32(data + summed, done + count - summed, sum);
                summed = done + count;
            }
            ssize_t put = pwrite(fd, data + done, count, offset + static_cast<long long>(done));
            if (put >= 0) done += static_cast<size_t>(put);
            else if (errno != EINTR) problem = errno;
        }
    }
    if (problem) {
        errno = problem;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return PyLong_FromUnsignedLong(sum);
}

template <class F>
PyCFunction fast(F f) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

PyMethodDef functions[] = {
    {"mix", fast(mix), METH_FASTCALL, "mix(seed, index): 64 well-mixed bits."},
    {"crc32", crc32_of, METH_VARARGS, "crc32(data, value=0): the checksum that zlib.crc32 gives."},
    {"read_summed", read_summed, METH_VARARGS,
     "read_summed(fd, room, offset, summed): (bytes read, their crc32); fewer bytes than asked for at the file's end."},
    {"write_summed", write_summed, METH_VARARGS,
     "write_summed(fd, data, offset, value): writes all of data at an offset; the crc32 that continues value."},
    {}};

}  // namespace

void add_data(PyObject* module) { ok(PyModule_AddFunctions(module, functions)); }

}  // namespace fb::py
