// The public names of pooling, with and without a batch.
#include "ops/nn/batched.h"
#include "ops/table/dispatch.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

void check_batched(const Tensor& t, int64_t spatial) {
    check(t.dim() == spatial + 1 || t.dim() == spatial + 2, "Expected ", spatial + 1, "D or ", spatial + 2,
          "D (batch mode) tensor with optional 0 dim batch size for input (non-empty ", spatial + 1, "D or ",
          spatial + 2, "D (batch mode) tensor expected for input), got shape ", t.shape());
}

// ints of a spatial argument: a single number, or one per dimension.
const Dims& sizes(const Args& a, int i, int64_t spatial, const char* name) {
    const Dims& given = a.dims(i);
    check(given.size() == 1 || given.size() == spatial, name, " must either be a single int, or a tuple of ", spatial,
          " ints, got ", given);
    return given;
}
Dims stride_of(const Args& a, int64_t spatial) {
    return a.given(2) && !a.dims(2).empty() ? sizes(a, 2, spatial, "stride") : Dims{};
}

Value max_pool(const Args& a, int64_t spatial, bool with) {
    const Tensor& t = a.tensor(0);
    if (spatial == 1 && !is_floating(t.dtype())) fail_dtype(t.dtype(), "a floating point dtype");
    Batched in(t, spatial, check_batched);
    const Dims& kernel = sizes(a, 1, spatial, "kernel_size");
    Dims stride = stride_of(a, spatial);
    const Dims &padding = sizes(a, 3, spatial, "padding"), &dilation = sizes(a, 4, spatial, "dilation");
    bool ceil = a.flag(5);
    if (with) return in.back(call_all<"_max_pool">(in.x, kernel, stride, padding, dilation, ceil, true));
    if (should_record({t}))
        return in.back(call_all<"_max_pool">(in.x, kernel, stride, padding, dilation, ceil, false)[0]);
    return in.back(call<"_max_pool_values">(in.x, kernel, stride, padding, dilation, ceil));
}

Tensor avg_pool(const Args& a, int64_t spatial) {
    Batched in(a.tensor(0), spatial, check_batched);
    std::optional<int64_t> divisor;
    if (spatial > 1) divisor = a.integer_or_none(6);
    return in.back(call<"_avg_pool">(in.x, sizes(a, 1, spatial, "kernel_size"), stride_of(a, spatial),
                                     sizes(a, 3, spatial, "padding"), a.flag(4), a.flag(5), divisor));
}

#define MAX_ARGS \
    "Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] dilation=1, bool ceil_mode=False"
#define AVG_ARGS                                                                                        \
    "Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, bool ceil_mode=False, bool " \
    "count_include_pad=True"
#define WINDOW_DOC                                                                                                     \
    "    input: shape (batch, channels, ...) or (channels, ...).\n    kernel_size: size of the window, one number or " \
    "one per dimension.\n    stride: step of the window; kernel_size when not given.\n    padding: how far windows "   \
    "reach beyond both ends.\n"
#define MAX_DOC                                                                                                       \
    "The largest element of every window.\n\nArgs:\n" WINDOW_DOC                                                      \
    "    dilation: distance between the elements of a window.\n    ceil_mode: whether a last window that is cut off " \
    "counts.\n"
#define INDEX_DOC "    return_indices: whether to return (values, their positions in the plane).\n"
#define AVG_DOC                                                                                                       \
    "The mean of every window.\n\nArgs:\n" WINDOW_DOC                                                                 \
    "    ceil_mode: whether a last window that is cut off counts.\n    count_include_pad: whether padding counts as " \
    "zeros.\n"
#define DIVISOR_DOC "    divisor_override: divides the sums by this instead of the number of elements.\n"

#define MAX_POOL(n, input, output)                                                                                   \
    OP("max_pool" #n "d(" MAX_ARGS ") -> Tensor", FUNCTION | FREE | COMPOSITE,                                       \
       MAX_DOC "\nExample:\n    >>> fb.max_pool" #n "d(" input ", 2)\n    " output "\n") {                           \
        return max_pool(a, n, false);                                                                                \
    }                                                                                                                \
    OP("nn.functional.max_pool" #n "d(" MAX_ARGS ", bool return_indices=False) -> any", FUNCTION | FREE | COMPOSITE, \
       MAX_DOC INDEX_DOC "\nExample:\n    >>> fb.nn.functional.max_pool" #n "d(" input ", 2)\n    " output "\n") {   \
        return max_pool(a, n, a.flag(6));                                                                            \
    }                                                                                                                \
    OP("nn.functional.max_pool" #n "d_with_indices(" MAX_ARGS ", bool return_indices=False) -> any",                 \
       FUNCTION | FREE | COMPOSITE,                                                                                  \
       MAX_DOC INDEX_DOC "\nExample:\n    >>> fb.nn.functional.max_pool" #n "d_with_indices(" input                  \
                         ", 2)[0]\n    " output "\n") {                                                              \
        return max_pool(a, n, true);                                                                                 \
    }

MAX_POOL(1, "fb.tensor([[1.0, 3.0, 2.0, 4.0]])", "tensor([[3., 4.]])")
MAX_POOL(2, "fb.arange(8.0).view(1, 2, 4)", "tensor([[[5., 7.]]])")
MAX_POOL(3, "fb.arange(8.0).view(1, 2, 2, 2)", "tensor([[[[7.]]]])")
OP("max_pool1d_with_indices(" MAX_ARGS ") -> (Tensor values, Tensor indices)", FUNCTION | FREE | COMPOSITE,
   MAX_DOC
   "\nExample:\n    >>> fb.max_pool1d_with_indices(fb.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)[1]\n    "
   "tensor([[1, 3]])\n") {
    return max_pool(a, 1, true);
}

OP("avg_pool1d(" AVG_ARGS ") -> Tensor", FUNCTION | FREE | COMPOSITE,
   AVG_DOC "\nExample:\n    >>> fb.avg_pool1d(fb.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)\n    tensor([[2., 3.]])\n") {
    return avg_pool(a, 1);
}
OP_ALIAS("nn.functional.avg_pool1d", "avg_pool1d");
OP("nn.functional.avg_pool2d(" AVG_ARGS ", int? divisor_override=None) -> Tensor", FUNCTION | OUT | FREE | COMPOSITE,
   AVG_DOC DIVISOR_DOC
   "\nExample:\n    >>> fb.nn.functional.avg_pool2d(fb.arange(8.0).view(1, 2, 4), 2)\n    tensor([[[2.5000, "
   "4.5000]]])\n") {
    return avg_pool(a, 2);
}
OP("nn.functional.avg_pool3d(" AVG_ARGS ", int? divisor_override=None) -> Tensor", FUNCTION | OUT | FREE | COMPOSITE,
   AVG_DOC DIVISOR_DOC
   "\nExample:\n    >>> fb.nn.functional.avg_pool3d(fb.arange(8.0).view(1, 2, 2, 2), 2)\n    "
   "tensor([[[[3.5000]]]])\n") {
    return avg_pool(a, 3);
}

// ---- adaptive and random windows ------------------------------------------------------------------------------------

OP("adaptive_avg_pool1d(Tensor input, int[] output_size) -> Tensor", FUNCTION | FREE | COMPOSITE,
   R"(Adaptive average pooling: the means of as many windows as output elements, which together cover the input.

Args:
    input: shape (batch, channels, length) or (channels, length).
    output_size: the length of the result.

Example:
    >>> fb.adaptive_avg_pool1d(fb.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)
    tensor([[2., 3.]])
)") {
    Batched in(a.tensor(0), 1, check_batched);
    return in.back(call<"_adaptive_avg_pool">(in.x, sizes(a, 1, 1, "output_size")));
}
OP("adaptive_max_pool1d(Tensor input, int[] output_size) -> (Tensor values, Tensor indices)",
   FUNCTION | FREE | COMPOSITE,
   R"(Adaptive max pooling: the maxima of as many windows as output elements, and their indices.

Args:
    input: shape (batch, channels, length) or (channels, length).
    output_size: the length of the result.

Example:
    >>> fb.adaptive_max_pool1d(fb.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)[1]
    tensor([[1, 3]])
)") {
    Batched in(a.tensor(0), 1, check_batched);
    return in.back(call_all<"_adaptive_max_pool">(in.x, sizes(a, 1, 1, "output_size")));
}

// Called by the functions of flambeau.nn.functional with computed sizes.
OP("_nn.adaptive_avg_pool(Tensor input, int[] output_size) -> Tensor", FUNCTION | FREE | COMPOSITE) {
    Batched in(a.tensor(0), a.dims(1).size(), check_batched);
    return in.back(call<"_adaptive_avg_pool">(in.x, a.dims(1)));
}
OP("_nn.adaptive_max_pool(Tensor input, int[] output_size) -> Tensor[]", FUNCTION | FREE | COMPOSITE) {
    Batched in(a.tensor(0), a.dims(1).size(), check_batched);
    return in.back(call_all<"_adaptive_max_pool">(in.x, a.dims(1)));
}
OP("_nn.fractional_max_pool(Tensor input, int[] kernel_size, int[] output_size, Tensor samples) -> Tensor[]",
   FUNCTION | COMPOSITE) {
    Batched in(a.tensor(0), a.dims(2).size(), check_batched);
    return in.back(call_all<"_fractional_max_pool">(in.x, a.dims(1), a.dims(2), Var(a.tensor(3))));
}
OP("_nn.max_unpool(Tensor input, Tensor indices, int[] output_size) -> Tensor", FUNCTION | FREE | COMPOSITE) {
    Batched in(a.tensor(0), a.dims(2).size(), check_batched);
    Var indices(a.tensor(1));
    return in.back(call<"_max_unpool">(in.x, in.added ? unsqueeze(indices, 0) : indices, a.dims(2)));
}

}  // namespace
}  // namespace fb
