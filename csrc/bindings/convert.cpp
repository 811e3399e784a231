#include "bindings/convert.h"

#include <cstring>

#include "bindings/items.h"

namespace fb::py {

bool is_numpy_array(PyObject* o) {
    const char* type = Py_TYPE(o)->tp_name;
    return std::strcmp(type, "numpy.ndarray") == 0;
}

static bool has_numpy_scalar_type(PyObject* o) { return std::strncmp(Py_TYPE(o)->tp_name, "numpy.", 6) == 0; }

// Whether a failed conversion means that the object does not fit. Errors of the user's own code propagate.
static bool does_not_fit() {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw PythonError{};
    PyErr_Clear();
    return false;
}

static Scalar scalar_of_long(PyObject* o) {
    int overflow = 0;
    long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (v == -1 && PyErr_Occurred()) throw PythonError{};
    if (!overflow) return Scalar(static_cast<int64_t>(v));
    if (overflow > 0) {
        unsigned long long u = PyLong_AsUnsignedLongLong(o);
        if (!(u == static_cast<unsigned long long>(-1) && PyErr_Occurred())) return Scalar(static_cast<uint64_t>(u));
        PyErr_Clear();
    }
    PyErr_SetString(PyExc_OverflowError, "Python integer does not fit in 64 bits (Overflow when unpacking long)");
    throw PythonError{};
}

bool scalar_of(PyObject* o, Scalar& out) {
    if (PyFloat_Check(o)) {
        out = Scalar(PyFloat_AS_DOUBLE(o));
        return true;
    }
    if (PyBool_Check(o)) {
        out = Scalar(o == Py_True);
        return true;
    }
    if (PyLong_Check(o)) {
        out = scalar_of_long(o);
        return true;
    }
    if (PyComplex_Check(o)) {
        out = Scalar(c128(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)));
        return true;
    }
    if (is_tensor(o) || !has_numpy_scalar_type(o) || is_numpy_array(o)) {
        // Any other object that is an integer by protocol (not Fraction and Decimal: these need float()).
        if (!is_tensor(o) && PyIndex_Check(o) && !is_numpy_array(o)) {
            Owned number(in_python<PyNumber_Index>(o));
            if (!number) return does_not_fit();
            out = scalar_of_long(number.get());
            return true;
        }
        return false;
    }
    // NumPy scalars: item() returns the Python number of the same kind.
    Owned item(in_python<PyObject_CallMethod>(o, "item", nullptr));
    if (!item) return does_not_fit();
    if (has_numpy_scalar_type(item.get())) return false;  // longdouble returns itself
    return scalar_of(item.get(), out);
}

bool int_of(PyObject* o, int64_t& out) {
    if (PyLong_Check(o)) {
        Scalar s = scalar_of_long(o);
        if (s.u) {
            PyErr_SetString(PyExc_OverflowError, "integer argument does not fit in a signed 64-bit number");
            throw PythonError{};
        }
        out = s.i;
        return true;
    }
    if (PyFloat_Check(o)) return false;
    if (is_tensor(o)) {
        Tensor t = tensor_of(o);
        if (t.numel() != 1 || !is_integral_or_bool(t.dtype())) return false;
        out = fb::item(t).i;
        return true;
    }
    if (!PyIndex_Check(o)) return false;
    Owned number(in_python<PyNumber_Index>(o));
    if (!number) return does_not_fit();
    return int_of(number.get(), out);
}

bool dims_of(PyObject* o, Dims& out) {
    int64_t single;
    if (is_tuple_or_list(o)) {
        out = Dims();
        auto add = [&](PyObject* item) {
            if (!int_of(item, single)) return false;
            out.push_back(single);
            return true;
        };
        if (all_items(o, [&](PyObject* item) { return PyLong_CheckExact(item) && add(item); })) return true;
        out = Dims();
        for (PyObject* item : Items(o)) {
            if (!add(item)) return false;
        }
        return true;
    }
    if (is_tensor(o)) {
        Tensor t = tensor_of(o);
        if (t.dim() == 1 && is_integral(t.dtype())) {
            Owned list(in_python<PySequence_List>(o));
            if (!list) return does_not_fit();
            return dims_of(list.get(), out);
        }
    }
    if (PyBool_Check(o) || !int_of(o, single)) return false;
    out = Dims{single};
    return true;
}

static bool dtype_arg(PyObject* o, Value& out) {
    if (is_dtype(o)) out = dtype_of(o);
    else if (o == reinterpret_cast<PyObject*>(&PyFloat_Type)) out = DType::F64;
    else if (o == reinterpret_cast<PyObject*>(&PyLong_Type)) out = DType::I64;
    else if (o == reinterpret_cast<PyObject*>(&PyBool_Type)) out = DType::Bool;
    else if (o == reinterpret_cast<PyObject*>(&PyComplex_Type)) out = DType::C128;
    else return false;
    return true;
}

static bool device_arg(PyObject* o, Value& out) {
    if (Py_IS_TYPE(o, device_type)) out = device_of(o);
    else if (PyUnicode_Check(o)) out = parse_device(text_of(o));
    else return false;
    return true;
}

// layout and memory_format objects are small Python enums with an integer `code`.
static bool code_arg(PyObject* o, const char* type, long count, Value& out) {
    if (std::strstr(Py_TYPE(o)->tp_name, type) == nullptr) return false;
    Owned code(in_python<PyObject_GetAttrString>(o, "code"));
    if (!code) {
        PyErr_Clear();
        return false;
    }
    long number = PyLong_Check(code.get()) ? PyLong_AsLong(code.get()) : -1;
    if (number < 0 || number >= count) {
        PyErr_Clear();
        return false;
    }
    out = Scalar(static_cast<int64_t>(number));
    return true;
}

bool convert_arg(PyObject* o, const Param& param, Value& out) {
    if (o == Py_None && param.type != ArgType::Any) {
        out = Value();
        return param.optional;
    }
    Scalar s;
    int64_t i;
    switch (param.type) {
        case ArgType::Tensor:
            if (!is_tensor(o)) return false;
            out = tensor_of(o);
            return true;
        case ArgType::Operand:
            if (is_tensor(o)) {
                out = tensor_of(o);
                return true;
            }
            if (!scalar_of(o, s)) return false;
            out = scalar_tensor(s,
                                s.kind == Kind::Floating  ? DType::F64
                                : s.kind == Kind::Complex ? DType::C128
                                                          : fb::dtype_of(s),
                                true);
            return true;
        case ArgType::TensorList: {
            if (!is_tuple_or_list(o)) return false;
            std::vector<Tensor> list;
            auto add = [&](PyObject* item) {
                if (!is_tensor(item)) return false;
                list.push_back(tensor_of(item));
                return true;
            };
            if (!all_items(o, add)) return false;
            out = std::move(list);
            return true;
        }
        case ArgType::Scalar:
            if (is_tensor(o)) {
                Tensor t = tensor_of(o);
                if (t.dim() != 0) return false;
                out = fb::item(t);
                return true;
            }
            if (!scalar_of(o, s)) return false;
            out = s;
            return true;
        case ArgType::Int:
            if (!int_of(o, i)) return false;
            out = Scalar(i);
            return true;
        case ArgType::IntList: {
            Dims dims;
            if (!dims_of(o, dims)) return false;
            out = std::move(dims);
            return true;
        }
        case ArgType::Float:
            if (is_tensor(o)) {
                Tensor t = tensor_of(o);
                if (t.numel() != 1 || is_complex(t.dtype())) return false;
                s = fb::item(t);
            } else if (!scalar_of(o, s) || s.kind == Kind::Complex) {
                return false;
            }
            out = Scalar(s.re);
            return true;
        case ArgType::Bool:
            if (PyBool_Check(o)) {
                out = Scalar(o == Py_True);
                return true;
            }
            if (has_numpy_scalar_type(o) && scalar_of(o, s) && s.kind == Kind::Bool) {
                out = s;
                return true;
            }
            return false;
        case ArgType::Str:
            if (!PyUnicode_Check(o)) return false;
            out = std::string(text_of(o));
            return true;
        case ArgType::DType:
            return dtype_arg(o, out);
        case ArgType::Device:
            return device_arg(o, out);
        case ArgType::Layout:
            return code_arg(o, "layout", 16, out);
        case ArgType::MemoryFormat:
            return code_arg(o, "memory_format", 4, out);
        case ArgType::Generator:
            if (!Py_IS_TYPE(o, generator_type)) return false;
            out = generator_of(o);
            return true;
        case ArgType::Any:
            out = Object{o};
            return true;
    }
    return false;
}

PyObject* wrap(const Scalar& s) {
    switch (s.kind) {
        case Kind::Bool:
            return PyBool_FromLong(s.i != 0);
        case Kind::Integral:
            return s.u ? PyLong_FromUnsignedLongLong(static_cast<uint64_t>(s.i)) : PyLong_FromLongLong(s.i);
        case Kind::Floating:
            return PyFloat_FromDouble(s.re);
        default:
            return PyComplex_FromDoubles(s.re, s.im);
    }
}

PyObject* wrap_tuple(const Dims& values) {
    Owned tuple(ok(PyTuple_New(values.size())));
    for (int64_t i = 0; i < values.size(); i++) PyTuple_SET_ITEM(tuple.get(), i, ok(PyLong_FromLongLong(values[i])));
    return tuple.release();
}

PyObject* wrap_size(const Dims& shape) {
    // Filled directly: calling Size(...) would build every shape twice.
    Owned size(ok(size_type->tp_alloc(size_type, shape.size())));
    for (int64_t i = 0; i < shape.size(); i++) PyTuple_SET_ITEM(size.get(), i, ok(PyLong_FromLongLong(shape[i])));
    return size.release();
}

PyObject* wrap_value(const Value& value) {
    struct Visitor {
        PyObject* operator()(std::monostate) { Py_RETURN_NONE; }
        PyObject* operator()(const Tensor& t) {
            if (!t) Py_RETURN_NONE;
            return wrap(t);
        }
        PyObject* operator()(const std::vector<Tensor>& list) {
            Owned tuple(ok(PyTuple_New(static_cast<Py_ssize_t>(list.size()))));
            for (size_t i = 0; i < list.size(); i++) PyTuple_SET_ITEM(tuple.get(), i, ok((*this)(list[i])));
            return tuple.release();
        }
        PyObject* operator()(const Scalar& s) { return wrap(s); }
        PyObject* operator()(const Dims& dims) { return wrap_size(dims); }
        PyObject* operator()(DType d) { return wrap(d); }
        PyObject* operator()(Device d) { return wrap(d); }
        PyObject* operator()(const std::string& s) {
            return PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size()));
        }
        PyObject* operator()(const Ref<Generator>& g) { return wrap(g); }
        PyObject* operator()(Object o) { return Py_NewRef(static_cast<PyObject*>(o.ptr)); }
    };
    return ok(std::visit(Visitor{}, value));
}

}  // namespace fb::py
