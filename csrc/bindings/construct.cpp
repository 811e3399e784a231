// tensor(data): nested sequences of numbers to a tensor, and back with tolist().
#include "base/bool.h"
#include "bindings/convert.h"
#include "bindings/items.h"
#include "ops/table/common.h"

namespace fb::py {
namespace {

bool is_sequence(PyObject* o) {
    return PyList_Check(o) || PyTuple_Check(o) ||
           (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !is_tensor(o));
}

// Note [Nested data]: one pass over the data converts every element into memory of our own, and only then is the tensor
// created and filled. The user's code (__getitem__, __index__, …) runs only in that pass, so changes it makes to the
// data cannot affect the tensor.
class NestedData {
  public:
    // `wanted` is the requested dtype: dtypes other than integers accept whole numbers beyond 64 bits, rounded.
    NestedData(PyObject* data, std::optional<DType> wanted) : rounds_(wanted && !is_integral(*wanted)) {
        read(data, 0);
    }

    const Dims& shape() const { return shape_; }
    DType dtype() const { return dtype_ ? *dtype_ : default_dtype(); }

    template <class T>
    void fill(T* to) const {
        for (const Leaf& leaf : leaves_) {
            if (leaf.from == Leaf::Block) {
                Tensor t = to_dtype(blocks_[leaf.index], fb::dtype_of<T>());
                to = std::copy_n(t.data<T>(), t.numel(), to);
            } else {
                *to++ = element<T>(leaf);
            }
        }
    }

  private:
    // An element, or a block of them from a tensor; 16 bytes, as there may be millions.
    struct Leaf {
        enum From : uint8_t { Bool, Int, Unsigned, Float, Complex, Block } from;
        union {
            int64_t i;
            double re;
            size_t index;  // into complex_ or blocks_
        };
    };

    void read(PyObject* o, int64_t depth) {
        if (is_tensor(o)) {
            Tensor t = readable(o);
            // A one-element tensor in a list is a number, whatever its shape, as in PyTorch.
            if (depth && t.numel() == 1) t = make_view(t.storage_ref(), t.dtype(), {}, {}, t.offset());
            return add_tensor(t, depth);
        }
        if (is_numpy_array(o)) {
            Owned module(ok(in_python<PyImport_ImportModule>("flambeau")));
            Owned function(ok(in_python<PyObject_GetAttrString>(module.get(), "as_tensor")));
            Owned made(ok(in_python<PyObject_CallOneArg>(function.get(), o)));
            return add_tensor(readable(made.get()), depth);
        }
        if (is_sequence(o)) return read_sequence(o, depth);
        shape_known_ = true;
        check(depth == shape_.size(), "the data is ragged: a number at depth ", depth,
              " where a sequence was expected");
        read_number(o);
    }

    static bool is_beyond_64_bits(PyObject* o) {
        int overflow = 0;
        PyLong_AsLongLongAndOverflow(o, &overflow);
        return overflow != 0;
    }

    void read_number(PyObject* o) {
        Scalar s;
        if (rounds_ && PyLong_CheckExact(o) && is_beyond_64_bits(o)) {
            s = Scalar(PyLong_AsDouble(o));
            if (PyErr_Occurred()) throw PythonError{};
        } else if (!scalar_of(o, s))
            fail_type("could not infer dtype of ", Py_TYPE(o)->tp_name,
                      "; expected numbers, nested sequences of numbers, tensors or NumPy arrays");
        add(s);
        // Python numbers have the kind's default dtype, NumPy scalars their own.
        unsigned kind = 1u << (static_cast<unsigned>(s.kind) + (s.u ? 4 : 0));
        if (std::optional<DType> own = numpy_scalar_dtype(o)) {
            note(*own);
        } else if (!(kinds_ & kind)) {
            kinds_ |= kind;
            note(fb::dtype_of(s));
        }
    }

    void read_sequence(PyObject* o, int64_t depth) {
        // Lists of Python numbers, the common case, are read directly: that runs no user code.
        if (is_tuple_or_list(o) && all_items(o, is_plain_number)) {
            Py_ssize_t n = count_items(o);
            begin(n, depth);
            shape_known_ = true;
            check(depth + 1 == shape_.size() || n == 0, "the data is ragged: a number at depth ", depth + 1,
                  " where a sequence was expected");
            all_items(o, [&](PyObject* item) { return read_number(item), true; });
            return;
        }
        Items items(o);
        begin(items.size(), depth);
        for (PyObject* item : items) read(item, depth + 1);
    }

    // A sequence of this many items begins.
    void begin(Py_ssize_t n, int64_t depth) {
        if (!shape_known_) {
            check(shape_.size() < max_dims, "the data is nested more than ", max_dims, " levels deep");
            shape_.push_back(n);
            if (n == 0) shape_known_ = true;
            leaves_.reserve(std::min<size_t>(std::max<size_t>(leaves_.capacity(), 1) * size_t(n), 1 << 22));
        }
        check(depth < shape_.size(), "the data is ragged: a number and a sequence at the same depth ", depth);
        check(n == shape_[depth], "expected sequence of length ", shape_[depth], " at dim ", depth, " (got ", n,
              "): the data is ragged");
    }

    static bool is_plain_number(PyObject* o) {
        return PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o);
    }

    void add_tensor(const Tensor& t, int64_t depth) {
        if (!shape_known_) {
            for (int64_t n : t.shape()) shape_.push_back(n);
            check(shape_.size() <= max_dims, "the data is nested more than ", max_dims, " levels deep");
            shape_known_ = true;
        }
        check(t.dim() == shape_.size() - depth, "expected a tensor of ", shape_.size() - depth, " dimensions at depth ",
              depth, " of the data, got shape ", t.shape());
        for (int64_t d = 0; d < t.dim(); d++) {
            check(t.shape()[d] == shape_[depth + d], "tensors of different shapes in the data: ", t.shape(),
                  " does not fit ", shape_);
        }
        note(t.dtype());
        if (t.dim() == 0) return add(fb::item(t));
        Leaf leaf{Leaf::Block, {}};
        leaf.index = blocks_.size();
        blocks_.push_back(t.is_contiguous() ? clone(t) : contiguous(t));
        leaves_.push_back(leaf);
    }

    void add(const Scalar& s) {
        Leaf leaf;
        switch (s.kind) {
            case Kind::Bool:
            case Kind::Integral:
                leaf.from = s.kind == Kind::Bool ? Leaf::Bool : s.u ? Leaf::Unsigned : Leaf::Int;
                leaf.i = s.i;
                break;
            case Kind::Floating:
                leaf.from = Leaf::Float;
                leaf.re = s.re;
                break;
            default:
                leaf.from = Leaf::Complex;
                leaf.index = complex_.size();
                complex_.push_back(c128(s.re, s.im));
        }
        leaves_.push_back(leaf);
    }

    void note(DType d) { dtype_ = dtype_ ? promote(*dtype_, d) : d; }

    static std::optional<DType> numpy_scalar_dtype(PyObject* o) {
        if (PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) || PyComplex_CheckExact(o)) return {};
        std::string_view name = Py_TYPE(o)->tp_name;
        if (!name.starts_with("numpy.")) return {};
        name.remove_prefix(6);
        if (name == "bool_") return DType::Bool;
        for (int i = 0; i < dtype_count; i++) {
            if (name == fb::name(static_cast<DType>(i))) return static_cast<DType>(i);
        }
        return {};
    }

    Scalar scalar(const Leaf& leaf) const {
        switch (leaf.from) {
            case Leaf::Bool:
                return Scalar(leaf.i != 0);
            case Leaf::Int:
                return Scalar(leaf.i);
            case Leaf::Unsigned:
                return Scalar(static_cast<uint64_t>(leaf.i));
            case Leaf::Float:
                return Scalar(leaf.re);
            default:
                return Scalar(complex_[leaf.index]);
        }
    }

    template <class T>
    T element(const Leaf& leaf) const {
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
            if (leaf.from == Leaf::Float && !(leaf.re == leaf.re && leaf.re > -9.3e18 && leaf.re < 1.9e19))
                fail_value("cannot convert float ", leaf.re, " to ", fb::dtype_of<T>());
            if (leaf.from <= Leaf::Unsigned) {
                bool fits = leaf.from == Leaf::Unsigned ? std::is_same_v<T, uint64_t>
                                                        : (std::is_unsigned_v<T> && sizeof(T) == 8) ||
                                                              (leaf.i >= int64_t(std::numeric_limits<T>::min()) &&
                                                               leaf.i <= int64_t(std::numeric_limits<T>::max()));
                // Negative numbers wrap in unsigned types, as in PyTorch; anything else out of range is an error.
                if (!fits && !(std::is_unsigned_v<T> && leaf.from != Leaf::Unsigned && leaf.i < 0 &&
                               leaf.i >= -int64_t(std::numeric_limits<T>::max())))
                    fail_value("value cannot be converted to type ", fb::dtype_of<T>(), " without overflow: ", leaf.i);
            }
        }
        if constexpr (!is_complex_type<T> && !std::is_same_v<T, bool>) {
            if (leaf.from == Leaf::Complex) fail_type("a complex number cannot be stored as ", fb::dtype_of<T>());
        }
        return scalar(leaf).to<T>();
    }

    bool rounds_;
    Dims shape_;
    bool shape_known_ = false;  // set by the first element of each level
    std::optional<DType> dtype_;
    unsigned kinds_ = 0;  // bit mask of the kinds of Python numbers whose dtypes are recorded
    std::vector<Leaf> leaves_;
    std::vector<c128> complex_;
    std::vector<Tensor> blocks_;
};

// _C.tensor_from_data(data, dtype or None)
PyObject* tensor_from_data(PyObject*, PyObject* args) {
    PyObject *data, *dtype;
    if (!PyArg_ParseTuple(args, "OO", &data, &dtype)) return nullptr;
    return guarded([&]() -> PyObject* {
        OpScope scope("tensor");
        if (PyUnicode_Check(data) || PyBytes_Check(data))
            fail_type("cannot make a tensor from ", Py_TYPE(data)->tp_name,
                      "; expected numbers, nested sequences of numbers, tensors or NumPy arrays");
        std::optional<DType> wanted;
        if (dtype != Py_None) {
            Value value;
            Param param;
            param.type = ArgType::DType;
            if (!convert_arg(dtype, param, value)) fail_type("dtype must be a dtype, got ", Py_TYPE(dtype)->tp_name);
            wanted = std::get<DType>(value);
        }
        NestedData nested(data, wanted);
        Tensor t = empty(nested.shape(), wanted ? *wanted : nested.dtype(), cpu_device);
        dispatch_values(t.dtype(), [&](auto tag) { nested.fill(t.data<typename decltype(tag)::type>()); });
        return wrap(t);
    });
}

PyObject* list_of(const Tensor& t, int64_t dim, const char* at) {
    if (dim == t.dim()) {
        return dispatch_values(t.dtype(), [&](auto tag) -> PyObject* {
            using T = typename decltype(tag)::type;
            T x = *reinterpret_cast<const Stored<T>*>(at);
            if constexpr (std::is_same_v<T, bool>) return PyBool_FromLong(x);
            else if constexpr (std::is_same_v<T, uint64_t>) return PyLong_FromUnsignedLongLong(x);
            else if constexpr (std::is_integral_v<T>) return PyLong_FromLongLong(x);
            else if constexpr (is_complex_type<T>) return PyComplex_FromDoubles(x.real(), x.imag());
            else return PyFloat_FromDouble(convert<double>(x));
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

Tensor on_cpu(const Tensor& t) { return to_device(t, cpu_device); }

void add_construct(PyObject* module) { ok(PyModule_AddFunctions(module, functions)); }

}  // namespace fb::py
