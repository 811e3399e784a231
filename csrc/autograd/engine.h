// Backward: from given outputs to leaves, or to chosen inputs.
#pragma once
#include <functional>

#include "autograd/node.h"

namespace fb {

struct BackwardTask {
    std::vector<Edge> roots;
    std::vector<Tensor> gradients;  // one per root, of the root's shape
    bool keep_graph = false;
    bool create_graph = false;
    // When not empty, only what leads to these is run, and their gradients are returned instead of accumulated.
    std::vector<Edge> inputs;
    // Nothing is returned: leaves among the inputs accumulate theirs, the others retain them.
    bool accumulate = false;
};

// Gradients of task.inputs (undefined where nothing arrived), else nothing.
std::vector<Tensor> run_backward(const BackwardTask& task);
// Whether a backward runs on this thread, and whether it is for some inputs only.
bool in_backward();
bool in_partial_backward();
// Numbers of the backwards that run on this thread, the innermost first; no two ever have the same.
std::vector<uint64_t> running_backwards();
// Whether the innermost of them may bring a gradient there.
bool backward_reaches(const Edge& edge);
// Calls a function when the outermost backward that runs on this thread is done.
void after_backward(std::function<void()> call);

}  // namespace fb
