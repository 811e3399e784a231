// flambeau.Size: a tuple of ints. In C++ because every x.shape[0] uses it.
#include "base/wording.h"
#include "bindings/convert.h"
#include "bindings/items.h"

namespace fb::py {

PyTypeObject* size_type;

namespace {

PyObject* from_tuple(PyObject* tuple) {
    Owned source(tuple);
    if (!source) return nullptr;
    Items items(source.get());
    PyObject* size = size_type->tp_alloc(size_type, items.size());
    if (!size) return nullptr;
    for (Py_ssize_t i = 0; i < items.size(); i++) PyTuple_SET_ITEM(size, i, Py_NewRef(items[i]));
    return size;
}

PyObject* size_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
    PyObject* values = nullptr;
    if ((kwargs && PyDict_GET_SIZE(kwargs)) || !PyArg_ParseTuple(args, "|O:Size", &values)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "Size: takes no keyword arguments");
        return nullptr;
    }
    if (!values) return size_type->tp_alloc(size_type, 0);
    return guarded([&]() -> PyObject* {
        Items items(values);
        std::vector<Owned> numbers;  // complete before the tuple exists: the collector exposes it at once
        for (PyObject* item : items) {
            if (!PyIndex_Check(item))
                return PyErr_Format(PyExc_TypeError, "Size: expected ints, got %s at position %zd",
                                    Py_TYPE(item)->tp_name, static_cast<Py_ssize_t>(numbers.size()));
            numbers.emplace_back(ok(in_python<PyNumber_Index>(item)));
        }
        Owned size(ok(size_type->tp_alloc(size_type, items.size())));
        for (Py_ssize_t i = 0; i < items.size(); i++)
            PyTuple_SET_ITEM(size.get(), i, numbers[static_cast<size_t>(i)].release());
        return size.release();
    });
}

PyObject* size_repr(PyObject* self) {
    return guarded([&]() -> PyObject* {
        std::string text = shown_package + ".Size([";
        const char* separator = "";
        for (PyObject* item : Items(self)) {
            Owned shown(ok(PyObject_Str(item)));
            text += separator + std::string(text_of(shown.get()));
            separator = ", ";
        }
        return PyUnicode_FromString((text + "])").c_str());
    });
}

PyObject* size_subscript(PyObject* self, PyObject* index) {
    PyObject* item = PyTuple_Type.tp_as_mapping->mp_subscript(self, index);
    return item && PySlice_Check(index)
               ? from_tuple(Py_IS_TYPE(item, size_type) ? in_python<PySequence_Tuple>(item) : item)
               : item;
}
PyObject* size_concat(PyObject* a, PyObject* b) {
    if (!PyTuple_Check(a) || !PyTuple_Check(b)) {
        PyErr_Format(PyExc_TypeError, "can only concatenate tuple (not %s) to %s.Size",
                     Py_TYPE(PyTuple_Check(a) ? b : a)->tp_name, shown_package.c_str());
        return nullptr;
    }
    Owned left(in_python<PySequence_List>(a)), right(in_python<PySequence_List>(b));
    if (!left || !right) return nullptr;
    Owned joined(PySequence_Concat(left.get(), right.get()));
    return joined ? from_tuple(PyList_AsTuple(joined.get())) : nullptr;
}
PyObject* size_add(PyObject* a, PyObject* b) {
    if (!PyTuple_Check(a) || !PyTuple_Check(b)) Py_RETURN_NOTIMPLEMENTED;
    return size_concat(a, b);
}
PyObject* size_repeat(PyObject* self, Py_ssize_t n) {
    Owned plain(in_python<PySequence_List>(self));
    Owned repeated(plain ? PySequence_Repeat(plain.get(), n) : nullptr);
    return repeated ? from_tuple(PyList_AsTuple(repeated.get())) : nullptr;
}
PyObject* size_numel(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        Owned product(ok(PyLong_FromLong(1)));
        for (PyObject* item : Items(self)) product = Owned(ok(PyNumber_Multiply(product.get(), item)));
        return product.release();
    });
}
PyObject* size_reduce(PyObject* self, PyObject*) {
    Owned list(in_python<PySequence_List>(self));
    return list ? Py_BuildValue("O(O)", size_type, list.get()) : nullptr;
}

PyMethodDef methods[] = {{"numel", size_numel, METH_NOARGS, "numel(): number of elements of a tensor of this shape."},
                         {"__reduce__", size_reduce, METH_NOARGS, nullptr},
                         {}};

#define SLOT(id, f) {id, reinterpret_cast<void*>(f)}
PyType_Slot slots[] = {
    SLOT(Py_tp_new, size_new),
    SLOT(Py_tp_repr, size_repr),
    SLOT(Py_mp_subscript, size_subscript),
    SLOT(Py_sq_concat, size_concat),
    SLOT(Py_nb_add, size_add),
    SLOT(Py_sq_repeat, size_repeat),
    {Py_tp_methods, methods},
    {Py_tp_doc, const_cast<char*>("The shape of a tensor: a tuple of ints.\n\nExample:\n    >>> fb.zeros(2, 3).shape\n "
                                  "   flambeau.Size([2, 3])\n    >>> fb.zeros(2, 3).shape.numel()\n    6\n")},
    {0, nullptr}};

}  // namespace

void add_size(PyObject* module) {
    PyType_Spec spec = {"flambeau.Size", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
    Owned bases(ok(PyTuple_Pack(1, &PyTuple_Type)));
    PyObject* type = ok(PyType_FromSpecWithBases(&spec, bases.get()));
    size_type = reinterpret_cast<PyTypeObject*>(type);
    ok(PyModule_AddObjectRef(module, "Size", type));
}

}  // namespace fb::py
