// Convolutions of patches.
#include "device/move.h"
#include "ops/linear/matmul.h"
#include "ops/nn/conv.h"

namespace fb {
namespace {

// The contiguous elements of a window: channels if there are enough of them, else pixels of a row.
bool channels_inside(const ConvShape& s) { return s.in_channels >= 16; }

// (a, channels, ...) with the channels last or not.
Tensor ordered(const Tensor& t, bool last) {
    if (!last) return t;
    Dims order = {0};
    for (int64_t d = 2; d < t.dim(); d++) order.push_back(d);
    order.push_back(1);
    return permute(t, order);
}

// A view of (batch, places ..., a window's channels and pixels ...), without the pixels that are in no window.
Tensor windows(const ConvShape& s, const Tensor& x, bool last) {
    Tensor used = x;
    Dims split = {s.batch, s.in_channels}, order = {0};
    for (int64_t d = 2; d < x.dim(); d++) {
        int64_t i = 3 - s.spatial + d - 2;
        used = slice(used, d, 0, s.out[i] * s.kernel[i]);
        split.push_back(s.out[i]);
        split.push_back(s.kernel[i]);
        order.push_back(2 * d - 2);
    }
    if (!last) order.push_back(1);
    for (int64_t d = 2; d < x.dim(); d++) order.push_back(2 * d - 1);
    if (last) order.push_back(1);
    return permute(view(used, split), order);
}
// (windows, elements of a window).
Tensor as_rows(const ConvShape& s, const Tensor& w, int64_t rows) {
    return reshape(w, {rows, s.in_channels * s.kernel[0] * s.kernel[1] * s.kernel[2]});
}
Tensor window_rows(const ConvShape& s, const Tensor& x) {
    bool last = channels_inside(s);
    return as_rows(s, windows(s, last ? in_order(x, true) : x, last), s.batch * s.out[0] * s.out[1] * s.out[2]);
}

}  // namespace

Tensor by_pixel(const Tensor& t) { return reshape(ordered(t, true), {t.numel() / t.size(1), t.size(1)}); }

void patches_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) {
    Tensor weight = as_rows(s, ordered(w, channels_inside(s)), s.out_channels);
    multiply_add(by_pixel(y), window_rows(s, x), transpose(weight, 0, 1), bias);
}

void patches_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& g, const Tensor& w) {
    Tensor places = windows(s, gx, true);
    if (places.numel() < gx.numel()) fill(gx, Scalar(0));
    Tensor rows = empty(places.shape(), gx.dtype(), gx.device()), pixels = by_pixel(in_order(g, true));
    multiply_add(as_rows(s, rows, pixels.size(0)), pixels, as_rows(s, ordered(w, true), s.out_channels), Tensor());
    device::moving(places).copy(places, rows);
}

void patches_backward_weight(const ConvShape& s, const Tensor& gw, const Tensor& g, const Tensor& x) {
    Tensor places = ordered(gw, channels_inside(s)), sums = empty(places.shape(), gw.dtype(), gw.device());
    Tensor pixels = by_pixel(in_order(g, true));
    multiply_add(as_rows(s, sums, s.out_channels), transpose(pixels, 0, 1), window_rows(s, x), Tensor());
    device::moving(places).copy(places, sums);
}

}  // namespace fb
