// Memory shared with other libraries: raw addresses (NumPy's array interface) and the buffer protocol.
#include "bindings/exchange.h"

#include <cstdint>
#include <cstring>

#include "autograd/mode.h"
#include "autograd/node.h"
#include "bindings/convert.h"

namespace fb::py {

Tensor adopt(void* first, DType dtype, const Dims& shape, const Dims& strides, std::function<void()> release,
             bool read_only) {
    // From here on the storage owns `release`, even if an exception is thrown below.
    Ref<Storage> owner = make_ref<Storage>(nullptr, 0, Device{}, release, read_only);
    int64_t numel = checked_numel(shape), size = itemsize(dtype);
    check(shape.size() <= max_dims, "at most ", max_dims, " dimensions are supported, got ", shape.size());
    check(shape.size() == strides.size(), "shape ", shape, " and strides ", strides, " differ in length");
    if (numel == 0) return make_view(owner, dtype, shape, strides, 0);
    check(first != nullptr, "the memory's address is null but the shape is ", shape);
    check(reinterpret_cast<uintptr_t>(first) % static_cast<uintptr_t>(size > 8 ? 8 : size) == 0,
          "the memory is not aligned for ", dtype, "; copy it first (for a NumPy array: array.copy())");
    // The storage begins at the lowest element reached by a negative stride.
    int64_t low = 0, high = 0;
    for (int64_t i = 0; i < shape.size(); i++) {
        int64_t reach = checked_mul(shape[i] - 1, strides[i], "the extent of the strides");
        int64_t& end = reach < 0 ? low : high;
        check(!__builtin_add_overflow(end, reach, &end), "strides ", strides, " overflow");
    }
    int64_t extent;
    check(!__builtin_sub_overflow(high, low, &extent) && extent < INT64_MAX, "strides ", strides, " overflow");
    int64_t bytes = checked_mul(extent + 1, size, "the extent of the strides");
    char* begin = static_cast<char*>(first) + low * size;
    auto storage = make_ref<Storage>(begin, static_cast<size_t>(bytes), Device{}, [owner] {}, read_only);
    return make_view(storage, dtype, shape, strides, -low);
}

namespace {

// Drops a Python reference from any thread.
struct Release {
    PyObject* object;
    void operator()() const {
        if (!Py_IsInitialized()) return;
        CallOut out;
        Py_DECREF(object);
    }
};

// from_address(address, dtype, shape, strides in elements, owner, read_only)
PyObject* from_address(PyObject*, PyObject* args) {
    PyObject *address, *dtype, *shape, *strides, *owner;
    int read_only;
    const char* op;
    if (!PyArg_ParseTuple(args, "sOO!OOOp", &op, &address, dtype_type, &dtype, &shape, &strides, &owner, &read_only))
        return nullptr;
    return guarded([&]() -> PyObject* {
        OpScope scope(op);
        void* data = PyLong_AsVoidPtr(address);
        if (PyErr_Occurred()) throw PythonError{};
        Dims sizes, steps;
        if (!dims_of(shape, sizes) || !dims_of(strides, steps)) fail_type("shape and strides must be tuples of ints");
        return wrap(adopt(data, dtype_of(dtype), sizes, steps, Release{Py_NewRef(owner)}, read_only != 0));
    });
}

const char* buffer_format(DType dtype);

// from_plain_array(array): a tensor on a NumPy array of a native dtype, None if its format needs the general path.
PyObject* from_plain_array(PyObject*, PyObject* array) {
    Py_buffer view;
    if (PyObject_GetBuffer(array, &view, PyBUF_FULL_RO) < 0) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    // The reference to the array keeps the memory alive; the view is released at once.
    struct Done {
        Py_buffer* view;
        ~Done() { PyBuffer_Release(view); }
    } done{&view};
    return guarded([&]() -> PyObject* {
        OpScope scope("from_numpy");
        const char* given = view.format ? view.format : "B";
        if (view.suboffsets || (view.ndim > 0 && (!view.shape || !view.strides))) Py_RETURN_NONE;
        for (int i = 0; i < dtype_count; i++) {
            DType dtype = static_cast<DType>(i);
            const char* format = buffer_format(dtype);
            if (!format || std::strcmp(format, given) != 0 || view.itemsize != itemsize(dtype)) continue;
            Dims shape(view.shape, view.shape + view.ndim), strides(view.strides, view.strides + view.ndim);
            for (int64_t& s : strides) {
                if (s % view.itemsize != 0) Py_RETURN_NONE;
                s /= view.itemsize;
            }
            return wrap(adopt(view.buf, dtype, shape, strides, Release{Py_NewRef(array)}, view.readonly != 0));
        }
        Py_RETURN_NONE;
    });
}

// The whole storage of a tensor as uint8.
PyObject* storage_bytes(PyObject*, PyObject* o) {
    return guarded([&]() -> PyObject* {
        if (!is_tensor(o)) fail_type("expected a tensor, got ", Py_TYPE(o)->tp_name);
        Tensor t = settled(o);
        return wrap(make_view(t.storage_ref(), DType::U8, {static_cast<int64_t>(t.storage().bytes())}, {1}, 0));
    });
}

// over_storage(tensor, dtype, shape, strides, offset): another view of a tensor's storage, strides of any sign.
PyObject* over_storage(PyObject*, PyObject* args) {
    PyObject *base, *dtype, *shape, *strides;
    long long offset;
    if (!PyArg_ParseTuple(args, "O!O!OOL", tensor_type, &base, dtype_type, &dtype, &shape, &strides, &offset))
        return nullptr;
    return guarded([&]() -> PyObject* {
        Dims sizes, steps;
        if (!dims_of(shape, sizes) || !dims_of(strides, steps)) fail_type("shape and strides must be tuples of ints");
        return wrap(make_view(settled(base).storage_ref(), dtype_of(dtype), sizes, steps, offset));
    });
}

// Marks the memory as seen by another library: it must not move any more. Returns a handle that keeps it alive.
PyObject* lend(PyObject*, PyObject* o) {
    return guarded([&]() -> PyObject* {
        if (!is_tensor(o)) fail_type("expected a tensor, got ", Py_TYPE(o)->tp_name);
        Tensor t = host_memory(o);
        t.storage().lend();
        return wrap(alias(t));
    });
}

PyMethodDef functions[] = {
    {"from_address", from_address, METH_VARARGS,
     "from_address(op, address, dtype, shape, strides, owner, read_only): a tensor on another library's memory."},
    {"from_plain_array", from_plain_array, METH_O,
     "from_plain_array(array): a tensor on a NumPy array, or None if its format is not plain."},
    {"storage_bytes", storage_bytes, METH_O, "storage_bytes(tensor): its whole storage as uint8."},
    {"over_storage", over_storage, METH_VARARGS,
     "over_storage(tensor, dtype, shape, strides, offset): another view of its storage."},
    {"lend", lend, METH_O, "lend(tensor): forbids resizing the storage; gives a handle that keeps it alive."},
    {}};

// ---- buffer protocol ------------------------------------------------------------------------------------------------

// What a consumer's view points to: lives as long as the view, whatever happens to the tensor.
struct Lent {
    Ref<Storage> storage;
    std::vector<Py_ssize_t> shape, strides;
    explicit Lent(Ref<Storage> lender) : storage(std::move(lender)) { storage->lend(); }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    ~Lent() { storage->give_back(); }
};

const char* buffer_format(DType dtype) {
    switch (dtype) {
        case DType::Bool:
            return "?";
        case DType::U8:
            return "B";
        case DType::U16:
            return "H";
        case DType::U32:
            return "I";
        case DType::U64:
            return sizeof(long) == 8 ? "L" : "Q";  // the letters NumPy uses itself
        case DType::I8:
            return "b";
        case DType::I16:
            return "h";
        case DType::I32:
            return "i";
        case DType::I64:
            return sizeof(long) == 8 ? "l" : "q";
        case DType::F16:
            return "e";
        case DType::F32:
            return "f";
        case DType::F64:
            return "d";
        case DType::C64:
            return "Zf";
        case DType::C128:
            return "Zd";
        default:
            return nullptr;
    }
}

int refuse(Py_buffer* view, const char* message) {
    view->obj = nullptr;
    PyErr_SetString(PyExc_BufferError, message);
    return -1;
}

bool is_column_major(const Tensor& t) {
    Dims reversed;
    for (int64_t i = t.dim(); i-- > 0;) reversed.push_back(i);
    return t.numel() == 0 || permute(t, reversed).is_contiguous();
}

bool wants(int flags, int which) { return (flags & which) == which; }

}  // namespace

int tensor_getbuffer(PyObject* self, Py_buffer* view, int flags) {
    return guarded_int([&] {
        Tensor t = host_memory(self);
        if (grad_enabled() && requires_grad(t))
            return refuse(view,
                          "memoryview: the tensor requires gradients, which its readers would not see; detach() it");
        const char* format = buffer_format(t.dtype());
        if (!format)
            return refuse(view,
                          "memoryview: the buffer protocol has no format for bfloat16; use tensor.view(fb.uint16) for "
                          "the bits or tensor.float()");
        if (wants(flags, PyBUF_WRITABLE) && t.storage().read_only())
            return refuse(view, "memoryview: the tensor is read-only; clone() it first");
        bool rows = t.is_contiguous(), columns = is_column_major(t);
        bool fits = wants(flags, PyBUF_ANY_CONTIGUOUS)                                 ? rows || columns
                    : wants(flags, PyBUF_F_CONTIGUOUS)                                 ? columns
                    : wants(flags, PyBUF_C_CONTIGUOUS) || !wants(flags, PyBUF_STRIDES) ? rows
                                                                                       : true;
        if (!fits)
            return refuse(view,
                          "memoryview: the tensor is not contiguous in the order asked for; call contiguous() first");

        auto lent = std::make_unique<Lent>(t.storage_ref());
        // Row-major strides are rewritten: dimensions of size 1 or 0 may have any stride, which strict consumers
        // reject.
        Dims steps = rows ? contiguous_strides(t.shape()) : t.strides();
        for (int64_t i = 0; i < t.dim(); i++) {
            lent->shape.push_back(t.shape()[i]);
            lent->strides.push_back(steps[i] * t.itemsize());
        }
        static char nothing[16];
        view->buf = t.numel() ? t.raw() : nothing;
        view->len = t.numel() * t.itemsize();
        view->itemsize = t.itemsize();
        view->readonly = t.storage().read_only();
        view->ndim = static_cast<int>(t.dim());
        view->format = wants(flags, PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
        view->shape = wants(flags, PyBUF_ND) ? lent->shape.data() : nullptr;
        view->strides = wants(flags, PyBUF_STRIDES) ? lent->strides.data() : nullptr;
        view->suboffsets = nullptr;
        view->internal = lent.release();
        view->obj = Py_NewRef(self);
        return 0;
    });
}

void tensor_releasebuffer(PyObject*, Py_buffer* view) {
    delete static_cast<Lent*>(view->internal);
    view->internal = nullptr;
}

void add_exchange(PyObject* module) {
    ok(PyModule_AddFunctions(module, functions));
    add_dlpack(module);
}

}  // namespace fb::py
