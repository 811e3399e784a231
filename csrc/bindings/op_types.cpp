// The Python objects of ops, and their table: one vectorcall entry serves every op.
#include <map>

#include "bindings/items.h"
#include "bindings/op.h"
#include "ops/table/dispatch.h"
#include "ops/table/elementwise.h"

namespace fb::py {
namespace {

struct PyOp {
    PyObject_HEAD vectorcallfunc vectorcall;
    OpHandle* handle;
    Mode mode;
};

PyTypeObject *function_type = nullptr, *method_type = nullptr;
std::map<std::string, std::unique_ptr<OpHandle>>& handles() {
    static auto* all = new std::map<std::string, std::unique_ptr<OpHandle>>;
    return *all;
}
PyObject* return_types = nullptr;  // dict: name → struct sequence type

PyObject* op_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    PyOp* op = reinterpret_cast<PyOp*>(self);
    return call(op->handle, op->mode, args, PyVectorcall_NARGS(nargsf), kwnames);
}

// Functions do not bind when stored in a class, methods do.

const std::string& name_of(PyOp* op) {
    return op->mode == Mode::Inplace ? op->handle->inplace_name : op->handle->short_name;
}

PyObject* op_repr(PyObject* self) {
    PyOp* op = reinterpret_cast<PyOp*>(self);
    return PyUnicode_FromFormat("<flambeau %s %s>", op->mode == Mode::Function ? "function" : "method",
                                name_of(op).c_str());
}
PyObject* op_name(PyObject* self, void*) {
    return PyUnicode_FromString(name_of(reinterpret_cast<PyOp*>(self)).c_str());
}
PyObject* op_qualname(PyObject* self, void*) {
    PyOp* op = reinterpret_cast<PyOp*>(self);
    return PyUnicode_FromString(((op->mode == Mode::Function ? "" : "Tensor.") + name_of(op)).c_str());
}
PyObject* op_module(PyObject* self, void*) {
    PyOp* op = reinterpret_cast<PyOp*>(self);
    size_t dot = op->handle->name.rfind('.');
    return PyUnicode_FromString(dot == std::string::npos || op->mode != Mode::Function
                                    ? "flambeau"
                                    : ("flambeau." + op->handle->name.substr(0, dot)).c_str());
}
PyObject* op_signatures(PyObject* self, void*) {
    PyOp* op = reinterpret_cast<PyOp*>(self);
    unsigned wanted = op->mode == Mode::Function ? FUNCTION : op->mode == Mode::Method ? METHOD : INPLACE;
    Owned list(PyList_New(0));
    for (auto& o : op->handle->overloads) {
        if (!(o->flags & wanted)) continue;
        Owned text(PyUnicode_FromString(o->signature.text.c_str()));
        PyList_Append(list.get(), text.get());
    }
    return PyList_AsTuple(list.get());
}
// For inspect.signature(); implemented in Python, as only tools for people use it.
PyObject* op_signature(PyObject* self, void*) {
    return guarded([&]() -> PyObject* {
        PyOp* op = reinterpret_cast<PyOp*>(self);
        Owned module(ok(in_python<PyImport_ImportModule>("flambeau._registry.signatures")));
        Owned texts(ok(op_signatures(self, nullptr)));
        return ok(in_python<PyObject_CallMethod>(module.get(), "of", "Oi", texts.get(), op->mode != Mode::Function));
    });
}
PyObject* op_doc(PyObject* self, void*) {
    PyOp* op = reinterpret_cast<PyOp*>(self);
    std::string text;
    for (auto& o : op->handle->overloads) text += o->signature.text + "\n";
    return PyUnicode_FromString((text + "\n" + op->handle->doc).c_str());
}
PyObject* op_reduce(PyObject* self, PyObject*) {
    PyOp* op = reinterpret_cast<PyOp*>(self);
    if (op->mode == Mode::Function) return op_name(self, nullptr);
    Owned builtins(in_python<PyImport_ImportModule>("builtins"));
    Owned get(in_python<PyObject_GetAttrString>(builtins.get(), "getattr"));
    return Py_BuildValue("O(Os)", get.get(), tensor_type, name_of(op).c_str());
}
PyObject* op_get(PyObject* self, PyObject* object, PyObject*) {
    if (!object || object == Py_None) return Py_NewRef(self);
    return PyMethod_New(self, object);
}
void op_dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyGetSetDef op_getset[] = {{"__name__", op_name, nullptr, nullptr, nullptr},
                           {"__qualname__", op_qualname, nullptr, nullptr, nullptr},
                           {"__module__", op_module, nullptr, nullptr, nullptr},
                           {"__doc__", op_doc, nullptr, nullptr, nullptr},
                           {"signatures", op_signatures, nullptr, nullptr, nullptr},
                           {"__signature__", op_signature, nullptr, nullptr, nullptr},
                           {}};
PyMethodDef op_methods[] = {{"__reduce__", op_reduce, METH_NOARGS, nullptr}, {}};
PyMemberDef op_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(PyOp, vectorcall), READONLY, nullptr}, {}};

PyTypeObject* make_op_type(const char* name, bool method) {
    std::vector<PyType_Slot> slots = {{Py_tp_dealloc, reinterpret_cast<void*>(op_dealloc)},
                                      {Py_tp_repr, reinterpret_cast<void*>(op_repr)},
                                      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                      {Py_tp_getset, op_getset},
                                      {Py_tp_methods, op_methods},
                                      {Py_tp_members, op_members}};
    if (method) slots.push_back({Py_tp_descr_get, reinterpret_cast<void*>(op_get)});
    slots.push_back({0, nullptr});
    unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION |
                     (method ? Py_TPFLAGS_METHOD_DESCRIPTOR : 0u);
    PyType_Spec spec = {name, sizeof(PyOp), 0, flags, slots.data()};
    return reinterpret_cast<PyTypeObject*>(ok(PyType_FromSpec(&spec)));
}

Owned make_op(OpHandle* handle, Mode mode) {
    PyTypeObject* type = mode == Mode::Function ? function_type : method_type;
    PyOp* op = reinterpret_cast<PyOp*>(ok(type->tp_alloc(type, 0)));
    op->vectorcall = op_vectorcall;
    op->handle = handle;
    op->mode = mode;
    return Owned(reinterpret_cast<PyObject*>(op));
}

// One field per line, as in PyTorch.
PyObject* named_repr(PyObject* self) {
    return guarded([&] {
        PyTypeObject* type = Py_TYPE(self);
        std::string kind = type->tp_name;
        std::string text = shown_package + kind.substr(kind.find('.')) + "(\n";
        Items fields(self);
        for (Py_ssize_t i = 0; i < fields.size(); ++i) {
            Owned value(ok(PyObject_Repr(fields[i])));
            text += (i ? ",\n" : "") + std::string(type->tp_members[i].name) + "=" + text_of(value.get());
        }
        return ok(PyUnicode_FromString((text + ")").c_str()));
    });
}

PyTypeObject* make_named_type(const Signature& sig) {
    auto* fields = new std::vector<PyStructSequence_Field>;
    for (const std::string& field : sig.fields) fields->push_back({strdup(field.c_str()), nullptr});
    fields->push_back({nullptr, nullptr});
    std::string short_name = sig.name.substr(sig.name.rfind('.') + 1);
    PyStructSequence_Desc desc = {strdup(("flambeau.return_types." + short_name).c_str()), nullptr, fields->data(),
                                  static_cast<int>(sig.fields.size())};
    PyTypeObject* type = PyStructSequence_NewType(&desc);
    if (!type) throw PythonError{};
    type->tp_repr = named_repr;
    PyDict_SetItemString(
        return_types, sig.name.find('.') == std::string::npos ? short_name.c_str() : ("linalg_" + short_name).c_str(),
        reinterpret_cast<PyObject*>(type));
    return type;
}

void add_overload(OpHandle& handle, const OpOverload& source, PyObject* python) {
    std::unique_ptr<OpOverload> own;
    if (python) {
        own = std::make_unique<OpOverload>(source);
        own->signature = parse_signature(own->text);
    }
    const OpOverload* op = python ? own.get() : &source;
    auto o = std::make_unique<Overload>(op, op->signature, source.flags, python, nullptr, std::move(own));
    for (const Param& p : o->signature.params) p.interned = ok(PyUnicode_InternFromString(p.name.c_str()));
    for (size_t i = 0; i < o->signature.params.size(); i++) {
        if (o->signature.params[i].type == ArgType::Device) o->device_at = static_cast<int>(i);
        if (o->signature.params[i].type == ArgType::Generator) o->draws = !python;
    }
    if (o->signature.result == Signature::Result::Named) {
        // Overloads with the same fields share one type: instances must compare and pickle alike.
        for (auto& other : handle.overloads) {
            if (other->named && other->signature.fields == o->signature.fields) o->named = other->named;
        }
        if (!o->named) o->named = make_named_type(o->signature);
    }
    handle.flags |= o->flags;
    handle.overloads.push_back(std::move(o));
}

OpHandle& handle_for(const std::string& name) {
    auto& slot = handles()[name];
    if (!slot) {
        slot = std::make_unique<OpHandle>();
        slot->name = name;
        slot->short_name = name.substr(name.rfind('.') + 1);
        slot->inplace_name = slot->short_name + "_";
    }
    return *slot;
}

// Puts the op's callables under `name` into the namespace dictionaries: {"": {…}, "linalg": {…}} and the Tensor type.
void publish(PyObject* namespaces, OpHandle& handle, const std::string& name) {
    size_t dot = name.rfind('.');
    std::string space = dot == std::string::npos ? "" : name.substr(0, dot),
                short_name = name.substr(dot == std::string::npos ? 0 : dot + 1);
    Owned names = find_item(namespaces, space.c_str());
    if (!names) {
        names = Owned(ok(PyDict_New()));
        ok(PyDict_SetItemString(namespaces, space.c_str(), names.get()));
    }
    PyObject* dict = names.get();
    auto callable = [&](Mode mode) {
        PyObject*& made = handle.callables[static_cast<int>(mode)];
        if (!made) made = make_op(&handle, mode).release();
        return made;
    };
    if (handle.flags & FUNCTION) ok(PyDict_SetItemString(dict, short_name.c_str(), callable(Mode::Function)));
    if (!space.empty()) return;  // special.expit is not a method
    PyObject* type = reinterpret_cast<PyObject*>(tensor_type);
    if (handle.flags & METHOD) ok(PyObject_SetAttrString(type, short_name.c_str(), callable(Mode::Method)));
    if (handle.flags & INPLACE) {
        ok(PyObject_SetAttrString(type, (short_name + "_").c_str(), callable(Mode::Inplace)));
        if (handle.flags & FUNCTION)
            ok(PyDict_SetItemString(dict, (short_name + "_").c_str(), callable(Mode::Inplace)));
    }
}

PyObject* namespaces_ = nullptr;

// _C.define(signature, flags, function, doc): a composite written in Python.
PyObject* define(PyObject*, PyObject* args) {
    const char *signature, *doc;
    unsigned flags;
    PyObject* function;
    if (!PyArg_ParseTuple(args, "sIOs", &signature, &flags, &function, &doc)) return nullptr;
    return guarded([&]() -> PyObject* {
        std::string text = signature;
        std::string name = text.substr(0, text.find('('));
        OpHandle& handle = handle_for(name);
        OpOverload source;
        source.text = text;
        source.flags = flags;
        add_overload(handle, source, Py_NewRef(function));
        if (*doc) handle.doc = doc;
        publish(namespaces_, handle, name);
        Py_RETURN_NONE;
    });
}

PyObject* define_alias(PyObject*, PyObject* args) {
    const char *name, *target;
    if (!PyArg_ParseTuple(args, "ss", &name, &target)) return nullptr;
    return guarded([&]() -> PyObject* {
        auto it = handles().find(target);
        if (it == handles().end()) fail_state("alias '", name, "' of an unknown op '", target, "'");
        publish(namespaces_, *it->second, name);
        Py_RETURN_NONE;
    });
}

// _C.registry(): {name: (signatures, flags, doc)} of every op.
PyObject* registry(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        Owned dict(ok(PyDict_New()));
        for (auto& [name, handle] : handles()) {
            if (!(handle->flags & (FUNCTION | METHOD | INPLACE))) continue;  // only gradient formulas use it
            Owned list(ok(PyList_New(0)));
            for (auto& o : handle->overloads) {
                Owned row(Py_BuildValue("sIO", o->signature.text.c_str(), o->flags, o->python ? Py_True : Py_False));
                ok(PyList_Append(list.get(), row.get()));
            }
            Owned entry(Py_BuildValue("Os", list.get(), handle->doc.c_str()));
            ok(PyDict_SetItemString(dict.get(), name.c_str(), entry.get()));
        }
        return dict.release();
    });
}

// A signature for Python: (name, ((type, argument, default or None, keyword-only, spelled out), …), result), where the
// result is a type, or ((type, field), …).
PyObject* parsed(const Signature& signature) {
    Owned params(ok(PyTuple_New(signature.size())));
    for (int i = 0; i < signature.size(); i++) {
        const Param& p = signature.params[i];
        PyTuple_SET_ITEM(params.get(), i,
                         ok(Py_BuildValue("sszOO", p.type_text.c_str(), p.name.c_str(),
                                          p.has_default ? p.default_text.c_str() : nullptr,
                                          p.keyword_only ? Py_True : Py_False, p.spread ? Py_True : Py_False)));
    }
    std::string result = signature.text.substr(signature.text.rfind(" -> ") + 4);
    if (signature.fields.empty()) return ok(Py_BuildValue("sOs", signature.name.c_str(), params.get(), result.c_str()));
    Owned fields(ok(PyTuple_New(static_cast<Py_ssize_t>(signature.fields.size()))));
    size_t start = 1;  // "(Tensor values, Tensor indices)": a type ends where its field begins
    for (size_t i = 0; i < signature.fields.size(); i++) {
        size_t end = result.find(' ', start);
        PyTuple_SET_ITEM(
            fields.get(), static_cast<Py_ssize_t>(i),
            ok(Py_BuildValue("ss", result.substr(start, end - start).c_str(), signature.fields[i].c_str())));
        start = end + signature.fields[i].size() + 3;  // the space, the name, the comma and another space
    }
    return ok(Py_BuildValue("sOO", signature.name.c_str(), params.get(), fields.get()));
}

PyObject* parse_signature_text(PyObject*, PyObject* text) {
    return guarded([&]() -> PyObject* { return parsed(parse_signature(text_of(text))); });
}

// What op_flags says in Python.
struct {
    const char* name;
    unsigned flag;
} const flag_names[] = {{"FUNCTION", FUNCTION}, {"METHOD", METHOD}, {"INPLACE", INPLACE},
                        {"OUT", OUT},           {"FREE", FREE},     {"COMPOSITE", COMPOSITE},
                        {"WIDER", WIDER},       {"GATED", GATED},   {"ELEMENTWISE", ELEMENTWISE}};

PyMethodDef functions[] = {
    {"define", define, METH_VARARGS, "define(signature, flags, function, doc): registers a composite op."},
    {"define_alias", define_alias, METH_VARARGS, "define_alias(name, target): another name for an op."},
    {"parse_signature", parse_signature_text, METH_O, "parse_signature(text): name, arguments and result."},
    {"registry", registry, METH_NOARGS, "registry(): every op's signatures, flags and doc."},
    {"call_as", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_as)), METH_FASTCALL,
     "call_as(name, function, *args): errors of the ops that it calls carry the name."},
    {"set_draws_in_vmap", set_draws_in_vmap, METH_O,
     "set_draws_in_vmap(on): ops that draw numbers are handed to vmap."},
    {}};

}  // namespace

OpHandle* find_op(const char* name) {
    auto it = handles().find(name);
    return it == handles().end() ? nullptr : it->second.get();
}

void set_cast(const char* op, Cast how) {
    if (OpHandle* handle = find_op(op)) handle->cast = how;
}

PyObject* call_op(OpHandle* op, bool inplace, PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
    return call(op, inplace ? Mode::Inplace : Mode::Operator, args, count, kwnames);
}

void add_ops(PyObject* module) {
    return_types = ok(PyDict_New());
    function_type = make_op_type("flambeau._C.OpFunction", false);
    method_type = make_op_type("flambeau._C.OpMethod", true);
    namespaces_ = ok(PyDict_New());
    link_ops();
    for (OpEntry& entry : op_table()) {
        if (!entry.alias_of.empty()) continue;
        OpHandle& handle = handle_for(entry.name);
        handle.doc = entry.doc;
        for (const OpOverload& o : entry.overloads) add_overload(handle, o, nullptr);
        publish(namespaces_, handle, entry.name);
    }
    for (OpEntry& entry : op_table()) {
        if (entry.alias_of.empty()) continue;
        auto it = handles().find(entry.alias_of);
        if (it == handles().end()) fail_state("alias '", entry.name, "' of an unknown op '", entry.alias_of, "'");
        publish(namespaces_, *it->second, entry.name);
    }
    ok(PyModule_AddObjectRef(module, "namespaces", namespaces_));
    Owned flags(ok(PyDict_New()));
    for (auto& [name, flag] : flag_names) {
        Owned number(ok(PyLong_FromUnsignedLong(flag)));
        ok(PyDict_SetItemString(flags.get(), name, number.get()));
    }
    ok(PyModule_AddObjectRef(module, "op_flags", flags.get()));
    ok(PyModule_AddObjectRef(module, "return_types", return_types));
    ok(PyModule_AddFunctions(module, functions));
}

}  // namespace fb::py
