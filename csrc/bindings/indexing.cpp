#include "bindings/indexing.h"

#include "bindings/autograd.h"
#include "bindings/convert.h"
#include "bindings/override.h"
#include "ops/index_item.h"

namespace fb::py {
namespace {

// Nested lists and NumPy arrays become index tensors the way fb.tensor() reads them.
Tensor index_tensor(PyObject* o) {
    Owned module(ok(PyImport_ImportModule("flambeau")));
    Owned made(ok(PyObject_CallMethod(module.get(), "as_tensor", "O", o)));
    Tensor t = tensor_of(made.get());
    if (t.numel() == 0 && !is_integral_or_bool(t.dtype())) return to_dtype(t, DType::I64);  // x[[]]
    return t;
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
    }
    if (is_numpy_array(o) || PyList_Check(o) || PyTuple_Check(o) || PyObject_HasAttrString(o, "__array__"))
        return IndexItem::tensor(index_tensor(o));
    if (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o)) {  // a range, and the like
        Owned list(ok(PySequence_List(o)));
        return IndexItem::tensor(index_tensor(list.get()));
    }
    fail_index(
        "only integers, slices (`:`), ellipsis (`...`), None and integer or boolean tensors are valid indices, got ",
        Py_TYPE(o)->tp_name);
}

// PyTorch's rule: a short list with anything but numbers in it is one index per dimension, as a tuple is.
bool is_tuple_like(PyObject* index) {
    if (PyTuple_Check(index)) return true;
    if (!PyList_Check(index) || PyList_GET_SIZE(index) >= 32) return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(index); i++) {
        PyObject* o = PyList_GET_ITEM(index, i);
        if (o == Py_None || o == Py_Ellipsis || is_tensor(o) || PySlice_Check(o) || PySequence_Check(o)) return true;
    }
    return false;
}

std::vector<IndexItem> parse_index(PyObject* index) {
    std::vector<IndexItem> items;
    if (is_tuple_like(index)) {
        items.reserve(static_cast<size_t>(PySequence_Fast_GET_SIZE(index)));
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(index); i++)
            items.push_back(parse_item(PySequence_Fast_GET_ITEM(index, i)));
    } else {
        items.push_back(parse_item(index));
    }
    return items;
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
        std::vector<IndexItem> items = parse_index(index);
        for (const IndexItem& item : items) {
            if (item.indices && item.indices.impl()->functorial)
                return hand_over(static_cast<PyObject*>(item.indices.impl()->pyobj), "getitem",
                                 {{"input", self}, {"index", index}});
        }
        return wrap(getitem(t, items));
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
            Owned module(ok(PyImport_ImportModule("flambeau")));
            Owned made(ok(PyObject_CallMethod(module.get(), "as_tensor", "O", value)));
            source = tensor_of(made.get());
        }
        current_location = here();
        std::vector<IndexItem> items = parse_index(index);
        for (const IndexItem& item : items) {
            if (item.indices && item.indices.impl()->functorial) {
                Owned done(hand_over(static_cast<PyObject*>(item.indices.impl()->pyobj), "setitem_",
                                     {{"input", self}, {"index", index}, {"value", value}}));
                return 0;
            }
        }
        setitem(t, items, source);
        return 0;
    });
}

}  // namespace fb::py
