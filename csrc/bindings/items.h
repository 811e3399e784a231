// Reading the items of tuples, lists, sequences and dictionaries. Only this header uses the C API that returns borrowed
// items (checked by tests/repo/test_layers.py).
//
// Note [Borrowed items]: nearly every conversion of a Python object can run the user's code (__index__, __float__,
// __len__, __getitem__, a finaliser), which may empty the list that the object came from. So
//  - Items owns its items and does not change: for loops that convert;
//  - all_items and any_item read the list anew at each step: for checks that run no Python code, such as a look at
//    the type.
#pragma once
#include "bindings/python.h"

namespace fb::py {

inline bool is_tuple_or_list(PyObject* o) { return PyTuple_Check(o) || PyList_Check(o); }

// A snapshot of the items of a sequence. A tuple cannot change and is only referenced; anything else is copied.
class Items {
  public:
    explicit Items(PyObject* sequence)
        : tuple_(PyTuple_Check(sequence) ? Owned::borrow(sequence) : Owned(ok(in_python<PySequence_Tuple>(sequence)))) {
    }
    Py_ssize_t size() const { return PyTuple_GET_SIZE(tuple_.get()); }
    // Borrowed from this object.
    PyObject* operator[](Py_ssize_t i) const { return PyTuple_GET_ITEM(tuple_.get(), i); }
    PyObject* const* begin() const { return &PyTuple_GET_ITEM(tuple_.get(), 0); }
    PyObject* const* end() const { return begin() + size(); }

  private:
    Owned tuple_;
};

// Current length of a tuple or list, ignoring the __len__ of a subclass.
inline Py_ssize_t count_items(PyObject* sequence) { return PySequence_Fast_GET_SIZE(sequence); }

// Whether `f` holds for every item of a tuple or list; `f` must not run Python code.
template <class F>
bool all_items(PyObject* sequence, F f) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); i++) {
        if (!f(PySequence_Fast_GET_ITEM(sequence, i))) return false;
    }
    return true;
}
template <class F>
bool any_item(PyObject* sequence, F f) {
    return !all_items(sequence, [&](PyObject* item) { return !f(item); });
}

// The value under a key; empty if there is none.
inline Owned find_item(PyObject* dict, const char* key) {
    Owned name(ok(PyUnicode_FromString(key)));
    Owned value = Owned::borrow(PyDict_GetItemWithError(dict, name.get()));
    if (!value && PyErr_Occurred()) throw PythonError{};
    return value;
}

// The characters of a str, which owns them; raises if they cannot be encoded as UTF-8.
inline const char* text_of(PyObject* o) {
    const char* text = PyUnicode_AsUTF8(o);
    if (!text) throw PythonError{};
    return text;
}

// For arguments declared as `any` that must be tensors.
inline Tensor expect_tensor(PyObject* o, const char* what) {
    if (!is_tensor(o)) fail_type(what, " must be a tensor, got ", Py_TYPE(o)->tp_name);
    return tensor_of(o);
}

}  // namespace fb::py
