// dtype, device and Generator as Python types, and the mapping of errors to exception classes.

#include "base/entropy.h"
#include "bindings/convert.h"
#include "bindings/items.h"
#include "memory/allocator.h"

namespace fb {
DeviceType type_of_cuda();  // base/device.cpp
void lend_name_of_cuda(bool on);
}  // namespace fb

namespace fb::py {

PyTypeObject *dtype_type, *device_type, *generator_type;
PyObject* error_classes[8];

void translate_exception() {
    try {
        throw;
    } catch (const PythonError&) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "a Python error was announced but not set");
    } catch (const Error& e) {
        PyObject* type = error_classes[static_cast<int>(e.kind())];
        PyErr_SetString(type ? type : PyExc_RuntimeError, e.what());
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::exception& e) {
        PyErr_SetString(PyExc_RuntimeError, e.what());
    }
}

namespace {

// ---- dtype ----------------------------------------------------------------------------------------------------------

struct PyDType {
    PyObject_HEAD DType value;
};
PyObject* dtypes[dtype_count];

DType self_dtype(PyObject* o) { return reinterpret_cast<PyDType*>(o)->value; }
PyObject* dtype_repr(PyObject* self) {
    return PyUnicode_FromFormat("%s.%s", shown_package.c_str(), name(self_dtype(self)));
}
PyObject* dtype_reduce(PyObject* self, PyObject*) {
    Owned module(in_python<PyImport_ImportModule>("flambeau._C"));
    Owned lookup(module ? in_python<PyObject_GetAttrString>(module.get(), "dtype_named") : nullptr);
    return lookup ? Py_BuildValue("O(s)", lookup.get(), name(self_dtype(self))) : nullptr;
}
PyObject* dtype_itemsize(PyObject* self, void*) { return PyLong_FromLong(itemsize(self_dtype(self))); }
PyObject* dtype_name(PyObject* self, void*) { return PyUnicode_FromString(name(self_dtype(self))); }
PyObject* dtype_floating(PyObject* self, void*) { return PyBool_FromLong(is_floating_point(self_dtype(self))); }
PyObject* dtype_complex(PyObject* self, void*) { return PyBool_FromLong(is_complex(self_dtype(self))); }
PyObject* dtype_signed(PyObject* self, void*) { return PyBool_FromLong(info(self_dtype(self)).is_signed); }
PyObject* dtype_to_complex(PyObject* self, PyObject*) {
    return guarded([&] {
        DType dtype = self_dtype(self);
        if (is_integral_or_bool(dtype))
            fail_type("Unknown Complex ScalarType for ", scalar_type(dtype), ": only floating point types have one");
        return wrap(complex_of(dtype));
    });
}
PyObject* dtype_to_real(PyObject* self, PyObject*) { return wrap(real_of(self_dtype(self))); }

PyGetSetDef dtype_getset[] = {
    {"itemsize", dtype_itemsize, nullptr, "Bytes per element.", nullptr},
    {"name", dtype_name, nullptr, "The name without the package: 'float32'.", nullptr},
    {"is_floating_point", dtype_floating, nullptr, "Whether this is a real floating point type.", nullptr},
    {"is_complex", dtype_complex, nullptr, "Whether this is a complex type.", nullptr},
    {"is_signed", dtype_signed, nullptr, "Whether negative numbers can be represented.", nullptr},
    {}};
PyMethodDef dtype_methods[] = {
    {"to_complex", dtype_to_complex, METH_NOARGS, "The complex type with this real part."},
    {"to_real", dtype_to_real, METH_NOARGS, "The real type of the parts of this complex type."},
    {"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
    {}};
PyType_Slot dtype_slots[] = {
    {Py_tp_repr, reinterpret_cast<void*>(dtype_repr)},
    {Py_tp_getset, dtype_getset},
    {Py_tp_methods, dtype_methods},
    {Py_tp_doc,
     const_cast<char*>("An element type, such as fb.float32.\n\nExample:\n    >>> fb.float32.itemsize\n    4\n")},
    {0, nullptr}};

// ---- device ---------------------------------------------------------------------------------------------------------

struct PyDevice {
    PyObject_HEAD Device value;
    Device entered[8];  // saved defaults of nested `with device:` blocks
    int depth;
};

Device self_device(PyObject* o) { return reinterpret_cast<PyDevice*>(o)->value; }

PyObject* device_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"type", "index", nullptr};
    PyObject *spec, *index = Py_None;
    static const char* other_names[] = {"device", "index", nullptr};
    const char** used = names;
    if (kwargs) {
        Owned key(PyUnicode_FromString("device"));
        int given = key ? PyDict_Contains(kwargs, key.get()) : -1;
        if (given < 0) return nullptr;
        if (given) used = other_names;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", const_cast<char**>(used), &spec, &index))
        return nullptr;
    return guarded([&]() -> PyObject* {
        OpScope scope("device");
        Device device;
        if (Py_IS_TYPE(spec, device_type)) device = self_device(spec);
        else if (PyUnicode_Check(spec)) device = parse_device(text_of(spec));
        else if (PyLong_Check(spec)) {
            int64_t i;
            int_of(spec, i);
            check(i >= -1 && i < 128, "index must be from 0 to 127, got ", i);
            device = Device{type_of_cuda(), static_cast<int8_t>(i)};
        } else fail_type("expected a str such as 'cpu' or a device, got ", Py_TYPE(spec)->tp_name);
        if (index != Py_None) {
            int64_t i;
            if (!int_of(index, i)) fail_type("index must be an int, got ", Py_TYPE(index)->tp_name);
            check(device.index < 0,
                  "type (string) must not include an index because index was passed explicitly: ", to_string(device));
            check(i >= -1 && i < 128, "index must be from 0 to 127, got ", i);
            device.index = static_cast<int8_t>(i);
        }
        PyDevice* self = reinterpret_cast<PyDevice*>(ok(type->tp_alloc(type, 0)));
        self->value = device;
        self->depth = 0;
        return reinterpret_cast<PyObject*>(self);
    });
}
PyObject* device_repr(PyObject* self) {
    Device d = self_device(self);
    if (d.index < 0) return PyUnicode_FromFormat("device(type='%s')", name(d.type));
    return PyUnicode_FromFormat("device(type='%s', index=%d)", name(d.type), d.index);
}
PyObject* device_str(PyObject* self) { return PyUnicode_FromString(to_string(self_device(self)).c_str()); }
PyObject* device_get_type(PyObject* self, void*) { return PyUnicode_FromString(name(self_device(self).type)); }
PyObject* device_get_index(PyObject* self, void*) {
    Device d = self_device(self);
    if (d.index < 0) Py_RETURN_NONE;
    return PyLong_FromLong(d.index);
}
Py_hash_t device_hash(PyObject* self) {
    return static_cast<Py_hash_t>(self_device(self).type) * 257 + self_device(self).index + 2;
}
PyObject* device_compare(PyObject* a, PyObject* b, int op) {
    if (!Py_IS_TYPE(b, device_type) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((self_device(a) == self_device(b)) == (op == Py_EQ));
}
PyObject* device_reduce(PyObject* self, PyObject*) {
    return Py_BuildValue("O(s)", device_type, to_string(self_device(self)).c_str());
}
PyObject* device_enter(PyObject* self, PyObject*) {
    PyDevice* d = reinterpret_cast<PyDevice*>(self);
    if (d->depth == 8) {
        PyErr_SetString(PyExc_RuntimeError, "device: `with` blocks on one device object are nested too deeply");
        return nullptr;
    }
    d->entered[d->depth++] = default_device();
    set_default_device(d->value);
    return Py_NewRef(self);
}
PyObject* device_exit(PyObject* self, PyObject*) {
    PyDevice* d = reinterpret_cast<PyDevice*>(self);
    if (d->depth > 0) set_default_device(d->entered[--d->depth]);
    Py_RETURN_NONE;
}
PyGetSetDef device_getset[] = {{"type", device_get_type, nullptr, "'cpu', 'opencl', …", nullptr},
                               {"index", device_get_index, nullptr, "Which one, or None.", nullptr},
                               {}};
PyMethodDef device_methods[] = {{"__reduce__", device_reduce, METH_NOARGS, nullptr},
                                {"__enter__", device_enter, METH_NOARGS, nullptr},
                                {"__exit__", device_exit, METH_VARARGS, nullptr},
                                {}};
PyType_Slot device_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(device_new)},
    {Py_tp_repr, reinterpret_cast<void*>(device_repr)},
    {Py_tp_str, reinterpret_cast<void*>(device_str)},
    {Py_tp_hash, reinterpret_cast<void*>(device_hash)},
    {Py_tp_richcompare, reinterpret_cast<void*>(device_compare)},
    {Py_tp_getset, device_getset},
    {Py_tp_methods, device_methods},
    {Py_tp_doc, const_cast<char*>("Where a tensor lives; as a context manager, where new tensors go.\n\nExample:\n    "
                                  ">>> fb.device('cpu')\n    device(type='cpu')\n")},
    {0, nullptr}};

// ---- Generator ------------------------------------------------------------------------------------------------------

struct PyGenerator {
    PyObject_HEAD Generator* value;
    Device device;  // the requested one; the numbers are the same on all
};

PyObject* generator_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"device", nullptr};
    PyObject* device = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", const_cast<char**>(names), &device)) return nullptr;
    return guarded([&]() -> PyObject* {
        OpScope scope("Generator");
        Param param;
        param.type = ArgType::Device;
        param.optional = true;
        Value value;
        if (!convert_arg(device, param, value))
            fail_type("device must be a device or str, got ", Py_TYPE(device)->tp_name);
        auto* d = std::get_if<Device>(&value);
        check(!d || d->type == DeviceType::CPU || device_memories[static_cast<size_t>(d->type)],
              "no random numbers on device '", d ? to_string(*d) : "", "'; use 'cpu'");
        PyGenerator* self = reinterpret_cast<PyGenerator*>(ok(type->tp_alloc(type, 0)));
        self->device = d ? canonical(*d) : Device{};
        self->value = Ref<Generator>(new Generator).detach();
        return reinterpret_cast<PyObject*>(self);
    });
}
void generator_dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    Generator* g = reinterpret_cast<PyGenerator*>(self)->value;
    if (g) g->release();
    type->tp_free(self);
    Py_DECREF(type);
}
Generator& self_generator(PyObject* o) { return *reinterpret_cast<PyGenerator*>(o)->value; }

PyObject* generator_manual_seed(PyObject* self, PyObject* seed) {
    return guarded([&]() -> PyObject* {
        OpScope scope("manual_seed");
        if (!PyIndex_Check(seed)) fail_type("seed must be an int, got ", Py_TYPE(seed)->tp_name);
        Owned number(ok(in_python<PyNumber_Index>(seed)));
        // Negative seeds wrap, as in PyTorch: -1 is 2**64 - 1.
        int overflow;
        long long v = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
        uint64_t bits = static_cast<uint64_t>(v);
        if (overflow) {
            bits = PyLong_AsUnsignedLongLong(number.get());
            if (PyErr_Occurred()) {
                PyErr_Clear();
                fail_value("Overflow when unpacking long long: seed must be from -2**63 to 2**64 - 1");
            }
        }
        self_generator(self).set(bits);
        return Py_NewRef(self);
    });
}
PyObject* generator_initial_seed(PyObject* self, PyObject*) {
    return PyLong_FromUnsignedLongLong(self_generator(self).state().seed);
}
PyObject* generator_seed(PyObject* self, PyObject*) {
    uint64_t seed = seed_from_entropy();
    self_generator(self).set(seed);
    return PyLong_FromUnsignedLongLong(seed);
}
PyObject* generator_get_state(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        Tensor state = empty({16}, DType::U8, cpu_device);
        auto [seed, offset] = self_generator(self).state();
        uint64_t words[2] = {seed, offset};
        std::memcpy(state.raw(), words, 16);
        return wrap(state);
    });
}
PyObject* generator_set_state(PyObject* self, PyObject* object) {
    return guarded([&]() -> PyObject* {
        OpScope scope("set_state");
        if (!is_tensor(object))
            fail_type("the state must be a uint8 tensor from get_state(), got ", Py_TYPE(object)->tp_name);
        Tensor state = tensor_of(object);
        check(state.dtype() == DType::U8 && state.numel() == 16 && state.is_contiguous(),
              "the state must be a contiguous uint8 tensor of 16 elements, got ", state.dtype(), " of shape ",
              state.shape());
        uint64_t words[2];
        std::memcpy(words, state.raw(), 16);
        self_generator(self).set(words[0], words[1]);
        return Py_NewRef(self);
    });
}
PyObject* generator_clone(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        Ref<Generator> copy(new Generator);
        auto [seed, offset] = self_generator(self).state();
        copy->set(seed, offset);
        return wrap(copy);
    });
}
PyObject* generator_device(PyObject* self, void*) {
    return wrap(canonical(reinterpret_cast<PyGenerator*>(self)->device));
}
PyObject* generator_reduce(PyObject* self, PyObject*) {
    Owned state(generator_get_state(self, nullptr));
    if (!state) return nullptr;
    Device device = canonical(reinterpret_cast<PyGenerator*>(self)->device);
    return Py_BuildValue("O(s)O", generator_type, to_string(device).c_str(), state.get());
}
PyMethodDef generator_methods[] = {
    {"manual_seed", generator_manual_seed, METH_O,
     "manual_seed(seed): restarts the numbers from a seed; returns the generator."},
    {"seed", generator_seed, METH_NOARGS, "seed(): a seed from the system's entropy; returns it."},
    {"initial_seed", generator_initial_seed, METH_NOARGS, "initial_seed(): the seed in use."},
    {"get_state", generator_get_state, METH_NOARGS, "get_state(): seed and position as a uint8 tensor."},
    {"set_state", generator_set_state, METH_O, "set_state(state): goes back to a position from get_state()."},
    {"clone_state", generator_clone, METH_NOARGS, "clone_state(): a generator at the same position."},
    {"graphsafe_get_state", generator_clone, METH_NOARGS, "graphsafe_get_state(): the state as a generator."},
    {"__reduce__", generator_reduce, METH_NOARGS, nullptr},
    {"__setstate__", generator_set_state, METH_O, nullptr},
    {}};
PyGetSetDef generator_getset[] = {{"device", generator_device, nullptr, "Where the numbers are made.", nullptr}, {}};
PyType_Slot generator_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(generator_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(generator_dealloc)},
    {Py_tp_methods, generator_methods},
    {Py_tp_getset, generator_getset},
    {Py_tp_doc, const_cast<char*>("A source of random numbers: a seed and a position.\n\nExample:\n    >>> g = "
                                  "fb.Generator().manual_seed(7)\n    >>> g.initial_seed()\n    7\n")},
    {0, nullptr}};

PyTypeObject* make_type(PyObject* module, const char* name, int size, PyType_Slot* slots, unsigned flags = 0) {
    PyType_Spec spec = {name, size, 0, static_cast<unsigned>(Py_TPFLAGS_DEFAULT) | flags, slots};
    PyObject* type = ok(PyType_FromSpec(&spec));
    ok(PyModule_AddObjectRef(module, strrchr(name, '.') + 1, type));
    return reinterpret_cast<PyTypeObject*>(type);
}

PyObject* set_errors(PyObject*, PyObject* errors) {
    if (!PyTuple_Check(errors)) {
        PyErr_SetString(PyExc_TypeError, "set_errors: expected a tuple of exception classes");
        return nullptr;
    }
    Items classes(errors);
    for (Py_ssize_t i = 0; i < classes.size() && i < 8; i++) error_classes[i] = Py_NewRef(classes[i]);
    Py_RETURN_NONE;
}
// lend_name_of_cuda(on): Note [CUDA's name].
PyObject* lend_name(PyObject*, PyObject* on) {
    int answer = PyObject_IsTrue(on);
    if (answer < 0) return nullptr;
    lend_name_of_cuda(answer == 1);
    Py_RETURN_NONE;
}
PyObject* show_package(PyObject*, PyObject* text) {
    const char* given = PyUnicode_AsUTF8(text);
    if (!given) return nullptr;
    shown_package = given;
    Py_RETURN_NONE;
}
PyObject* dtype_named(PyObject*, PyObject* text) {
    for (int i = 0; i < dtype_count; i++) {
        if (PyUnicode_Check(text) && PyUnicode_CompareWithASCIIString(text, name(static_cast<DType>(i))) == 0)
            return wrap(static_cast<DType>(i));
    }
    PyErr_Format(PyExc_ValueError, "dtype_named: there is no dtype %R", text);
    return nullptr;
}
PyObject* get_default_generator(PyObject*, PyObject*) { return wrap(default_generator()); }

PyMethodDef functions[] = {
    {"set_errors", set_errors, METH_O, "set_errors(classes): tells the core the exception classes, by kind."},
    {"shown_package", [](PyObject*, PyObject*) { return PyUnicode_FromString(shown_package.c_str()); }, METH_NOARGS,
     "shown_package(): the package that texts name."},
    {"lend_name_of_cuda", lend_name, METH_O,
     "lend_name_of_cuda(on): while on, the accelerator bears the name cuda, whatever it is."},
    {"show_package", show_package, METH_O, "show_package(name): the package that texts of dtypes and sizes name."},
    {"dtype_named", dtype_named, METH_O, "dtype_named(name): the dtype of that name."},
    {"default_generator", get_default_generator, METH_NOARGS,
     "default_generator(): the generator used when none is given."},
    {}};

}  // namespace

bool is_dtype(PyObject* o) { return Py_IS_TYPE(o, dtype_type); }
DType dtype_of(PyObject* o) { return self_dtype(o); }
Device device_of(PyObject* o) { return self_device(o); }
Ref<Generator> generator_of(PyObject* o) { return Ref<Generator>(reinterpret_cast<PyGenerator*>(o)->value); }
PyObject* wrap(DType dtype) { return Py_NewRef(dtypes[static_cast<int>(dtype)]); }
PyObject* wrap(Device device) {
    PyDevice* self = reinterpret_cast<PyDevice*>(ok(device_type->tp_alloc(device_type, 0)));
    self->value = device;
    self->depth = 0;
    return reinterpret_cast<PyObject*>(self);
}
PyObject* wrap(const Ref<Generator>& generator) {
    PyGenerator* self = reinterpret_cast<PyGenerator*>(ok(generator_type->tp_alloc(generator_type, 0)));
    self->value = Ref<Generator>(generator).detach();
    return reinterpret_cast<PyObject*>(self);
}

void add_types(PyObject* module) {
    dtype_type = make_type(module, "flambeau.dtype", sizeof(PyDType), dtype_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);
    for (int i = 0; i < dtype_count; i++) {
        PyDType* d = reinterpret_cast<PyDType*>(ok(dtype_type->tp_alloc(dtype_type, 0)));
        d->value = static_cast<DType>(i);
        dtypes[i] = reinterpret_cast<PyObject*>(d);
        ok(PyModule_AddObjectRef(module, name(d->value), dtypes[i]));
    }
    device_type = make_type(module, "flambeau.device", sizeof(PyDevice), device_slots);
    generator_type = make_type(module, "flambeau.Generator", sizeof(PyGenerator), generator_slots);
    ok(PyModule_AddFunctions(module, functions));
}

}  // namespace fb::py
