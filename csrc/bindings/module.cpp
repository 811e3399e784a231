// The extension module flambeau._C.
#include "bindings/data.h"
#include "bindings/expressions.h"
#include "bindings/override.h"
#include "bindings/shared.h"

namespace {

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "flambeau._C",
                          "The compiled core of flambeau.",
                          -1,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__C() {
    return fb::py::guarded([]() -> PyObject* {
        using namespace fb::py;
        Owned module(ok(PyModule_Create(&definition)));
        add_types(module.get());
        add_size(module.get());
        add_tensor_type(module.get());
        add_ops(module.get());
        add_autograd(module.get());
        add_construct(module.get());
        add_system(module.get());
        add_profile(module.get());
        add_autocast(module.get());
        add_override(module.get());
        add_exchange(module.get());
        add_shared(module.get());
        add_cluster(module.get());
        add_data(module.get());
        add_expressions(module.get());
        add_accelerator(module.get());
        add_kernels(module.get());
        return module.release();
    });
}
