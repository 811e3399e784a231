// Gradients of weights as matrix products: sums over positions of the gradient's channels times the windows of the
// image, which are gathered some positions at a time. Long sums are split at places that depend on the shape only, so
// results do not depend on the number of threads.
#include <atomic>

#include "backend/cpu/conv_format.h"
#include "backend/cpu/conv_window.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

template <class S, class F>
struct WeightProduct {
    using Cell = typename F::Cell;
    using Sum = typename F::Sum;
    static constexpr int64_t columns_together = 256;  // terms of windows packed at a time
    static constexpr int64_t rows_together = 512;     // channels of the gradient
    static constexpr int64_t gathered = 8;            // positions whose windows are gathered before packing

    const WindowSum& w;
    const S *x, *gy;
    S* gweight;
    Windows<S> windows{w, x, w.groups* w.in, true};
    int64_t g_pitch = w.groups * w.out;
    bool covers = w.covers();  // else F::per is 1
    int64_t positions = w.positions(), lanes = (positions + F::per - 1) / F::per;
    int64_t terms = w.terms(), across = (terms + columns_together - 1) / columns_together;
    int64_t down = (w.out + rows_together - 1) / rows_together;
    int64_t table_row = (terms + 31) / 32 * 32 + 16, table_size = w.groups * w.out * table_row;

    // Few tasks with long sums: the sums are split.
    int64_t parts() const {
        int64_t tasks = w.groups * across * down, most = std::min((16 + tasks - 1) / tasks, positions / 1024);
        return std::clamp<int64_t>(most, 1, std::max<int64_t>(1, (int64_t(1) << 22) / table_size));
    }

    // Lanes [from, to): sums of channels [top, bottom) with terms [first, last).
    void part(int64_t group, int64_t from, int64_t to, int64_t top, int64_t bottom, int64_t first, int64_t last,
              Sum* table) const {
        thread_local Scratch for_left, for_panels, for_lines;
        int64_t rows = bottom - top, columns = last - first, left_row = (rows + 15) / 16 * 16 + 16;
        int64_t high = F::block(to - from), line = columns_together + 32;
        Cell* left = for_left.get<Cell>(left_row * high * F::per);
        Cell* panels = for_panels.get<Cell>(F::padded(columns) * high * F::per);
        S* lines = for_lines.get<S>(gathered * line);
        Sum* sums = table + (group * w.out + top) * table_row + first;
        for (int64_t p = from; p < to; p += high) {
            int64_t height = std::min(high, to - p);
            const S* slopes = gy + p * F::per * g_pitch + group * w.out + top;
            Position at_slope(w, covers ? 0 : p * F::per);
            for (int64_t q = 0; q < height && !covers; q++, at_slope.next())
                F::lane(left + q * left_row * F::per, gy + at_slope.pixel() * g_pitch + group * w.out + top, 0, true,
                        rows);
            for (int64_t q = 0; q < height && covers; q++)
                F::lane(left + q * left_row * F::per, slopes + q * F::per * g_pitch, g_pitch,
                        (p + q) * F::per + 1 >= positions, rows);
            if (int64_t rest = columns % F::wide; rest != 0 && rest != F::narrow) {
                Cell* panel = panels + (columns - rest) * height * F::per;
                std::fill(panel, panel + F::across(rest) * height * F::per, Cell(0.0f));
            }
            for (int64_t q = 0; q < height; q += gathered / F::per) {
                int64_t some = std::min(gathered / F::per, height - q), at = (p + q) * F::per;
                windows.rows(lines, line, group * w.in, at, std::min(some * F::per, positions - at), first, last);
                for (int64_t j = 0; j < columns; j += F::wide) {
                    Cell* panel = panels + (j * height + q * F::across(columns - j)) * F::per;
                    for (int64_t r = 0; r < some; r++)
                        F::lane(panel + r * F::across(columns - j) * F::per, lines + r * F::per * line + j, line,
                                at + r * F::per + 1 >= positions, std::min(F::wide, columns - j));
                }
            }
            F::multiply_transposed(left, left_row, rows, panels, columns, height, sums, table_row, p > from);
        }
    }

    // Accumulates into `total`, if given. Returns false if windows reach out of the image and a sum is not finite.
    bool run(Sum* total) const {
        if (terms == 0) {
            if (!total) std::fill(gweight, gweight + w.groups * w.weight_group, S(0.0f));
            return true;
        }
        int64_t count = parts(), tasks = count * w.groups * across * down;
        Tensor memory = empty({count * table_size}, dtype_of<Sum>(), cpu_device);
        Sum* table = memory.data<Sum>();
        bool alone = positions * terms * w.out * w.groups < (int64_t(1) << 19);
        parallel_for(tasks, alone ? tasks : 1, [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; t++) {
                int64_t d = t % down, a = t / down % across, g = t / down / across % w.groups;
                int64_t q = t / down / across / w.groups;
                // Blocks are whole numbers of panels wide, except for the last.
                part(g, lanes * q / count, lanes * (q + 1) / count, w.out * d / down, w.out * (d + 1) / down,
                     a * columns_together, std::min(terms, (a + 1) * columns_together), table + q * table_size);
            }
        });
        std::atomic<bool> finite{true};
        int64_t taps = static_cast<int64_t>(w.taps.size()), channels = w.groups * w.out;
        parallel_for(channels, std::max<int64_t>(1, parallel_grain / (terms * count)), [&](int64_t begin, int64_t end) {
            Sum bad = 0;
            std::vector<Sum> row(static_cast<size_t>(w.in * w.kernel), Sum(0));
            for (int64_t o = begin; o < end; o++) {
                Sum* sums = table + o * table_row;
                for (int64_t q = 1; q < count; q++)
                    for (int64_t k = 0; k < terms; k++) sums[k] += sums[q * table_size + k];
                for (int64_t t = 0; t < taps; t++)
                    for (int64_t c = 0; c < w.in; c++)
                        row[static_cast<size_t>(c * w.kernel + w.taps[static_cast<size_t>(t)])] = sums[t * w.in + c];
                if (total) {
                    for (size_t k = 0; k < row.size(); k++) total[static_cast<size_t>(o) * row.size() + k] += row[k];
                    continue;
                }
                for (Sum value : row) bad += 0 * value;
                S* to = gweight + o * w.in * w.kernel;
                if constexpr (std::is_same_v<S, Sum>) std::memcpy(to, row.data(), row.size() * sizeof(S));
                else narrow_to(to, row.data(), w.in * w.kernel);
            }
            if (bad != 0) finite = false;
        });
        return finite || !w.reaches_out();
    }
};

}  // namespace

void implicit_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x) {
    WindowSum w = forward_sum(s);
    with_format(x.dtype(), [&](auto format, auto tag) {
        using S = decltype(tag);
        if (WeightProduct<S, decltype(format)>{w, x.data<S>(), gy.data<S>(), gweight.data<S>()}.run(nullptr)) return;
        using Sum = Computed<S>;
        std::vector<Sum> sums(static_cast<size_t>(gweight.numel()));
        for (const WindowSum& part : split_at_edges(w))
            WeightProduct<S, ConvFormat<S>>{part, x.data<S>(), gy.data<S>(), nullptr}.run(sums.data());
        for (int64_t i = 0; i < gweight.numel(); i++) gweight.data<S>()[i] = S(sums[static_cast<size_t>(i)]);
    });
}

}  // namespace fb::cpu
