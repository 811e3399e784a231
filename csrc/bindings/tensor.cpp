// The Tensor type: a handle on TensorImpl, its operators and its fast properties. Everything else is an op or Python.
#include <cstring>

#include "base/exclusive.h"
#include "bindings/autograd.h"
#include "bindings/convert.h"
#include "bindings/exchange.h"
#include "bindings/indexing.h"
#include "bindings/items.h"
#include "bindings/override.h"
#include "bindings/python.h"
#include "ops/table/common.h"
#include "ops/table/dispatch.h"

namespace fb::py {

PyTypeObject* tensor_type;

void not_a_tensor(PyObject* o) { fail_type("expected a tensor, got ", Py_TYPE(o)->tp_name); }

namespace {

PyTensor* cast(PyObject* o) { return reinterpret_cast<PyTensor*>(o); }

// ---- life -----------------------------------------------------------------------------------------------------------

PyObject* make(PyTypeObject* type, TensorImpl* impl) {
    // Not tracked by the garbage collector until it carries attributes: a bare tensor refers to no Python object.
    PyTensor* self = PyObject_GC_New(PyTensor, type);
    if (!self) throw PythonError{};
    impl->retain();
    self->impl = impl;
    self->dict = nullptr;
    self->weakrefs = nullptr;
    // A subclass with __slots__ is larger.
    if (auto rest = type->tp_basicsize - Py_ssize_t(sizeof(PyTensor)); rest > 0)
        std::memset(static_cast<void*>(self + 1), 0, static_cast<size_t>(rest));
    if (!impl->pyobj) impl->pyobj = self;
    if (type != tensor_type && PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), "__flambeau_dispatch__"))
        impl->functorial = true;
    return reinterpret_cast<PyObject*>(self);
}

// Note [Objects kept by the core]: a tensor that only the core still holds (a gradient, something saved) gets a new
// Python object when it is next wrapped, unless the old one has state to lose: its class or attributes. Then the object
// is kept, owned by the TensorImpl instead of owning it, untracked and without weak references, so that only wrap() can
// find it. A gradient that was read is kept too, for programs that compare id(p.grad): get_grad gives it an empty
// dictionary.
bool keep_for_core(PyObject* o) {
    PyTensor* self = cast(o);
    bool has_state = Py_TYPE(o) != tensor_type || self->dict;
    if (!self->impl || self->impl->pyobj != self || !has_state || self->impl->use_count() == 1) return false;
    if (self->weakrefs) PyObject_ClearWeakRefs(o);
    Py_SET_REFCNT(o, 1);
    TensorImpl* impl = self->impl;
    impl->owns_pyobj = true;
    impl->release();
    return true;
}
// Called when the core's last reference is gone.
void release_kept(void* pyobj) {
    if (!Py_IsInitialized()) return;
    Lock lock;
    cast(static_cast<PyObject*>(pyobj))->impl = nullptr;
    Py_DECREF(static_cast<PyObject*>(pyobj));
}

void tensor_dealloc(PyObject* o) {
    PyTensor* self = cast(o);
    PyTypeObject* type = Py_TYPE(o);
    if (PyObject_GC_IsTracked(o)) PyObject_GC_UnTrack(o);
    if (keep_for_core(o)) return;
    // First of all: code run below must not find this dying object through the tensor.
    if (self->impl && self->impl->pyobj == self) self->impl->pyobj = nullptr;
    if (self->weakrefs) PyObject_ClearWeakRefs(o);
    Py_CLEAR(self->dict);
    if (self->impl) {
        self->impl->release();
        self->impl = nullptr;
    }
    PyObject_GC_Del(o);
    Py_DECREF(type);
}

int tensor_traverse(PyObject* o, visitproc visit, void* arg) {
    Py_VISIT(cast(o)->dict);
    Py_VISIT(Py_TYPE(o));
    return visit_hooks(cast(o)->impl, visit, arg);
}
int tensor_clear(PyObject* o) {
    Py_CLEAR(cast(o)->dict);
    clear_hooks(cast(o)->impl);
    return 0;
}
int tensor_setattro(PyObject* o, PyObject* name, PyObject* value) {
    int status = PyObject_GenericSetAttr(o, name, value);
    if (status == 0 && cast(o)->dict && !PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
    return status;
}

// Code with access to the dictionary can put the tensor itself into it: only then must the collector track it.
PyObject* get_dict(PyObject* o, void*) {
    PyObject* dict = PyObject_GenericGetDict(o, nullptr);
    if (dict && !PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
    return dict;
}

// Tensor(data): PyTorch's legacy constructor, sizes or data in the default dtype; implemented in Python.
PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    Owned module(in_python<PyImport_ImportModule>("flambeau._tensor.methods"));
    if (!module) return nullptr;
    Owned build(in_python<PyObject_GetAttrString>(module.get(), "legacy_new"));
    if (!build) return nullptr;
    Owned made(in_python<PyObject_Call>(build.get(), args, kwargs));
    if (!made) return nullptr;
    return guarded([&]() -> PyObject* {
        if (type == tensor_type) return made.release();
        Tensor t = tensor_of(made.get());
        made = Owned();  // the object below is then the tensor's, and keeps its class
        return wrap_as(t, type);
    });
}
int tensor_init(PyObject*, PyObject*, PyObject*) { return 0; }

// ---- operators ------------------------------------------------------------------------------------------------------

bool is_operand(PyObject* o) {
    if (is_tensor(o)) return true;
    Scalar s;
    return scalar_of(o, s);
}

// NumPy arrays take part in operators as tensors on the same memory.
Owned operand(PyObject* o) {
    if (is_tensor(o) || !is_numpy_array(o)) return Owned::borrow(o);
    Owned module(ok(in_python<PyImport_ImportModule>("flambeau")));
    Owned from_numpy(ok(in_python<PyObject_GetAttrString>(module.get(), "from_numpy")));
    return Owned(ok(in_python<PyObject_CallOneArg>(from_numpy.get(), o)));
}

PyObject* binary(OpHandle*& op, const char* name, PyObject* x, PyObject* y, bool inplace = false) {
    return guarded([&]() -> PyObject* {
        if (!op) op = find_op(name);
        if (!op) fail_state("operator '", name, "' is not available");
        Owned a = operand(x), b = operand(y);
        PyObject* args[] = {a.get(), b.get()};
        if ((!is_operand(args[0]) || !is_operand(args[1])) && !overridden(args, 2)) Py_RETURN_NOTIMPLEMENTED;
        return call_op(op, inplace, args, 2);
    });
}
PyObject* unary(OpHandle*& op, const char* name, PyObject* x) {
    return guarded([&]() -> PyObject* {
        if (!op) op = find_op(name);
        if (!op) fail_state("operator '", name, "' is not available");
        return call_op(op, false, &x, 1);
    });
}

#define BINARY(slot, name)                               \
    PyObject* slot(PyObject* a, PyObject* b) {           \
        static OpHandle* op = nullptr;                   \
        return binary(op, name, a, b);                   \
    }                                                    \
    PyObject* inplace_##slot(PyObject* a, PyObject* b) { \
        static OpHandle* op = nullptr;                   \
        return binary(op, name, a, b, true);             \
    }
BINARY(op_add, "add")
BINARY(op_sub, "sub")
BINARY(op_mul, "mul")
BINARY(op_div, "true_divide")
BINARY(op_floordiv, "floor_divide")
BINARY(op_mod, "remainder")
BINARY(op_pow, "pow")
BINARY(op_and, "bitwise_and")
BINARY(op_or, "bitwise_or")
BINARY(op_xor, "bitwise_xor")
BINARY(op_lshift, "bitwise_left_shift")
BINARY(op_rshift, "bitwise_right_shift")

PyObject* op_matmul(PyObject* a, PyObject* b) {
    static OpHandle* op = nullptr;
    auto takes_part = [](PyObject* o) { return is_tensor(o) || is_numpy_array(o) || overridden(&o, 1); };
    if (!takes_part(a) || !takes_part(b)) Py_RETURN_NOTIMPLEMENTED;
    return binary(op, "matmul", a, b);
}
PyObject* op_power(PyObject* a, PyObject* b, PyObject* modulus) {
    if (modulus != Py_None) {
        PyErr_SetString(PyExc_TypeError, "pow: a modulus is not supported for tensors; use remainder(pow(x, y), m)");
        return nullptr;
    }
    return op_pow(a, b);
}
PyObject* inplace_power(PyObject* a, PyObject* b, PyObject* modulus) {
    if (modulus != Py_None) return op_power(a, b, modulus);
    return inplace_op_pow(a, b);
}
PyObject* op_neg(PyObject* a) {
    static OpHandle* op = nullptr;
    return unary(op, "neg", a);
}
PyObject* op_pos(PyObject* a) {
    static OpHandle* op = nullptr;
    return unary(op, "positive", a);
}
PyObject* op_abs(PyObject* a) {
    static OpHandle* op = nullptr;
    return unary(op, "abs", a);
}
PyObject* op_invert(PyObject* a) {
    static OpHandle* op = nullptr;
    return unary(op, "bitwise_not", a);
}

PyObject* tensor_compare(PyObject* a, PyObject* b, int op) {
    static OpHandle* ops[6];
    static const char* const names[] = {"lt", "le", "eq", "ne", "gt", "ge"};
    return binary(ops[op], names[op], a, b);
}

Scalar single(PyObject* o, const char* name) {
    OpScope scope(name);
    return fb::item(tensor_of(o));
}
int op_bool(PyObject* o) {
    return guarded_int([&] {
        OpScope scope("bool");
        Tensor t = tensor_of(o);
        check(t.numel() != 0,
              "the truth value of an empty tensor (Boolean value of Tensor with no values) is ambiguous; use x.numel() "
              "> 0");
        check(t.numel() == 1, "the truth value of a tensor of shape ", t.shape(),
              " (Boolean value of Tensor with more than one value) is ambiguous; use x.any() or x.all()");
        return static_cast<int>(fb::item(t).to<bool>());
    });
}
PyObject* op_int(PyObject* o) {
    return guarded([&]() -> PyObject* {
        Scalar s = single(o, "int");
        if (s.kind == Kind::Complex) fail_type("a complex number cannot be converted to int; use .real first");
        if (s.kind == Kind::Floating) return ok(PyLong_FromDouble(s.re));
        return s.kind == Kind::Bool ? PyLong_FromLong(s.i != 0) : wrap(s);
    });
}
PyObject* op_float(PyObject* o) {
    return guarded([&]() -> PyObject* {
        Scalar s = single(o, "float");
        if (s.kind == Kind::Complex) fail_type("a complex number cannot be converted to float; use .real first");
        return PyFloat_FromDouble(s.re);
    });
}
PyObject* op_index(PyObject* o) {
    return guarded([&]() -> PyObject* {
        Tensor t = tensor_of(o);
        OpScope scope("index");
        if (t.numel() != 1 || !is_integral_or_bool(t.dtype())) {
            fail_type("only integer tensors of a single element can be converted to an index, got ", t.dtype(),
                      " of shape ", t.shape());
        }
        Scalar s = fb::item(t);
        return s.kind == Kind::Bool ? PyLong_FromLong(s.i != 0) : wrap(s);
    });
}

Py_ssize_t tensor_length(PyObject* o) {
    try {
        OpScope scope("len");
        Tensor t = tensor_of(o);
        if (t.dim() == 0) fail_type("a 0-d tensor has no len()");
        return t.shape()[0];
    } catch (...) {
        translate_exception();
        return -1;
    }
}

// ---- fast properties and methods ------------------------------------------------------------------------------------

PyObject* get_shape(PyObject* o, void*) {
    return guarded([&] { return wrap_size(cast(o)->impl->shape); });
}
PyObject* get_dtype(PyObject* o, void*) { return wrap(cast(o)->impl->dtype); }
PyObject* get_device(PyObject* o, void*) {
    return guarded([&] { return wrap(cast(o)->impl->storage->device()); });
}
PyObject* get_ndim(PyObject* o, void*) { return PyLong_FromLongLong(cast(o)->impl->shape.size()); }
PyObject* get_itemsize(PyObject* o, void*) { return PyLong_FromLong(itemsize(cast(o)->impl->dtype)); }
PyObject* get_nbytes(PyObject* o, void*) {
    return PyLong_FromLongLong(cast(o)->impl->numel * itemsize(cast(o)->impl->dtype));
}
PyObject* get_version(PyObject* o, void*) {
    if (cast(o)->impl->inference) {
        PyErr_SetString(PyExc_RuntimeError,
                        "Inference tensors do not track version counter; clone() the tensor outside of inference_mode");
        return nullptr;
    }
    return PyLong_FromUnsignedLongLong(cast(o)->impl->storage->version());
}
PyObject* get_cdata(PyObject* o, void*) { return PyLong_FromVoidPtr(cast(o)->impl); }
PyObject* get_read_only(PyObject* o, void*) { return PyBool_FromLong(cast(o)->impl->storage->read_only()); }

PyObject* one_of(PyObject* args, PyObject* kwargs, const Dims& values, const char* name, bool as_size) {
    static const char* names[] = {"dim", nullptr};
    PyObject* dim = Py_None;
    std::string format = std::string("|O:") + name;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format.c_str(), const_cast<char**>(names), &dim)) return nullptr;
    return guarded([&]() -> PyObject* {
        OpScope scope(name);
        if (dim == Py_None) return as_size ? wrap_size(values) : wrap_tuple(values);
        int64_t d;
        if (!int_of(dim, d)) fail_type("dim must be an int, got ", Py_TYPE(dim)->tp_name);
        if (values.empty()) fail_index("dimension specified as ", d, " but the tensor has no dimensions");
        return PyLong_FromLongLong(values[wrap_dim(d, values.size())]);
    });
}
PyObject* m_size(PyObject* o, PyObject* args, PyObject* kwargs) {
    return one_of(args, kwargs, cast(o)->impl->shape, "size", true);
}
PyObject* m_stride(PyObject* o, PyObject* args, PyObject* kwargs) {
    return guarded([&] { return one_of(args, kwargs, settled(o).strides(), "stride", false); });
}
PyObject* m_dim(PyObject* o, PyObject*) { return get_ndim(o, nullptr); }
PyObject* m_numel(PyObject* o, PyObject*) { return PyLong_FromLongLong(cast(o)->impl->numel); }
PyObject* m_element_size(PyObject* o, PyObject*) { return get_itemsize(o, nullptr); }
PyObject* m_data_ptr(PyObject* o, PyObject*) {
    return guarded([&] {
        Tensor t = settled(o);
        return PyLong_FromVoidPtr(t.numel() && has_values(t) ? t.raw() : nullptr);
    });
}
PyObject* m_storage_offset(PyObject* o, PyObject*) {
    return guarded([&] { return PyLong_FromLongLong(settled(o).offset()); });
}
PyObject* m_storage_nbytes(PyObject* o, PyObject*) {
    return guarded([&] { return PyLong_FromSize_t(settled(o).storage().bytes()); });
}
PyObject* m_storage_ptr(PyObject* o, PyObject*) {
    return guarded([&] {
        Tensor t = settled(o);
        return PyLong_FromVoidPtr(has_values(t) ? t.storage().data() : nullptr);
    });
}
PyObject* m_is_floating(PyObject* o, PyObject*) { return PyBool_FromLong(is_floating_point(cast(o)->impl->dtype)); }
PyObject* m_is_complex(PyObject* o, PyObject*) { return PyBool_FromLong(is_complex(cast(o)->impl->dtype)); }
PyObject* m_is_signed(PyObject* o, PyObject*) { return PyBool_FromLong(info(cast(o)->impl->dtype).is_signed); }
PyObject* m_is_contiguous(PyObject* o, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    return guarded([&]() -> PyObject* {
        if (nargs == 0 && !kwnames) return PyBool_FromLong(settled(o).is_contiguous());
        OpScope scope("is_contiguous");
        Param param;
        param.type = ArgType::MemoryFormat;
        Value value;
        bool named = kwnames && PyTuple_Size(kwnames) == 1 && all_items(kwnames, [](PyObject* name) {
                         return PyUnicode_CompareWithASCIIString(name, "memory_format") == 0;
                     });
        if (nargs + (named ? 1 : 0) != 1 || (kwnames && !named)) fail_type("takes one argument, memory_format");
        if (!convert_arg(args[0], param, value))
            fail_type("memory_format must be a memory_format, got ", Py_TYPE(args[0])->tp_name);
        Tensor t = settled(o);
        int64_t format = std::get<Scalar>(value).i;
        // PyTorch returns the same for preserve_format as for contiguous_format.
        if (format == 0 || format == 1) return PyBool_FromLong(t.is_contiguous());
        if (t.dim() != format + 2) Py_RETURN_FALSE;
        Dims order{0};
        for (int64_t d = 2; d < t.dim(); d++) order.push_back(d);
        order.push_back(1);
        return PyBool_FromLong(permute(t, order).is_contiguous());
    });
}
PyObject* m_row_major(PyObject* o, PyObject*) {
    return guarded([&] { return PyBool_FromLong(settled(o).is_contiguous()); });
}
PyObject* m_item(PyObject* o, PyObject*) {
    return guarded([&] { return wrap(single(o, "item")); });
}
PyObject* m_as_subclass(PyObject* o, PyObject* type) {
    return guarded([&]() -> PyObject* {
        OpScope scope("as_subclass");
        if (!PyType_Check(type) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), tensor_type))
            fail_type(
                "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure "
                "your "
                "class inherits from Tensor.");
        Tensor t = settled(o);
        Tensor same = should_record({t}) ? call<"view_as">(Var(t), Var(t)).tensor
                                         : make_view(t.storage_ref(), t.dtype(), t.shape(), t.strides(), t.offset());
        return wrap_as(same, reinterpret_cast<PyTypeObject*>(type));
    });
}
// Makes this handle refer to another tensor's data: `x.data = y`, set_().
PyObject* m_set_impl(PyObject* o, PyObject* other) {
    return guarded([&]() -> PyObject* {
        if (!is_tensor(other)) fail_type("expected a tensor, got ", Py_TYPE(other)->tp_name);
        Tensor to = settled(o), from = settled(other);
        // A class that handles calls stores state in its objects that the memory does not have.
        if (from.impl()->functorial && Py_TYPE(o) != Py_TYPE(other))
            fail_type("the data of a ", Py_TYPE(other)->tp_name, " cannot become that of a ", Py_TYPE(o)->tp_name,
                      "; convert it first, say with to_dense()");
        replace_contents(to, from);
        to.impl()->functorial = from.impl()->functorial;
        Py_RETURN_NONE;
    });
}
// Exchanges the data of two objects, history and gradient included; the objects keep class and attributes.
PyObject* m_swap_impl(PyObject* o, PyObject* other) {
    return guarded([&]() -> PyObject* {
        if (!is_tensor(other)) fail_type("expected a tensor, got ", Py_TYPE(other)->tp_name);
        PyTensor *a = cast(o), *b = cast(other);
        exclusively([&] {
            std::swap(a->impl, b->impl);
            if (a->impl == b->impl) return;
            // The tensor may have further Python objects; they are not changed.
            bool known = a->impl->pyobj == b, other_known = b->impl->pyobj == a;
            if (known) a->impl->pyobj = a;
            if (other_known) b->impl->pyobj = b;
        });
        Py_RETURN_NONE;
    });
}
// Number of references held by the core, including this object's.
PyObject* m_use_count(PyObject* o, PyObject*) { return PyLong_FromLongLong(cast(o)->impl->use_count()); }

PyGetSetDef getset[] = {
    {"shape", get_shape, nullptr, "Sizes of the dimensions, a Size.", nullptr},
    {"dtype", get_dtype, nullptr, "The element type.", nullptr},
    {"device", get_device, nullptr, "Where the tensor lives.", nullptr},
    {"ndim", get_ndim, nullptr, "Number of dimensions.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes per element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements together.", nullptr},
    {"_version", get_version, nullptr, "How often the memory was written to in place.", nullptr},
    {"_cdata", get_cdata, nullptr, "The address of what the core holds; swap_tensors() exchanges it.", nullptr},
    {"_read_only", get_read_only, nullptr, "Whether writing is refused.", nullptr},
    {"__dict__", get_dict, PyObject_GenericSetDict, nullptr, nullptr},
    {}};

#define KEYWORDS(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)), METH_VARARGS | METH_KEYWORDS
PyMethodDef methods[] = {
    {"size", KEYWORDS(m_size),
     "size(dim=None)\n\nThe shape, or the size of one dimension.\n\nExample:\n    >>> fb.zeros(2, 3).size(1)\n    3\n"},
    {"stride", KEYWORDS(m_stride),
     "stride(dim=None)\n\nSteps in elements between neighbours along each dimension, or along one.\n\nExample:\n    "
     ">>> fb.zeros(2, 3).stride()\n    (3, 1)\n"},
    {"dim", m_dim, METH_NOARGS, "dim()\n\nNumber of dimensions.\n\nExample:\n    >>> fb.zeros(2, 3).dim()\n    2\n"},
    {"ndimension", m_dim, METH_NOARGS,
     "ndimension()\n\nNumber of dimensions.\n\nExample:\n    >>> fb.zeros(2, 3).ndimension()\n    2\n"},
    {"numel", m_numel, METH_NOARGS,
     "numel()\n\nNumber of elements.\n\nExample:\n    >>> fb.zeros(2, 3).numel()\n    6\n"},
    {"nelement", m_numel, METH_NOARGS,
     "nelement()\n\nNumber of elements.\n\nExample:\n    >>> fb.zeros(2, 3).nelement()\n    6\n"},
    {"element_size", m_element_size, METH_NOARGS,
     "element_size()\n\nBytes per element.\n\nExample:\n    >>> fb.zeros(2).element_size()\n    4\n"},
    {"data_ptr", m_data_ptr, METH_NOARGS,
     "data_ptr()\n\nAddress of the first element; 0 for an empty tensor.\n\nExample:\n    >>> fb.empty(0).data_ptr()\n "
     "   0\n"},
    {"storage_offset", m_storage_offset, METH_NOARGS,
     "storage_offset()\n\nElements before the first one in the storage.\n\nExample:\n    >>> "
     "fb.arange(5)[2:].storage_offset()\n    2\n"},
    {"_storage_nbytes", m_storage_nbytes, METH_NOARGS, "Bytes of the storage."},
    {"_storage_ptr", m_storage_ptr, METH_NOARGS, "Address of the storage."},
    {"is_floating_point", m_is_floating, METH_NOARGS,
     "is_floating_point()\n\nWhether the dtype is a real floating point type.\n\nExample:\n    >>> "
     "fb.zeros(2).is_floating_point()\n    True\n"},
    {"is_complex", m_is_complex, METH_NOARGS,
     "is_complex()\n\nWhether the dtype is complex.\n\nExample:\n    >>> fb.zeros(2).is_complex()\n    False\n"},
    {"is_signed", m_is_signed, METH_NOARGS,
     "is_signed()\n\nWhether the dtype can hold negative numbers.\n\nExample:\n    >>> fb.zeros(2).is_signed()\n    "
     "True\n"},
    {"is_contiguous", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(m_is_contiguous)),
     METH_FASTCALL | METH_KEYWORDS,
     "is_contiguous(memory_format=contiguous_format)\n\nWhether the elements lie in memory in the given order without "
     "gaps.\n\nExample:\n    >>> fb.zeros(2, 3).t().is_contiguous()\n    False\n"},
    {"_is_row_major", m_row_major, METH_NOARGS, "Whether the elements lie in row-major order without gaps."},
    {"item", m_item, METH_NOARGS,
     "item()\n\nThe only element as a Python number.\n\nExample:\n    >>> fb.tensor(2.5).item()\n    2.5\n"},
    {"as_subclass", m_as_subclass, METH_O,
     "as_subclass(cls)\n\nThe same data as an object of a subclass of Tensor.\n\nExample:\n    >>> class "
     "MyTensor(fb.Tensor): ...\n    >>> type(fb.zeros(2).as_subclass(MyTensor)).__name__\n    'MyTensor'\n"},
    {"_set_impl", m_set_impl, METH_O, "Makes this tensor stand for another one's data."},
    {"_swap_impl", m_swap_impl, METH_O, "Exchanges what two tensors stand for; see utils.swap_tensors()."},
    {"_use_count", m_use_count, METH_NOARGS, "How many references to this tensor there are below Python."},
    {}};

PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(PyTensor, weakrefs), READONLY, nullptr},
                         {"__dictoffset__", T_PYSSIZET, offsetof(PyTensor, dict), READONLY, nullptr},
                         {}};

#define SLOT(id, f) {id, reinterpret_cast<void*>(f)}
PyType_Slot slots[] = {SLOT(Py_tp_new, tensor_new),
                       SLOT(Py_tp_init, tensor_init),
                       SLOT(Py_tp_dealloc, tensor_dealloc),
                       SLOT(Py_tp_traverse, tensor_traverse),
                       SLOT(Py_tp_clear, tensor_clear),
                       SLOT(Py_tp_setattro, tensor_setattro),
                       SLOT(Py_tp_hash, _Py_HashPointer),
                       SLOT(Py_tp_richcompare, tensor_compare),
                       SLOT(Py_tp_getset, getset),
                       SLOT(Py_tp_methods, methods),
                       SLOT(Py_tp_members, members),
                       SLOT(Py_nb_add, op_add),
                       SLOT(Py_nb_subtract, op_sub),
                       SLOT(Py_nb_multiply, op_mul),
                       SLOT(Py_nb_true_divide, op_div),
                       SLOT(Py_nb_floor_divide, op_floordiv),
                       SLOT(Py_nb_remainder, op_mod),
                       SLOT(Py_nb_power, op_power),
                       SLOT(Py_nb_matrix_multiply, op_matmul),
                       SLOT(Py_nb_and, op_and),
                       SLOT(Py_nb_or, op_or),
                       SLOT(Py_nb_xor, op_xor),
                       SLOT(Py_nb_lshift, op_lshift),
                       SLOT(Py_nb_rshift, op_rshift),
                       SLOT(Py_nb_inplace_add, inplace_op_add),
                       SLOT(Py_nb_inplace_subtract, inplace_op_sub),
                       SLOT(Py_nb_inplace_multiply, inplace_op_mul),
                       SLOT(Py_nb_inplace_true_divide, inplace_op_div),
                       SLOT(Py_nb_inplace_floor_divide, inplace_op_floordiv),
                       SLOT(Py_nb_inplace_remainder, inplace_op_mod),
                       SLOT(Py_nb_inplace_power, inplace_power),
                       SLOT(Py_nb_inplace_and, inplace_op_and),
                       SLOT(Py_nb_inplace_or, inplace_op_or),
                       SLOT(Py_nb_inplace_xor, inplace_op_xor),
                       SLOT(Py_nb_inplace_lshift, inplace_op_lshift),
                       SLOT(Py_nb_inplace_rshift, inplace_op_rshift),
                       SLOT(Py_nb_negative, op_neg),
                       SLOT(Py_nb_positive, op_pos),
                       SLOT(Py_nb_absolute, op_abs),
                       SLOT(Py_nb_invert, op_invert),
                       SLOT(Py_nb_bool, op_bool),
                       SLOT(Py_nb_int, op_int),
                       SLOT(Py_nb_float, op_float),
                       SLOT(Py_nb_index, op_index),
                       SLOT(Py_mp_length, tensor_length),
                       SLOT(Py_mp_subscript, tensor_getitem),
                       SLOT(Py_mp_ass_subscript, tensor_setitem),
                       SLOT(Py_bf_getbuffer, tensor_getbuffer),
                       SLOT(Py_bf_releasebuffer, tensor_releasebuffer),
                       {0, nullptr}};

}  // namespace

PyObject* wrap(const Tensor& t) {
    TensorImpl* impl = t.impl();
    if (impl->owns_pyobj) {
        // Back to Python: see Note [Objects kept by the core].
        impl->owns_pyobj = false;
        impl->retain();
        auto* object = static_cast<PyObject*>(impl->pyobj);
        PyObject_GC_Track(object);
        return object;
    }
    if (impl->pyobj) return Py_NewRef(static_cast<PyObject*>(impl->pyobj));
    impl->wrapped_number = false;
    return make(tensor_type, impl);
}

PyObject* wrap_as(const Tensor& t, PyTypeObject* type) {
    // A heap type's instances own a reference to it; PyObject_GC_New takes it.
    Owned object(make(type, t.impl()));
    if (type != tensor_type) PyObject_GC_Track(object.get());
    return object.release();
}

void add_tensor_type(PyObject* module) {
    TensorImpl::release_object = release_kept;
    PyType_Spec spec = {"flambeau.Tensor", sizeof(PyTensor), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
    PyObject* type = ok(PyType_FromSpec(&spec));
    tensor_type = reinterpret_cast<PyTypeObject*>(type);
    for (PyGetSetDef* def = autograd_getset; def->name; def++) {
        Owned descriptor(ok(PyDescr_NewGetSet(tensor_type, def)));
        ok(PyDict_SetItemString(tensor_type->tp_dict, def->name, descriptor.get()));
    }
    for (PyMethodDef* def = autograd_methods; def->ml_name; def++) {
        Owned descriptor(ok(PyDescr_NewMethod(tensor_type, def)));
        ok(PyDict_SetItemString(tensor_type->tp_dict, def->ml_name, descriptor.get()));
    }
    PyType_Modified(tensor_type);
    ok(PyModule_AddObjectRef(module, "Tensor", type));
}

}  // namespace fb::py
