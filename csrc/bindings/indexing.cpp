#include "bindings/indexing.h"

#include "bindings/autograd.h"
#include "bindings/convert.h"
#include "bindings/items.h"
#include "bindings/override.h"
#include "ops/index/index_item.h"

namespace fb::py {
namespace {

void warn(const char* text) { ok(PyErr_WarnEx(PyExc_UserWarning, text, 1)); }

Tensor as_tensor(PyObject* o) {
    Owned module(ok(in_python<PyImport_ImportModule>("flambeau")));
    Owned function(ok(in_python<PyObject_GetAttrString>(module.get(), "as_tensor")));
    return tensor_of(Owned(ok(in_python<PyObject_CallOneArg>(function.get(), o))).get());
}

// Nested sequences and NumPy arrays are converted to index tensors like in fb.tensor(), floats as in PyTorch.
Tensor index_tensor(PyObject* o) {
    Tensor t = as_tensor(o);
    if (!is_floating(t.dtype())) return t;
    if (t.numel())
        warn("index: floating-point numbers in a list or array are cut to integers; convert them before indexing");
    return to_dtype(t, DType::I64);
}

int64_t slice_end(PyObject* o, int64_t open) {
    if (o == Py_None) return open;
    int64_t value;
    if (!int_of(o, value))
        fail_type("slice indices must be integers or None or have an __index__ method, got ", Py_TYPE(o)->tp_name);
    return value;
}

IndexItem parse_slice(PyObject* o) {
    PySliceObject* s = reinterpret_cast<PySliceObject*>(o);
    int64_t step = slice_end(s->step, 1);
    check(step != 0, "slice step must not be zero");
    int64_t low = IndexItem::open_low, high = IndexItem::open_high;
    return IndexItem::slice(slice_end(s->start, step > 0 ? low : high), slice_end(s->stop, step > 0 ? high : low),
                            step);
}

IndexItem parse_item(PyObject* o) {
    if (PyLong_CheckExact(o)) {
        int64_t i;
        int_of(o, i);
        return IndexItem::integer(i);
    }
    if (PySlice_Check(o)) return parse_slice(o);
    if (o == Py_None) return IndexItem::none();
    if (o == Py_Ellipsis) return IndexItem::ellipsis();
    if (PyBool_Check(o)) return IndexItem::boolean(o == Py_True);
    if (is_tensor(o)) return IndexItem::tensor(tensor_of(o));
    Scalar s;
    if (!is_numpy_array(o) && scalar_of(o, s)) {
        if (s.kind == Kind::Bool) return IndexItem::boolean(s.i != 0);
        if (s.kind == Kind::Integral) return IndexItem::integer(s.i);
    } else if (is_numpy_array(o) || PyList_Check(o) || PyTuple_Check(o) || PyObject_HasAttrString(o, "__array__")) {
        return IndexItem::tensor(index_tensor(o));
    } else if (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o)) {  // a range, or another sequence
        Owned list(ok(in_python<PySequence_List>(o)));
        return IndexItem::tensor(index_tensor(list.get()));
    } else if (PyIndex_Check(o)) {
        Owned number(ok(in_python<PyNumber_Index>(o)));
        return parse_item(number.get());
    }
    fail_index("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got ",
               Py_TYPE(o)->tp_name, "); a mask is a bool tensor, positions are an integer tensor");
}

// PyTorch's rule: a short sequence with anything but numbers in it is one index per dimension, like a tuple.
bool is_tuple_like(PyObject* index) {
    if (PyTuple_Check(index)) return true;
    if (is_tensor(index) || is_numpy_array(index) || !PySequence_Check(index) || PyUnicode_Check(index)) return false;
    Py_ssize_t size = PySequence_Size(index);
    if (size < 0) PyErr_Clear();
    if (size < 0 || size >= 32) return false;
    for (Py_ssize_t i = 0; i < size; i++) {
        Owned o(ok(PySequence_GetItem(index, i)));
        if (o.get() != Py_None && o.get() != Py_Ellipsis && !is_tensor(o.get()) && !PySlice_Check(o.get()) &&
            !PySequence_Check(o.get()))
            continue;
        warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated: x[[a, b]] is read as x[a, b], "
            "where NumPy reads one index; write x[tuple(seq)], or x[fb.tensor(seq)] for the other meaning");
        return true;
    }
    return false;
}

struct ParsedIndex {
    std::vector<IndexItem> items;
    bool has_bytes = false;  // a uint8 mask

    void add(PyObject* o) {
        items.push_back(parse_item(o));
        has_bytes |= items.back().indices && items.back().indices.dtype() == DType::U8;
    }
    // The tensor among the indices whose class handles calls (inside vmap), if any.
    Owned functorial() const {
        for (const IndexItem& item : items) {
            if (item.indices && item.indices.impl()->functorial) return Owned(wrap(item.indices));
        }
        return Owned();
    }
};

ParsedIndex parse_index(PyObject* index) {
    ParsedIndex parsed;
    if (is_tuple_like(index)) {
        Items parts(index);
        parsed.items.reserve(static_cast<size_t>(parts.size()));
        for (PyObject* part : parts) parsed.add(part);
    } else {
        parsed.add(index);
    }
    if (parsed.has_bytes)
        warn("indexing with dtype uint8 is now deprecated: it is read as a mask; please use dtype bool instead");
    return parsed;
}

}  // namespace

PyObject* tensor_getitem(PyObject* self, PyObject* index) {
    return guarded([&]() -> PyObject* {
        OpScope scope("index");
        PyObject* given[] = {self, index};
        if (overridden(given, 2)) return give_to_class("__getitem__", given, 2);
        Tensor t = settled(self);
        if (t.impl()->functorial) return hand_over(self, "getitem", {{"input", self}, {"index", index}});
        if (grad_enabled() && requires_grad(t)) current_location = here();
        else if (PyLong_CheckExact(index) && grad_enabled()) {
            int64_t i;
            int_of(index, i);
            return wrap(select(t, 0, i));
        }
        ParsedIndex parsed = parse_index(index);
        if (Owned taker = parsed.functorial())
            return hand_over(taker.get(), "getitem", {{"input", self}, {"index", index}});
        return wrap(getitem(t, parsed.items));
    });
}

int tensor_setitem(PyObject* self, PyObject* index, PyObject* value) {
    return guarded_int([&] {
        OpScope scope("index_put");
        if (!value) fail_type("elements of a tensor cannot be deleted");
        PyObject* given[] = {self, index, value};
        if (overridden(given, 3)) {
            Owned done(give_to_class("__setitem__", given, 3));
            return 0;
        }
        Tensor t = settled(self);
        Tensor source;
        Scalar s;
        if (t.impl()->functorial || (is_tensor(value) && tensor_of(value).impl()->functorial)) {
            Owned done(hand_over(t.impl()->functorial ? self : value, "setitem_",
                                 {{"input", self}, {"index", index}, {"value", value}}));
            return 0;
        }
        if (is_tensor(value)) source = tensor_of(value);
        else if (scalar_of(value, s)) {
            if (s.kind == Kind::Complex && !is_complex(t.dtype()))
                fail_type("a complex value cannot be stored in a tensor of dtype ", t.dtype());
            source = scalar_tensor(s, t.dtype());
        } else {
            source = as_tensor(value);
        }
        current_location = here();
        ParsedIndex parsed = parse_index(index);
        if (Owned taker = parsed.functorial()) {
            Owned done(hand_over(taker.get(), "setitem_", {{"input", self}, {"index", index}, {"value", value}}));
            return 0;
        }
        setitem(t, parsed.items, source);
        return 0;
    });
}

}  // namespace fb::py
