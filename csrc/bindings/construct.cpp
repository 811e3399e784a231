// tensor(data): nested sequences of numbers to a tensor, and back with tolist().
#include "bindings/convert.h"
#include "bindings/python.h"
#include "ops/common.h"

namespace fb::py {
namespace {

bool is_sequence(PyObject* o) {
    return PyList_Check(o) || PyTuple_Check(o) ||
           (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !is_tensor(o));
}

// First pass: the shape from the first element of each level, the kind from all leaves.
struct Survey {
    Dims shape;
    Kind kind = Kind::Bool;
    bool any = false;
    bool u64 = false;
    std::optional<DType> tensor_dtype;  // leaves that are tensors or NumPy scalars bring their own
};

void note_dtype(Survey& survey, DType d) {
    survey.tensor_dtype = survey.tensor_dtype ? promote(*survey.tensor_dtype, d) : d;
    survey.any = true;
}

void survey_shape(PyObject* o, Survey& survey) {
    while (true) {
        if (is_tensor(o)) {
            for (int64_t n : tensor_of(o).shape()) survey.shape.push_back(n);
            return;
        }
        if (!is_sequence(o)) return;
        check(survey.shape.size() < max_dims, "the data is nested more than ", max_dims, " levels deep");
        Owned sequence(ok(PySequence_Fast(o, "data must be a sequence")));
        Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence.get());
        survey.shape.push_back(n);
        if (n == 0) return;
        o = PySequence_Fast_GET_ITEM(sequence.get(), 0);
    }
}

void survey_kinds(PyObject* o, int64_t depth, Survey& survey) {
    int64_t ndim = survey.shape.size();
    if (is_tensor(o)) {
        Tensor t = readable(o);
        check(t.dim() == ndim - depth, "expected a tensor of ", ndim - depth, " dimensions at depth ", depth,
              " of the data, got shape ", t.shape());
        for (int64_t d = 0; d < t.dim(); d++) {
            check(t.shape()[d] == survey.shape[depth + d], "tensors of different shapes in the data: ", t.shape(),
                  " does not fit ", survey.shape);
        }
        note_dtype(survey, t.dtype());
        return;
    }
    if (is_sequence(o)) {
        Owned sequence(ok(PySequence_Fast(o, "data must be a sequence")));
        Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence.get());
        check(depth < ndim, "the data is ragged: a number and a sequence at the same depth ", depth);
        check(n == survey.shape[depth], "expected sequence of length ", survey.shape[depth], " at dim ", depth,
              " (got ", n, "): the data is ragged");
        for (Py_ssize_t i = 0; i < n; i++) survey_kinds(PySequence_Fast_GET_ITEM(sequence.get(), i), depth + 1, survey);
        return;
    }
    check(depth == ndim, "the data is ragged: a number at depth ", depth, " where a sequence was expected");
    Scalar s;
    if (!scalar_of(o, s))
        fail_type("could not infer dtype of ", Py_TYPE(o)->tp_name,
                  "; expected numbers, nested sequences of numbers, tensors or NumPy arrays");
    survey.any = true;
    survey.kind = std::max(survey.kind, s.kind);
    survey.u64 |= s.u;
}

template <class T>
void fill_from(PyObject* o, T*& to) {
    if (is_tensor(o)) {
        Tensor t = contiguous(to_dtype(readable(o), fb::dtype_of<T>()));
        std::copy_n(t.data<T>(), t.numel(), to);
        to += t.numel();
        return;
    }
    if (is_sequence(o)) {
        Owned sequence(ok(PySequence_Fast(o, "data must be a sequence")));
        Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence.get());
        for (Py_ssize_t i = 0; i < n; i++) fill_from(PySequence_Fast_GET_ITEM(sequence.get(), i), to);
        return;
    }
    Scalar s;
    if (!scalar_of(o, s)) fail_type("could not read a number from ", Py_TYPE(o)->tp_name);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        if (s.kind == Kind::Floating && !(s.re == s.re && s.re > -9.3e18 && s.re < 1.9e19)) {
            fail_value("cannot convert float ", s.re, " to ", fb::dtype_of<T>());
        }
        if (s.is_integral()) {
            bool fits =
                s.u ? std::is_same_v<T, uint64_t>
                    : (std::is_unsigned_v<T> && sizeof(T) == 8) || (s.i >= int64_t(std::numeric_limits<T>::min()) &&
                                                                    s.i <= int64_t(std::numeric_limits<T>::max()));
            // Negative numbers wrap into unsigned types, as in PyTorch; anything else out of range is an error.
            if (!fits &&
                !(std::is_unsigned_v<T> && !s.u && s.i < 0 && s.i >= -int64_t(std::numeric_limits<T>::max()))) {
                fail_value("value cannot be converted to type ", fb::dtype_of<T>(), " without overflow: ", s.i);
            }
        }
    }
    if constexpr (!is_complex_type<T> && !std::is_same_v<T, bool>) {
        if (s.kind == Kind::Complex) fail_type("a complex number cannot be stored as ", fb::dtype_of<T>());
    }
    *to++ = s.to<T>();
}

// _C.tensor_from_data(data, dtype or None)
PyObject* tensor_from_data(PyObject*, PyObject* args) {
    PyObject *data, *dtype;
    if (!PyArg_ParseTuple(args, "OO", &data, &dtype)) return nullptr;
    return guarded([&]() -> PyObject* {
        OpScope scope("tensor");
        if (PyUnicode_Check(data) || PyBytes_Check(data))
            fail_type("cannot make a tensor from ", Py_TYPE(data)->tp_name,
                      "; expected numbers, nested sequences of numbers, tensors or NumPy arrays");
        Survey survey;
        survey_shape(data, survey);
        survey_kinds(data, 0, survey);
        DType result;
        if (dtype != Py_None) {
            Value value;
            Param param;
            param.type = ArgType::DType;
            if (!convert_arg(dtype, param, value)) fail_type("dtype must be a dtype, got ", Py_TYPE(dtype)->tp_name);
            result = std::get<DType>(value);
        } else if (survey.tensor_dtype) {
            result = *survey.tensor_dtype;
        } else if (!survey.any) {
            result = default_dtype();
        } else {
            Scalar s;
            s.kind = survey.kind;
            s.u = survey.u64;
            result = fb::dtype_of(s);
        }
        Tensor t = empty(survey.shape, result);
        dispatch_all(result, [&](auto tag) {
            using T = typename decltype(tag)::type;
            T* to = t.data<T>();
            if (t.numel()) fill_from(data, to);
        });
        return wrap(t);
    });
}

PyObject* list_of(const Tensor& t, int64_t dim, const char* at) {
    if (dim == t.dim()) {
        return dispatch_all(t.dtype(), [&](auto tag) -> PyObject* {
            using T = typename decltype(tag)::type;
            T x = *reinterpret_cast<const T*>(at);
            if constexpr (std::is_same_v<T, bool>) return PyBool_FromLong(x);
            else if constexpr (std::is_same_v<T, uint64_t>) return PyLong_FromUnsignedLongLong(x);
            else if constexpr (std::is_integral_v<T>) return PyLong_FromLongLong(x);
            else if constexpr (is_complex_type<T>) return PyComplex_FromDoubles(x.real(), x.imag());
            else return PyFloat_FromDouble(static_cast<double>(x));
        });
    }
    int64_t n = t.shape()[dim], step = t.strides()[dim] * t.itemsize();
    Owned list(ok(PyList_New(n)));
    for (int64_t i = 0; i < n; i++) PyList_SET_ITEM(list.get(), i, ok(list_of(t, dim + 1, at + i * step)));
    return list.release();
}

PyObject* tolist(PyObject*, PyObject* o) {
    return guarded([&]() -> PyObject* {
        if (!is_tensor(o)) fail_type("expected a tensor, got ", Py_TYPE(o)->tp_name);
        Tensor t = readable(o);
        return list_of(t, 0, t.raw());
    });
}

PyMethodDef functions[] = {{"tensor_from_data", tensor_from_data, METH_VARARGS,
                            "tensor_from_data(data, dtype): a tensor from nested sequences."},
                           {"tolist", tolist, METH_O, "tolist(tensor): nested lists of Python numbers."},
                           {}};

}  // namespace

void add_construct(PyObject* module) { ok(PyModule_AddFunctions(module, functions)); }

}  // namespace fb::py
