// The backward pass, from given outputs to leaves or to chosen inputs.
#pragma once
#include <functional>

#include "autograd/node.h"

namespace fb {

struct BackwardTask {
    std::vector<Edge> roots;
    std::vector<Tensor> gradients;  // one per root, of the root's shape
    bool keep_graph = false;
    bool create_graph = false;
    // When not empty, only the nodes that lead to these edges run; their gradients are returned instead of accumulated.
    std::vector<Edge> inputs;
    // Nothing is returned: leaf inputs accumulate their gradients, non-leaf inputs retain them.
    bool accumulate = false;
};

// The gradients of task.inputs (undefined where none arrived), or an empty list without inputs.
std::vector<Tensor> run_backward(const BackwardTask& task);
// Whether a backward runs on this thread, and whether it runs for chosen inputs only.
bool in_backward();
bool in_partial_backward();
// IDs of the backward passes running on this thread, innermost first. IDs are never reused.
std::vector<uint64_t> running_backwards();
// Whether the innermost backward may send a gradient along this edge.
bool backward_reaches(const Edge& edge);
// Calls a function when the outermost backward on this thread has finished.
void after_backward(std::function<void()> call);

}  // namespace fb
