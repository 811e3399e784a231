// DLPack 1.x in both directions. The structures are the protocol's binary interface, written from its specification.
#include "bindings/exchange.h"

namespace fb::py {
namespace {

struct DLDevice {
    int32_t type, id;
};
struct DLDataType {
    uint8_t code, bits;
    uint16_t lanes;
};
struct DLTensor {
    void* data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t* shape;
    int64_t* strides;  // in elements; null means row-major
    uint64_t byte_offset;
};
struct DLManagedTensor {
    DLTensor tensor;
    void* context;
    void (*deleter)(DLManagedTensor*);
};
struct DLVersion {
    uint32_t major, minor;
};
struct DLManagedTensorVersioned {
    DLVersion version;
    void* context;
    void (*deleter)(DLManagedTensorVersioned*);
    uint64_t flags;
    DLTensor tensor;
};
constexpr uint64_t flag_read_only = 1, flag_copied = 2;
constexpr int32_t device_cpu = 1, device_cuda_host = 3, device_rocm_host = 11;
enum Code : uint8_t { code_int = 0, code_uint = 1, code_float = 2, code_bfloat = 4, code_complex = 5, code_bool = 6 };
// One code for each 8-bit float, in the order of DType.
constexpr uint8_t code_float8 = 10;

constexpr const char *legacy_name = "dltensor", *versioned_name = "dltensor_versioned";
constexpr const char *legacy_used = "used_dltensor", *versioned_used = "used_dltensor_versioned";

[[noreturn]] void fail_buffer(const std::string& message) {
    PyErr_SetString(PyExc_BufferError, ("from_dlpack: " + message).c_str());
    throw PythonError{};
}

// ---- export ---------------------------------------------------------------------------------------------------------

DLDataType type_code(DType dtype) {
    if (is_float8(dtype))
        return {static_cast<uint8_t>(code_float8 + static_cast<int>(dtype) - static_cast<int>(DType::F8E4M3FN)), 8, 1};
    uint8_t code = dtype == DType::Bool    ? code_bool
                   : dtype == DType::BF16  ? code_bfloat
                   : is_complex(dtype)     ? code_complex
                   : is_floating(dtype)    ? code_float
                   : info(dtype).is_signed ? code_int
                                           : code_uint;
    return {code, static_cast<uint8_t>(itemsize(dtype) * 8), 1};
}

// One allocation holds what the consumer sees and what keeps it alive; the deleter may free it on any thread.
template <class Managed>
struct Export {
    Managed managed;
    Ref<Storage> storage;
    Dims shape, strides;
    static void drop(Managed* m) { delete static_cast<Export*>(m->context); }
};

template <class Managed>
Managed* make_export(const Tensor& t) {
    auto* e = new Export<Managed>{};
    e->storage = t.storage_ref();
    e->shape = t.shape();
    e->strides = t.strides();
    e->managed.context = e;
    e->managed.deleter = Export<Managed>::drop;
    DLTensor& d = e->managed.tensor;
    d.data = t.numel() ? t.raw() : nullptr;
    d.device = {device_cpu, 0};
    d.ndim = static_cast<int32_t>(t.dim());
    d.dtype = type_code(t.dtype());
    d.shape = e->shape.begin();
    d.strides = e->strides.begin();
    d.byte_offset = 0;
    return &e->managed;
}

// Runs when a capsule is destroyed; a consumed one has another name and belongs to its consumer.
template <class Managed>
void drop_capsule(PyObject* capsule, const char* name) {
    if (!PyCapsule_IsValid(capsule, name)) return;
    auto* m = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
    if (m->deleter) m->deleter(m);
}
void drop_legacy(PyObject* capsule) { drop_capsule<DLManagedTensor>(capsule, legacy_name); }
void drop_versioned(PyObject* capsule) { drop_capsule<DLManagedTensorVersioned>(capsule, versioned_name); }

template <class Managed>
PyObject* capsule_of(Managed* m, const char* name, PyCapsule_Destructor destructor) {
    PyObject* capsule = PyCapsule_New(m, name, destructor);
    if (!capsule) m->deleter(m);
    return capsule;
}

// dlpack_capsule(tensor, versioned, copied)
PyObject* dlpack_capsule(PyObject*, PyObject* args) {
    PyObject* o;
    int versioned, copied;
    if (!PyArg_ParseTuple(args, "O!pp", tensor_type, &o, &versioned, &copied)) return nullptr;
    return guarded([&]() -> PyObject* {
        Tensor t = host_memory(o);
        t.storage().lend();
        if (!versioned) return capsule_of(make_export<DLManagedTensor>(t), legacy_name, drop_legacy);
        auto* m = make_export<DLManagedTensorVersioned>(t);
        m->version = {1, 1};
        m->flags = (t.storage().read_only() ? flag_read_only : 0) | (copied ? flag_copied : 0);
        return capsule_of(m, versioned_name, drop_versioned);
    });
}

// ---- import ---------------------------------------------------------------------------------------------------------

std::string describe(DLDataType d) {
    static const char* const names[] = {"int", "uint", "float", "opaque handle", "bfloat", "complex", "bool"};
    std::string text = d.code < 7 ? names[d.code] : "type code " + std::to_string(d.code);
    return text + " of " + std::to_string(d.bits) + " bits" +
           (d.lanes != 1 ? " in " + std::to_string(d.lanes) + " lanes" : "");
}

DType dtype_from(DLDataType d) {
    for (int i = 0; i < dtype_count; i++) {
        DLDataType ours = type_code(static_cast<DType>(i));
        if (ours.code == d.code && ours.bits == d.bits && d.lanes == 1) return static_cast<DType>(i);
    }
    fail_buffer("the producer's element type (" + describe(d) + ") has no counterpart; convert it there first");
}

// A producer's deleter may touch Python objects.
template <class Managed>
void delete_now(Managed* m) {
    if (!m->deleter || !Py_IsInitialized()) return;
    CallOut out;
    m->deleter(m);
}

// Takes ownership of the managed tensor: its deleter runs when the last tensor on the memory is destroyed, or before an
// error is raised.
template <class Managed>
Tensor take(Managed* m, bool read_only) {
    struct Guard {
        Managed* m;
        ~Guard() {
            if (m) delete_now(m);
        }
    } guard{m};
    const DLTensor& d = m->tensor;
    if (d.device.type != device_cpu && d.device.type != device_cuda_host && d.device.type != device_rocm_host) {
        fail_buffer("the data lives on a device of DLPack type " + std::to_string(d.device.type) +
                    "; copy it to the CPU in the producer first");
    }
    DType dtype = dtype_from(d.dtype);
    if (d.ndim < 0 || d.ndim > max_dims || (d.ndim > 0 && !d.shape))
        fail_buffer("the capsule has " + std::to_string(d.ndim) + " dimensions or no shape");
    Dims shape(d.shape, d.shape + d.ndim);
    for (int64_t n : shape) {
        if (n < 0) fail_buffer("the capsule has a negative size");
    }
    checked_numel(shape);
    Dims strides = d.strides ? Dims(d.strides, d.strides + d.ndim) : contiguous_strides(shape);
    guard.m = nullptr;
    void* first = d.data ? static_cast<char*>(d.data) + d.byte_offset : nullptr;
    return adopt(first, dtype, shape, strides, [m] { delete_now(m); }, read_only);
}

// take_capsule(capsule) -> (tensor, whether the producer made a copy)
PyObject* take_capsule(PyObject*, PyObject* capsule) {
    return guarded([&]() -> PyObject* {
        OpScope scope("from_dlpack");
        if (!PyCapsule_CheckExact(capsule)) fail_type("expected a DLPack capsule, got ", Py_TYPE(capsule)->tp_name);
        if (PyCapsule_IsValid(capsule, legacy_name)) {
            auto* m = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, legacy_name));
            ok(PyCapsule_SetName(capsule, legacy_used));
            Owned t(wrap(take(m, false)));
            return Py_BuildValue("OO", t.get(), Py_False);
        }
        if (PyCapsule_IsValid(capsule, versioned_name)) {
            auto* m = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, versioned_name));
            ok(PyCapsule_SetName(capsule, versioned_used));
            if (m->version.major > 1) {
                // Only version and deleter are safe to read in a structure of another major version.
                uint32_t major = m->version.major;
                delete_now(m);
                fail_buffer("the capsule has DLPack version " + std::to_string(major) +
                            ", expected at most 1; ask the producer for max_version=(1, 1)");
            }
            bool copied = m->flags & flag_copied;
            Owned t(wrap(take(m, m->flags & flag_read_only)));
            return Py_BuildValue("OO", t.get(), copied ? Py_True : Py_False);
        }
        const char* name = PyCapsule_GetName(capsule);
        PyErr_Clear();
        std::string shown = name ? name : "";
        check(shown != legacy_used && shown != versioned_used,
              "the capsule was consumed already; a capsule can be read only once, export again");
        fail_value("expected a capsule named 'dltensor' or 'dltensor_versioned', got '", shown, "'");
    });
}

PyMethodDef functions[] = {
    {"dlpack_capsule", dlpack_capsule, METH_VARARGS,
     "dlpack_capsule(tensor, versioned, copied): a new DLPack capsule."},
    {"take_capsule", take_capsule, METH_O, "take_capsule(capsule): the tensor in it and whether the producer copied."},
    {}};

}  // namespace

void add_dlpack(PyObject* module) { ok(PyModule_AddFunctions(module, functions)); }

}  // namespace fb::py
