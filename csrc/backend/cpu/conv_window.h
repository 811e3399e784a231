// Convolutions as sums over windows of a channels-last image; the windows are rows of a matrix that is never
// materialised.
#pragma once
#include <cstring>
#include <vector>

#include "backend/cpu/convolution.h"
#include "backend/cpu/halves.h"

namespace fb::cpu {

// One dimension: position j of the result reads j * step + offset[t] of the source, for every t, and multiplies it by
// tap[t] of the kernel.
struct Axis {
    int64_t source, step;
    std::vector<int64_t> offset, tap;
    int64_t count;                          // positions
    int64_t result, first = 0, spread = 1;  // position j is first + j * spread; `result` is the size of the result

    bool inside(int64_t j) const { return j + offset.front() >= 0 && j + offset.back() < source; }
};

// Taps that are outside the source at every position are omitted.
struct WindowSum {
    int64_t batch, groups, in, out;  // channels per group
    Axis axis[3];
    int64_t window[3];
    std::vector<int64_t> taps;      // indices of kernel taps, in summation order
    int64_t weight_in, weight_out;  // strides of the weight between channels
    int64_t weight_group, kernel;   // weight stride between groups; number of taps of the kernel
    int64_t terms() const { return static_cast<int64_t>(taps.size()) * in; }
    int64_t positions() const { return batch * axis[0].count * axis[1].count * axis[2].count; }
    bool covers() const;       // positions are adjacent in the result
    bool reaches_out() const;  // some window is partly outside the source
};
WindowSum forward_sum(const ConvShape& s);
// Positions whose distance is the stride have the same taps: one sum for each remainder that has taps.
std::vector<WindowSum> backward_sums(const ConvShape& s);
// The same split into sums whose windows do not reach out. Padding with zeros would turn factors that are not finite
// into NaN.
std::vector<WindowSum> split_at_edges(const WindowSum& w);

// A position of a result.
struct Position {
    const WindowSum& w;
    int64_t image, at[3];
    Position(const WindowSum& w, int64_t index) : w(w) {
        for (int i = 2; i >= 0; i--) at[i] = index % w.axis[i].count, index /= w.axis[i].count;
        image = index;
    }
    void next() {
        for (int i = 2; i >= 0; i--) {
            if (++at[i] < w.axis[i].count) return;
            at[i] = 0;
        }
        image++;
    }
    void next_row() {
        at[2] = w.axis[2].count - 1;
        next();
    }
    // The pixel's index in the result.
    int64_t pixel() const {
        int64_t p = image;
        for (int i = 0; i < 3; i++) p = p * w.axis[i].result + w.axis[i].first + at[i] * w.axis[i].spread;
        return p;
    }
};

// For short runs, where a call of memcpy would take longer. May write up to a cache line, 64 bytes, too much.
template <class T>
inline void copy_run(T* to, const T* from, int64_t n) {
    char* out = reinterpret_cast<char*>(to);
    const char* in = reinterpret_cast<const char*>(from);
    int64_t bytes = n * static_cast<int64_t>(sizeof(T)), i = 0;
    for (; i + 64 <= bytes; i += 64) std::memcpy(out + i, in + i, 64);
#if defined(__AVX512F__) && defined(__AVX512BW__)
    if (i < bytes) _mm512_storeu_si512(out + i, _mm512_maskz_loadu_epi8((uint64_t(1) << (bytes - i)) - 1, in + i));
#else
    if (i + 32 <= bytes) std::memcpy(out + i, in + i, 32), i += 32;
    if (bytes >= 32) {
        if (i < bytes) std::memcpy(out + bytes - 32, in + bytes - 32, 32);
        return;
    }
    if (i + 16 <= bytes) std::memcpy(out + i, in + i, 16), i += 16;
    if (i + 8 <= bytes) std::memcpy(out + i, in + i, 8), i += 8;
    if (i + 4 <= bytes) std::memcpy(out + i, in + i, 4), i += 4;
    if (i + 2 <= bytes) std::memcpy(out + i, in + i, 2);
#endif
}
template <class Cell, class S>
inline void copy_cells(Cell* to, const S* from, int64_t n) {
    if constexpr (std::is_same_v<Cell, S>) copy_run(to, from, n);
    else widen(to, from, n);
}

// Rows of windows: for every position its pixels in the order of the taps, with the channels of a group contiguous.
template <class S>
class Windows {
  public:
    // A run of terms: the channels of one pixel, or of adjacent pixels in the image.
    struct Run {
        int64_t at, length, pixels;  // terms
        int64_t z, y, x;             // offsets of the first pixel
        int64_t delta;               // offset of the first pixel from a position, in the image
    };

    // x: the source; its pixels are `pitch` apart.
    Windows(const WindowSum& w, const S* x, int64_t pitch, bool join) : w_(w), x_(x), pitch_(pitch) {
        const Axis &y = w.axis[1], &across = w.axis[2];
        int64_t at = 0;
        for (int64_t a : w.axis[0].offset)
            for (int64_t b : y.offset)
                for (size_t t = 0; t < across.offset.size();) {
                    size_t end = t + 1;
                    while (join && pitch == w.in && end < across.offset.size() &&
                           across.offset[end] == across.offset[end - 1] + 1)
                        end++;
                    int64_t length = static_cast<int64_t>(end - t) * w.in, c = across.offset[t];
                    runs_.push_back({at, length, static_cast<int64_t>(end - t), a, b, c,
                                     ((a * y.source + b) * across.source + c) * pitch});
                    at += length;
                    t = end;
                }
    }

    // Calls f(run, first term, last) for all runs with terms in [p, end).
    template <class F>
    void each_run(int64_t p, int64_t end, F f) const {
        size_t low = 0, high = runs_.size();
        while (low < high && runs_[low].at + runs_[low].length <= p) low++;
        for (; low < high && runs_[low].at < end; low++) {
            const Run& run = runs_[low];
            f(run, std::max(p, run.at), std::min(end, run.at + run.length));
        }
    }

    // Packs terms [p, end) of `count` positions from `first` on, in the group whose first channel in the source is
    // `channel`; zeros after the last term.
    template <class Cell>
    void rows(Cell* to, int64_t to_row, int64_t channel, int64_t first, int64_t count, int64_t p, int64_t end) const {
        int64_t last = std::min(end, w_.terms());
        Position at(w_, first);
        size_t low = 0, high = runs_.size();
        while (low < high && runs_[low].at + runs_[low].length <= p) low++;
        while (low < high && runs_[high - 1].at >= last) high--;
        for (int64_t r = 0; r < count; r++, at.next(), to += to_row) {
            Seen seen(*this, at, channel);
            for (size_t i = low; i < high; i++) {
                const Run& run = runs_[i];
                copy(to - p, seen, run, std::max(p, run.at), std::min(last, run.at + run.length));
            }
            if (last < end) std::fill(to + last - p, to + end - p, Cell(0.0f));
        }
    }

    // A position in the source: its pixel at offset zero.
    struct Seen {
        int64_t z, y, x;
        const S* base;
        bool inside;  // the whole window is inside the source
        Seen(const Windows& all, const Position& at, int64_t channel) {
            const Axis* a = all.w_.axis;
            z = at.at[0] * a[0].step, y = at.at[1] * a[1].step, x = at.at[2] * a[2].step;
            base = all.x_ + channel + (((at.image * a[0].source + z) * a[1].source + y) * a[2].source + x) * all.pitch_;
            inside = a[0].inside(z) && a[1].inside(y) && a[2].inside(x);
        }
    };
    bool has_row(const Seen& seen, const Run& run) const {
        int64_t z = seen.z + run.z, y = seen.y + run.y;
        return z >= 0 && z < w_.axis[0].source && y >= 0 && y < w_.axis[1].source;
    }
    // Copies terms [begin, stop) of a run into a row.
    template <class Cell>
    void copy(Cell* row, const Seen& seen, const Run& run, int64_t begin, int64_t stop) const {
        const S* from = seen.base + run.delta - run.at;
        if (seen.inside) return copy_cells(row + begin, from + begin, stop - begin);
        int64_t c = seen.x + run.x, pixels = run.pixels, source = w_.axis[2].source;
        int64_t left = std::clamp(run.at + std::clamp<int64_t>(-c, 0, pixels) * w_.in, begin, stop);
        int64_t right = std::clamp(run.at + std::clamp<int64_t>(source - c, 0, pixels) * w_.in, left, stop);
        if (!has_row(seen, run)) left = right = stop;
        std::fill(row + begin, row + left, Cell(0.0f));
        if (left < right) copy_cells(row + left, from + left, right - left);
        std::fill(row + right, row + stop, Cell(0.0f));
    }

  private:
    const WindowSum& w_;
    const S* x_;
    int64_t pitch_;
    std::vector<Run> runs_;
};

}  // namespace fb::cpu
