// Elementwise kernels from text, over tensors that broadcast together.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "backend/gpu/work.h"

namespace fb::gpu {

// A result, and the expression for its elements, of type `computed`.
struct Output {
    Tensor tensor;
    std::string value;
    DType computed;
};
using Reals = std::vector<std::pair<std::string, double>>;

// Runs over the common shape of the outputs, which may be inputs too (in place). The inputs, named x, y, z, u, v, w and
// s in this order, are values of type T (ints where their bit of `conditions` is set); `reals` are members of g.
// Statements are executed before any output is written. At most eight tensors. Returns false if there is no kernel.
bool run_elements(const std::vector<Output>& outputs, DType compute, const std::vector<Tensor>& in,
                  const Reals& reals = {}, const std::string& statements = "", unsigned conditions = 0,
                  const Numbers::Exact* value = nullptr);

// A row of a contiguous tensor along a dimension: `at` is its first element, elements are g.inner apart.
struct RowShape {
    int64_t outer = 1, n = 1, inner = 1;
    RowShape(const Tensor& t, int64_t dim) {
        for (int64_t d = 0; d < t.dim(); d++) (d < dim ? outer : d > dim ? inner : n) *= t.shape()[d];
    }
    int64_t rows() const { return outer * inner; }
    // One item per row.
    Work& describe(Work& work) const { return work.number("n", n).number("inner", inner); }
    static constexpr const char* begin =
        "    const ix outer = item / g.inner, at = outer * g.n * g.inner + (item - outer * g.inner);\n";
};

}  // namespace fb::gpu
