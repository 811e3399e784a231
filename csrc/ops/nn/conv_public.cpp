// conv1d … conv_transpose3d: the public names, based on `convolution`.
#include "base/wording.h"
#include "ops/nn/batched.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

void check_batched(const Tensor& t, int64_t spatial) {
    check(t.dim() == spatial + 1 || t.dim() == spatial + 2, "Expected ", spatial + 1, "D (unbatched) or ", spatial + 2,
          "D (batched) input to ", current_op, ", but got input of size: ", Bracketed{t.shape()});
}

Var bias_of(const Args& a) { return a.given(2) ? Var(a.tensor(2)) : Var(); }

Tensor conv(const Args& a, int64_t spatial) {
    Batched in(a.tensor(0), spatial, check_batched);
    return in.back(call<"convolution">(in.x, Var(a.tensor(1)), bias_of(a), a.dims(3), a.dims(4), a.dims(5), false,
                                       Dims{0}, a.integer(6)));
}

// padding="same" or "valid".
Tensor conv_named(const Args& a, int64_t spatial) {
    Batched in(a.tensor(0), spatial, check_batched);
    const Tensor& w = a.tensor(1);
    const std::string& mode = a.text(4);
    check(mode == "same" || mode == "valid", "padding must be a number or 'same' or 'valid', got '", mode, "'");
    check(w.dim() == spatial + 2, "Expected ", w.dim(), "-dimensional input for ", w.dim(), "-dimensional weight ",
          Bracketed{w.shape()}, ", which must have ", spatial + 2, " dimensions here");
    const Dims &stride = a.dims(3), &given = a.dims(5);
    Dims padding(spatial, 0), extra;
    if (mode == "same") {
        for (int64_t s : stride)
            check(s == 1, "padding='same' is not supported for strided convolutions, got stride ", stride);
        check(given.size() == 1 || given.size() == spatial, "dilation must be one number or ", spatial, ", got ",
              given);
        bool uneven = false;
        for (int64_t d = 0; d < spatial; d++) {
            int64_t total = checked_mul(given[given.size() == 1 ? 0 : d], w.shape()[2 + d] - 1, "the padding");
            padding[d] = total / 2;
            uneven |= total % 2 != 0;
        }
        // An odd remainder goes to the far side, by padding the input first; last dimension first.
        for (int64_t d = spatial - 1; uneven && d >= 0; d--) {
            int64_t total = checked_mul(given[given.size() == 1 ? 0 : d], w.shape()[2 + d] - 1, "the padding");
            extra.push_back(0);
            extra.push_back(total % 2);
        }
    }
    Var x = extra.empty() ? in.x : call<"constant_pad_nd">(in.x, extra);
    return in.back(call<"convolution">(x, Var(w), bias_of(a), stride, padding, given, false, Dims{0}, a.integer(6)));
}

Tensor conv_transposed(const Args& a, int64_t spatial) {
    Batched in(a.tensor(0), spatial, check_batched);
    return in.back(call<"convolution">(in.x, Var(a.tensor(1)), bias_of(a), a.dims(3), a.dims(4), a.dims(7), true,
                                       a.dims(5), a.integer(6)));
}

#define CONV_DOC(n, sizes)                                                                                            \
    "Slides windows over " sizes                                                                                      \
    " and sums products with the weight.\n\nArgs:\n    input: shape (batch, channels, ...) or (channels, ...).\n    " \
    "weight: shape (out channels, channels / groups, ...).\n    bias: one number per output channel, or None.\n    "  \
    "stride: step of the window.\n    padding: zeros on both sides, or 'same' or 'valid'.\n    dilation: distance "   \
    "between taps.\n    groups: channels are split into so many independent groups.\n\nExample:\n    >>> fb.conv" n   \
    "d("
#define TRANSPOSED_DOC(n)                                                                                             \
    "The transpose of a convolution: spreads each element by the weight.\n\nArgs:\n    input: shape (batch, "         \
    "channels, "                                                                                                      \
    "...) or (channels, ...).\n    weight: shape (channels, out channels / groups, ...).\n    bias: one number per "  \
    "output channel, or None.\n    stride: distance between the windows in the result.\n    padding: taken off both " \
    "sides.\n    output_padding: added to one side.\n    groups: channels are split into so many independent "        \
    "groups.\n"                                                                                                       \
    "    dilation: distance between taps.\n\nExample:\n    >>> fb.conv_transpose" n "d("

#define CONV(n, spatial, doc, transposed_doc)                                                                          \
    OP("conv" #n                                                                                                       \
       "d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, int[] padding=0, int[] dilation=1, int "     \
       "groups=1) -> Tensor",                                                                                          \
       FUNCTION | FREE | COMPOSITE, doc) {                                                                             \
        return conv(a, spatial);                                                                                       \
    }                                                                                                                  \
    OP("conv" #n                                                                                                       \
       "d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, str padding='valid', int[] dilation=1, int " \
       "groups=1) -> Tensor",                                                                                          \
       FUNCTION | FREE | COMPOSITE) {                                                                                  \
        return conv_named(a, spatial);                                                                                 \
    }                                                                                                                  \
    OP("conv_transpose" #n                                                                                             \
       "d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, int[] padding=0, int[] output_padding=0, "   \
       "int "                                                                                                          \
       "groups=1, int[] dilation=1) -> Tensor",                                                                        \
       FUNCTION | FREE | COMPOSITE, transposed_doc) {                                                                  \
        return conv_transposed(a, spatial);                                                                            \
    }                                                                                                                  \
    OP_ALIAS("nn.functional.conv" #n "d", "conv" #n "d");                                                              \
    OP_ALIAS("nn.functional.conv_transpose" #n "d", "conv_transpose" #n "d")

CONV(1, 1, CONV_DOC("1", "a sequence") "fb.ones(1, 1, 4), fb.ones(1, 1, 2))\n    tensor([[[2., 2., 2.]]])\n",
     TRANSPOSED_DOC("1") "fb.ones(1, 1, 2), fb.ones(1, 1, 2))\n    tensor([[[1., 2., 1.]]])\n");
CONV(2, 2, CONV_DOC("2", "an image") "fb.ones(1, 1, 2, 3), fb.ones(1, 1, 2, 2))\n    tensor([[[[4., 4.]]]])\n",
     TRANSPOSED_DOC("2") "fb.ones(1, 1, 1, 2), fb.ones(1, 1, 1, 2))\n    tensor([[[[1., 2., 1.]]]])\n");
CONV(3, 3, CONV_DOC("3", "a volume") "fb.ones(1, 1, 1, 2, 3), fb.ones(1, 1, 1, 2, 2))\n    tensor([[[[[4., 4.]]]]])\n",
     TRANSPOSED_DOC("3") "fb.ones(1, 1, 1, 1, 2), fb.ones(1, 1, 1, 1, 2))\n    tensor([[[[[1., 2., 1.]]]]])\n");

}  // namespace
}  // namespace fb
