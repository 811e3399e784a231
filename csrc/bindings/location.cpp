// The user's line of a call: read directly from the interpreter's frames, because every recorded op needs it.
#include <unordered_map>
#include <vector>

#include "bindings/autograd.h"

#if PY_VERSION_HEX < 0x030D0000
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#endif

namespace fb::py {
namespace {

struct Code {
    PyCodeObject* code;  // kept alive
    bool ours;           // a file of this package
};
// A program has some thousands. If one compiles code endlessly, further places are unknown.
constexpr size_t most_codes = 65536;
std::vector<Code>& codes() {
    static auto* table = new std::vector<Code>{{nullptr, false}};
    return *table;
}

bool is_ours(PyCodeObject* code) {
    static const std::string package = [] {
        Owned module(in_python<PyImport_ImportModule>("flambeau"));
        Owned file(module ? in_python<PyObject_GetAttrString>(module.get(), "__file__") : nullptr);
        const char* path = file ? PyUnicode_AsUTF8(file.get()) : nullptr;
        PyErr_Clear();
        std::string text = path ? path : "";
        return text.substr(0, text.rfind('/') + 1);
    }();
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (!file) PyErr_Clear();
    if (!file) return false;
    // Functions generated from text have file names such as <flambeau.nn.functional.relu>.
    std::string name = file;
    return name.starts_with("<flambeau.") || (!package.empty() && name.starts_with(package));
}

// Called with the interpreter lock held.
uint32_t number_of(PyCodeObject* code) {
    static PyCodeObject* last = nullptr;
    static uint32_t last_number = 0;
    if (code == last) return last_number;
    static auto* numbers = new std::unordered_map<PyCodeObject*, uint32_t>;
    if (codes().size() >= most_codes && !numbers->contains(code)) return 0;
    auto [it, fresh] = numbers->try_emplace(code, static_cast<uint32_t>(codes().size()));
    if (fresh) {
        Py_INCREF(code);
        codes().push_back({code, is_ours(code)});
    }
    last = code;
    last_number = it->second;
    return last_number;
}

std::string describe(Location where) {
    if (!where.code) return "";
    Lock lock;
    PyCodeObject* code = codes()[where.code].code;
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (!file) {
        PyErr_Clear();
        return "";
    }
    return std::string(file) + ":" + std::to_string(PyCode_Addr2Line(code, where.instruction));
}

[[maybe_unused]] const bool ready = [] {
    describe_location = describe;
    return true;
}();

}  // namespace

Location here() {
    Location place;
#if PY_VERSION_HEX < 0x030D0000
    _PyCFrame* c = PyThreadState_Get()->cframe;
    for (_PyInterpreterFrame* frame = c ? c->current_frame : nullptr; frame; frame = frame->previous) {
        // A frame still being set up has no line yet.
        if (_PyFrame_IsIncomplete(frame)) continue;
        place = {number_of(frame->f_code),
                 static_cast<int32_t>(_PyInterpreterFrame_LASTI(frame) * sizeof(_Py_CODEUNIT))};
        if (!codes()[place.code].ours) break;
    }
#else
    Owned frame(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
    while (frame) {
        auto* f = reinterpret_cast<PyFrameObject*>(frame.get());
        Owned code(reinterpret_cast<PyObject*>(PyFrame_GetCode(f)));
        place = {number_of(reinterpret_cast<PyCodeObject*>(code.get())), PyFrame_GetLasti(f)};
        if (!codes()[place.code].ours) break;
        frame = Owned(reinterpret_cast<PyObject*>(PyFrame_GetBack(f)));
    }
#endif
    return place;
}

}  // namespace fb::py
