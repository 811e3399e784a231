// Shared by the files of the Python side of the graph: hooks, nodes as objects, and functions that add each file to the
// module.
#pragma once
#include "autograd/saved.h"
#include "bindings/autograd.h"
#include "ops/table/dispatch.h"

namespace fb::py {

// ---- gradients as Python sees them (hooks.cpp) ----------------------------------------------------------------------

inline PyObject* wrap_or_none(const Tensor& t) { return t ? wrap(t) : Py_NewRef(Py_None); }
Owned wrap_all(const Gradients& gradients);
Tensor gradient_of(PyObject* o, const char* who);  // a tensor or None, as `who` returned it

// ---- hooks (hooks.cpp) ----------------------------------------------------------------------------------------------

Ref<GradientHook> tensor_hook(PyObject* f);  // hook(grad) -> replacement or None
Ref<GradientHook> node_hook(PyObject* f);    // hook(grads) or hook(grad_inputs, grad_outputs) -> replacements or None
Ref<GradientHook> leaf_hook(PyObject* f);    // hook(tensor), the leaf whose .grad is complete
int64_t new_hook_id();
bool erase_hook(NodeHooks* hooks, int64_t id);
int visit_hooks(const NodeHooks* hooks, visitproc visit, void* arg);
PyObject* metadata_of(Node& node);  // a dictionary that lives as long as the node

// ---- nodes as Python objects (graph_node.cpp) -----------------------------------------------------------------------

struct PyGraphNode {
    PyObject_HEAD Node* node;
};
extern PyTypeObject* node_type;
inline PyGraphNode* as_node(PyObject* o) { return reinterpret_cast<PyGraphNode*>(o); }
inline bool is_node(PyObject* o) { return PyObject_TypeCheck(o, node_type); }

// One of the tensors saved by an op's node, as a SavedTensor; without a node, one that holds None (saved.cpp).
PyObject* saved_tensor(OpNode* node, uint32_t number, bool result);

PyObject* m_backward(PyObject* o, PyObject* args, PyObject* kwargs);  // Tensor.backward (backward.cpp)

void add_nodes(PyObject* module);
void add_backward(PyObject* module);
void add_saved(PyObject* module);
void add_formulas(PyObject* module);
void add_kernel_hook(PyObject* module);

}  // namespace fb::py
