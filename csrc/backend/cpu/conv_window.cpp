#include "backend/cpu/conv_window.h"

namespace fb::cpu {
namespace {

void add_tap(Axis& a, int64_t offset, int64_t tap) {
    // The first position that is not before the source.
    int64_t j = offset < 0 ? (-offset + a.step - 1) / a.step : 0;
    if (j >= a.count || j * a.step + offset >= a.source) return;
    a.offset.push_back(offset);
    a.tap.push_back(tap);
}

void list_taps(WindowSum& w, const ConvShape& s) {
    for (int64_t a : w.axis[0].tap)
        for (int64_t b : w.axis[1].tap)
            for (int64_t c : w.axis[2].tap) w.taps.push_back((a * s.kernel[1] + b) * s.kernel[2] + c);
}

Axis remainder(const ConvShape& s, int i, int64_t r) {
    Axis a{s.out[i], 1, {}, {}, (s.in[i] - r + s.stride[i] - 1) / s.stride[i], s.in[i], r, s.stride[i]};
    for (int64_t t = s.kernel[i] - 1; t >= 0; t--) {
        int64_t at = r + s.padding[i] - t * s.dilation[i];
        if (at % s.stride[i] == 0) add_tap(a, at / s.stride[i], t);
    }
    return a;
}

}  // namespace

bool WindowSum::covers() const {
    for (const Axis& a : axis)
        if (a.count != a.result) return false;
    return true;
}

WindowSum forward_sum(const ConvShape& s) {
    WindowSum w{};
    w.batch = s.batch, w.groups = s.groups, w.in = s.per_group(), w.out = s.out_channels / s.groups,
    w.kernel = s.taps();
    w.weight_in = w.kernel, w.weight_out = w.in * w.kernel, w.weight_group = w.out * w.weight_out;
    for (int i = 0; i < 3; i++) {
        Axis& a = w.axis[i];
        a.source = s.in[i], a.step = s.stride[i], a.count = a.result = s.out[i];
        for (int64_t t = 0; t < s.kernel[i]; t++) add_tap(a, t * s.dilation[i] - s.padding[i], t);
    }
    list_taps(w, s);
    return w;
}

std::vector<WindowSum> backward_sums(const ConvShape& s) {
    std::vector<WindowSum> all;
    for (int64_t a = 0; a < std::min(s.stride[0], s.in[0]); a++)
        for (int64_t b = 0; b < std::min(s.stride[1], s.in[1]); b++)
            for (int64_t c = 0; c < std::min(s.stride[2], s.in[2]); c++) {
                WindowSum w{};
                w.batch = s.batch, w.groups = s.groups, w.in = s.out_channels / s.groups, w.out = s.per_group();
                w.kernel = s.taps();
                w.weight_out = w.kernel, w.weight_in = w.out * w.kernel, w.weight_group = w.in * w.weight_in;
                w.axis[0] = remainder(s, 0, a), w.axis[1] = remainder(s, 1, b), w.axis[2] = remainder(s, 2, c);
                list_taps(w, s);
                if (!w.taps.empty()) all.push_back(std::move(w));
            }
    return all;
}

}  // namespace fb::cpu
