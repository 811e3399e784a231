// What loading data and files needs close to the machine: random states of samples, checksums, reading with a checksum.
#include "bindings/data.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/crc32.h"
#include "base/generator.h"

namespace fb::py {
namespace {

constexpr int twister_size = 624;
constexpr size_t piece = 1 << 18;  // read and summed while it is in the cache

// 64 well-mixed bits of an epoch's seed and a sample's index (the finaliser of SplitMix64).
uint64_t mixed(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

constexpr std::array<uint32_t, twister_size> make_pattern() {
    std::array<uint32_t, twister_size> words{};
    for (uint32_t i = 0; i < twister_size; i++) {
        uint32_t w = (i + 1) * 0x9E3779B9u;
        w = (w ^ (w >> 16)) * 0x85EBCA6Bu;
        w = (w ^ (w >> 13)) * 0xC2B2AE35u;
        words[i] = w ^ (w >> 16);
    }
    return words;
}

constexpr auto pattern = make_pattern();

// The state of a Mersenne Twister: every word a hash of the seed and its place, in a fraction of the time that the
// generators' own seeding takes. `salt` keeps two generators apart.
void fill_twister(uint32_t* words, uint64_t seed, uint32_t salt) {
    seed = mixed(seed, salt);
    uint32_t low = static_cast<uint32_t>(seed), odd = static_cast<uint32_t>(seed >> 32) | 1;
    for (int i = 0; i < twister_size; i++) {
        uint32_t w = (pattern[static_cast<size_t>(i)] ^ low) * odd;
        words[i] = w ^ (w >> 15);
    }
    words[0] |= 0x80000000u;  // all zeros would stay zeros
}

struct Argument {
    PyObject* const* given;
    uint64_t number(int i) const { return PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLongMask(given[i]); }
    template <class T>
    T* address(int i) const {
        return static_cast<T*>(PyLong_AsVoidPtr(given[i]));
    }
};

PyObject* mix(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 2) return PyErr_Format(PyExc_TypeError, "mix: takes a seed and an index");
    Argument a{args};
    uint64_t value = mixed(a.number(0), a.number(1));
    return PyErr_Occurred() ? nullptr : PyLong_FromUnsignedLongLong(value);
}

PyObject* twister_words(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 3) return PyErr_Format(PyExc_TypeError, "twister_words: takes a seed, an index and a salt");
    Argument a{args};
    uint32_t words[twister_size];
    fill_twister(words, mixed(a.number(0), a.number(1)), static_cast<uint32_t>(a.number(2)));
    return PyErr_Occurred() ? nullptr : PyBytes_FromStringAndSize(reinterpret_cast<char*>(words), sizeof words);
}

// seed_sample(seed, index[, random, words, position, words, position, gauss]): also the generator of the module random
// and NumPy's, at these addresses. Another thread may be drawing from NumPy's without the interpreter lock: a position
// of 623, the last word, is one it can meet at any moment without reading past the end.
PyObject* seed_sample(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 2 && count != 8) return PyErr_Format(PyExc_TypeError, "seed_sample: takes 2 or 8 arguments");
    Argument a{args};
    uint64_t seed = mixed(a.number(0), a.number(1));
    if (PyErr_Occurred()) return nullptr;
    default_generator()->set(seed >> 1);
    if (count == 2) Py_RETURN_NONE;
    for (int twister = 0; twister < 2; twister++) {
        auto* words = a.address<uint32_t>(3 + 2 * twister);
        auto* position = a.address<int32_t>(4 + 2 * twister);
        if (!words || !position) return nullptr;
        fill_twister(words, seed, static_cast<uint32_t>(twister));
        *position = twister_size - 1;
    }
    auto* has_gauss = a.address<int32_t>(7);
    if (!has_gauss) return nullptr;
    *has_gauss = 0;
    static PyObject* const gauss_next = PyUnicode_InternFromString("gauss_next");
    return PyObject_SetAttr(args[2], gauss_next, Py_None) < 0 ? nullptr : Py_NewRef(Py_None);
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

// Fills the buffer from a file and sums it, in pieces that stay in the cache between the two.
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

// Sums bytes and writes them to a file, in pieces that stay in the cache between the two.
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
            if (done + count > summed) {  // after a write cut short by a signal, part of the piece is summed already
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
    {"twister_words", fast(twister_words), METH_FASTCALL,
     "twister_words(seed, index, salt): the state of a Mersenne Twister, as bytes."},
    {"seed_sample", fast(seed_sample), METH_FASTCALL,
     "seed_sample(seed, index[, random, five addresses]): seeds the default generator, and two twisters in place."},
    {"crc32", crc32_of, METH_VARARGS, "crc32(data, value=0): the checksum that zlib.crc32 gives."},
    {"read_summed", read_summed, METH_VARARGS,
     "read_summed(fd, room, offset, summed): (bytes read, their crc32); fewer bytes than asked for at the file's end."},
    {"write_summed", write_summed, METH_VARARGS,
     "write_summed(fd, data, offset, value): writes all of data at an offset; the crc32 that continues value."},
    {}};

}  // namespace

void add_data(PyObject* module) { ok(PyModule_AddFunctions(module, functions)); }

}  // namespace fb::py
