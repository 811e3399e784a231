#include "backend/cpu/conv_window.h"

namespace fb::cpu {
namespace {

void add_tap(Axis& a, int64_t offset, int64_t tap) {
    // The first position at or after the start of the source.
    int64_t j = offset < 0 ? (-offset + a.step - 1) / a.step : 0;
    if (j >= a.count || j * a.step + offset >= a.source) return;
    a.offset.push_back(offset);
    a.tap.push_back(tap);
}

void list_taps(WindowSum& w) {
    w.taps.clear();
    for (int64_t a : w.axis[0].tap)
        for (int64_t b : w.axis[1].tap)
            for (int64_t c : w.axis[2].tap) w.taps.push_back((a * w.window[1] + b) * w.window[2] + c);
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

bool WindowSum::reaches_out() const {
    for (const Axis& a : axis)
        if (!a.offset.empty() && (a.offset.front() < 0 || (a.count - 1) * a.step + a.offset.back() >= a.source))
            return true;
    return false;
}

std::vector<WindowSum> split_at_edges(const WindowSum& w) {
    std::vector<Axis> parts[3];
    for (int i = 0; i < 3; i++) {
        const Axis& a = w.axis[i];
        auto inside = [&](int64_t j, int64_t offset) {
            return j * a.step + offset >= 0 && j * a.step + offset < a.source;
        };
        for (int64_t low = 0, high; low < a.count; low = high) {
            auto like_low = [&](int64_t j) {
                for (int64_t offset : a.offset)
                    if (inside(j, offset) != inside(low, offset)) return false;
                return true;
            };
            for (high = low + 1; high < a.count && like_low(high);) high++;
            Axis part{a.source, a.step, {}, {}, high - low, a.result, a.first + low * a.spread, a.spread};
            for (size_t t = 0; t < a.tap.size(); t++)
                if (inside(low, a.offset[t])) {
                    part.offset.push_back(a.offset[t] + low * a.step);
                    part.tap.push_back(a.tap[t]);
                }
            parts[i].push_back(std::move(part));
        }
    }
    std::vector<WindowSum> all;
    for (const Axis& z : parts[0])
        for (const Axis& y : parts[1])
            for (const Axis& x : parts[2]) {
                WindowSum part = w;
                part.axis[0] = z, part.axis[1] = y, part.axis[2] = x;
                list_taps(part);
                all.push_back(std::move(part));
            }
    return all;
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
    std::copy(s.kernel, s.kernel + 3, w.window);
    list_taps(w);
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
                std::copy(s.kernel, s.kernel + 3, w.window);
                list_taps(w);
                if (!w.taps.empty()) all.push_back(std::move(w));
            }
    return all;
}

}  // namespace fb::cpu
