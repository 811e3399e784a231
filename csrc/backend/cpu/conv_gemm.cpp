// Convolutions as matrix products (implicit GEMM): the left factor is gathered from the image some rows at a time, one
// row per position with the contiguous pixels of its window. The right factor is the weight, packed once. Used for the
// forward pass and for the gradient of the input, which is a convolution with the flipped weight for each remainder of
// the strides.
#include <atomic>

#include "backend/cpu/conv_format.h"
#include "backend/cpu/conv_window.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

// The weight of a group as panels: all columns of a block of the sum, one block after the other.
template <class S, class F>
class WeightPacker {
    using Cell = typename F::Cell;
    using Sum = typename F::Sum;

  public:
    // `columns` is the total number of packed columns.
    WeightPacker(const WindowSum& w, const S* weight, int64_t columns)
        : w_(w),
          weight_(weight),
          columns_(columns),
          lanes_((w.terms() + F::per - 1) / F::per),
          high_(F::block(lanes_)) {}

    bool finite() const { return bad_ == 0; }

    // Packs one panel: columns from `first` on, stored from `place` on.
    void pack(Cell* to, int64_t group, int64_t first, int64_t place) {
        from_ = weight_ + group * w_.weight_group + first * w_.weight_out;
        cols_ = std::min(F::wide, w_.out - first);
        across_ = F::across(w_.out - first);
        to_ = to, place_ = place;
        bool few = 2 * static_cast<int64_t>(w_.taps.size()) < w_.kernel;
        if (few || w_.in % F::per) one_by_one();
        else pack_transposed();
    }

  private:
    // The position of lane p in the panel.
    Cell* at(int64_t p) const {
        int64_t start = p / high_ * high_, height = std::min(high_, lanes_ - start);
        return to_ + (start * columns_ + place_ * height + (p - start) * across_) * F::per;
    }
    void one_by_one() {
        for (int64_t p = 0; p < lanes_; p++) {
            Cell* lane = at(p);
            std::fill(lane, lane + across_ * F::per, Cell(0.0f));
            for (int64_t i = 0; i < F::per; i++) {
                int64_t k = p * F::per + i;
                if (k >= w_.terms()) break;
                const S* from = from_ + w_.taps[static_cast<size_t>(k / w_.in)] + k % w_.in * w_.weight_in;
                for (int64_t o = 0; o < cols_; o++) {
                    bad_ += 0 * Sum(from[o * w_.weight_out]);
                    if constexpr (std::is_same_v<S, Cell>) lane[o * F::per + i] = from[o * w_.weight_out];
                    else lane[o * F::per + i] = Cell(from[o * w_.weight_out]);
                }
            }
        }
    }
    // Transposes some channels with all their taps at a time: rows of (channel, tap), columns of the panel.
    void pack_transposed() {
        const int64_t kernel = w_.kernel, taps = static_cast<int64_t>(w_.taps.size());
        const int64_t some = std::max<int64_t>(288 / kernel, 1) * F::per;
        rows_.resize(static_cast<size_t>(some * kernel * F::wide));
        if (cols_ < F::wide) std::fill(rows_.begin(), rows_.end(), Sum(0));
        for (int64_t i = 0; i < w_.in; i += some) {
            int64_t count = std::min(some, w_.in - i);
            const S* from = from_ + i * w_.weight_in;
            if (w_.weight_in == kernel) {
                transpose_lines(rows_.data(), from, w_.weight_out, count * kernel);
            } else {
                for (int64_t c = 0; c < count; c++)
                    transpose_lines(rows_.data() + c * kernel * F::wide, from + c * w_.weight_in, w_.weight_out,
                                    kernel);
            }
            Sum bad = 0;
#pragma omp simd reduction(+ : bad)
            for (int64_t k = 0; k < count * kernel * F::wide; k++) bad += 0 * rows_[static_cast<size_t>(k)];
            bad_ += bad;
            for (int64_t t = 0; t < taps; t++) {
                const Sum* row = rows_.data() + w_.taps[static_cast<size_t>(t)] * F::wide;
                int64_t p = (t * w_.in + i) / F::per, end = p + count / F::per;
                for (; p < end;) {  // within a block
                    int64_t stop = std::min(end, (p / high_ + 1) * high_);
                    for (Cell* lane = at(p); p < stop; p++, lane += across_ * F::per, row += kernel * F::wide * F::per)
                        put(lane, row, row + kernel * F::wide);
                }
            }
        }
    }
    void transpose_lines(Sum* to, const S* from, int64_t row, int64_t length) {
        if constexpr (std::is_same_v<S, Sum>) {
            transpose_copy(to, F::wide, from, row, cols_, length);
        } else {
            lines_.resize(static_cast<size_t>(F::wide * length));
            for (int64_t o = 0; o < cols_; o++) widen(lines_.data() + o * length, from + o * row, length);
            transpose_copy(to, F::wide, lines_.data(), length, cols_, length);
        }
    }
    void put(Cell* lane, const Sum* first, [[maybe_unused]] const Sum* second) const {
        if constexpr (F::per == 1) {
            std::memcpy(lane, first, static_cast<size_t>(across_) * sizeof(Cell));
        } else {  // half types, widened to floats
            auto* out = reinterpret_cast<uint32_t*>(lane);
            auto *low = reinterpret_cast<const uint32_t*>(first), *high = reinterpret_cast<const uint32_t*>(second);
            for (int64_t o = 0; o < across_; o++) out[o] = low[o] >> 16 | (high[o] & 0xffff0000u);
        }
    }

    const WindowSum& w_;
    const S* weight_;
    int64_t columns_, lanes_, high_;
    const S* from_ = nullptr;
    Cell* to_ = nullptr;
    int64_t cols_ = 0, across_ = 0, place_ = 0;
    std::vector<Sum> rows_, lines_;
    Sum bad_ = 0;  // NaN where a weight is not finite
};

template <class S, class F>
struct ImplicitProduct {
    using Cell = typename F::Cell;
    using Sum = typename F::Sum;
    static constexpr bool plain = std::is_same_v<S, Sum>;  // tensors store the type that is multiplied
    static constexpr int64_t rows_together = 84;           // positions of a task
    static constexpr int64_t columns_together = 512;       // channels of the result per task
    static constexpr int64_t few_rows = 384;               // for which a shared packed weight does not pay

    const WindowSum& w;
    const S *x, *weight, *bias;
    S* y;
    int64_t lanes = (w.terms() + F::per - 1) / F::per, high = F::block(std::max<int64_t>(lanes, 1));
    int64_t x_pitch = w.groups * w.in, y_pitch = w.groups * w.out;
    // Sums are written directly to the result.
    bool straight = plain && w.covers() && w.out % F::narrow == 0;

    // Tiles of positions, as many as a register block has rows. If the rows of the image are long, tiles do not cross
    // their ends, and windows are multiplied in place.
    static constexpr int64_t tall = panel_tall;
    bool in_place = plain && w.axis[2].count >= 8 * ((w.axis[2].count + tall - 1) / tall) * tall / 14;
    int64_t line = in_place ? w.axis[2].count : w.positions(), line_tiles = (line + tall - 1) / tall;
    int64_t tiles = w.positions() / line * line_tiles;
    Windows<S> windows{w, x, x_pitch, !in_place || w.in < 16};
    int64_t start(int64_t tile) const { return tile / line_tiles * line + line * (tile % line_tiles) / line_tiles; }

    int64_t packed_columns() const { return F::padded(w.out); }
    int64_t packed_group() const { return packed_columns() * lanes * F::per; }

    // The current tiles, and their windows for some lanes, in pieces that are either in place or gathered.
    struct Tiles {
        std::vector<int64_t> starts;  // one more than there are tiles
        std::vector<LeftPiece<Sum>> pieces;
        std::vector<size_t> ends;  // of the pieces of each tile
    };
    void find_pieces(Tiles& all, Sum* left, int64_t channel, int64_t from, int64_t p, int64_t height) const
        requires plain
    {
        all.pieces.clear(), all.ends.clear();
        const int64_t step = w.axis[2].step, source = w.axis[2].source;
        const int64_t distance = step * x_pitch * int64_t(sizeof(Sum));
        // other distances would make rows evict each other from the cache
        const bool near = distance < 4096 || distance % 2048 != 0;
        Position at(w, all.starts[0]);
        int64_t of_row = from % line_tiles;
        for (size_t t = 0; t + 1 < all.starts.size(); t++) {
            int64_t rows = all.starts[t + 1] - all.starts[t];
            Sum* gathered = left + (all.starts[t] - all.starts[0]) * F::row;
            typename Windows<S>::Seen seen(windows, at, channel);
            size_t begin = all.pieces.size();
            windows.each_run(p, p + height, [&](const auto& run, int64_t low, int64_t stop) {
                if (!windows.has_row(seen, run)) return;
                int64_t left_most = seen.x + run.x, pixels = run.pixels;
                int64_t right_most = left_most + (rows - 1) * step + pixels - 1;
                if (right_most < 0 || left_most >= source) return;
                LeftPiece<Sum> piece{seen.base + run.delta + low - run.at, step * x_pitch, low - p, stop - low};
                if (!near || left_most < 0 || right_most >= source) {
                    piece.a = gathered + piece.at, piece.a_step = F::row;
                    typename Windows<S>::Seen each = seen;
                    each.inside = false;
                    for (int64_t r = 0; r < rows; r++) {
                        Sum* row = gathered + r * F::row - p;
                        int64_t c = each.x + run.x;
                        if (c >= 0 && c + pixels <= source)
                            copy_cells(row + low, each.base + run.delta + low - run.at, stop - low);
                        else windows.copy(row, each, run, low, stop);
                        each.x += step, each.base += step * x_pitch;
                    }
                }
                if (all.pieces.size() > begin) {
                    LeftPiece<Sum>& last = all.pieces.back();
                    if (last.a + last.k == piece.a && last.a_step == piece.a_step && last.at + last.k == piece.at) {
                        last.k += piece.k;
                        return;
                    }
                }
                all.pieces.push_back(piece);
            });
            all.ends.push_back(all.pieces.size());
            if (++of_row == line_tiles) of_row = 0, at.next_row();
            else at.at[2] += rows;
        }
    }

    // Tiles [from, to) of channels [first, last), on the calling thread. `packed` has `columns` columns, which begin at
    // `place`.
    void part(int64_t group, int64_t from, int64_t to, int64_t first, int64_t last, const Cell* packed, int64_t columns,
              int64_t place) const {
        thread_local Scratch for_left, for_sums;
        thread_local Tiles all;
        int64_t top = start(from), bottom = start(to), width = last - first;
        int64_t sums_row = straight ? y_pitch : F::padded(width) + 16;
        Sum* sums = straight ? reinterpret_cast<Sum*>(y) + top * y_pitch + group * w.out + first
                             : for_sums.get<Sum>((bottom - top) * sums_row);
        const S* plus = bias ? bias + group * w.out + first : nullptr;
        if (in_place) {
            all.starts.clear();
            for (int64_t t = from; t <= to; t++) all.starts.push_back(start(t));
        }
        Cell* left = for_left.get<Cell>((in_place ? bottom - top : rows_together + tall) * F::row * F::per);
        for (int64_t p = 0; p < lanes; p += high) {
            int64_t height = std::min(high, lanes - p);
            const Cell* panels = packed + (p * columns + place * height) * F::per;
            const Sum* added = straight && p == 0 ? reinterpret_cast<const Sum*>(plus) : nullptr;
            if constexpr (plain) {
                if (in_place) {
                    find_pieces(all, left, group * w.in, from, p, height);
                    const size_t count = all.ends.size();
                    auto tile = [&](size_t t, int64_t j) {
                        int64_t i = all.starts[t] - top, rows = all.starts[t + 1] - all.starts[t];
                        pieced_tile<Sum>({rows, width - j <= F::narrow, all.pieces.data() + (t ? all.ends[t - 1] : 0),
                                          all.pieces.data() + all.ends[t], panels + j * height, sums + i * sums_row + j,
                                          sums_row, p > 0, added ? added + j : nullptr});
                    };
                    // A panel stays in the cache for all tiles, unless all panels fit: then results are written in
                    // order.
                    if (F::padded(width) * height * int64_t(sizeof(Cell)) <= 40960) {
                        for (size_t t = 0; t < count; t++)
                            for (int64_t j = 0; j < width; j += F::wide) tile(t, j);
                    } else {
                        for (int64_t j = 0; j < width; j += F::wide)
                            for (size_t t = 0; t < count; t++) tile(t, j);
                    }
                    continue;
                }
            }
            int64_t rounds = (bottom - top + rows_together - 1) / rows_together;
            for (int64_t q = 0; q < rounds; q++) {
                int64_t i = (bottom - top) * q / rounds, rows = (bottom - top) * (q + 1) / rounds - i;
                windows.rows(left, F::row * F::per, group * w.in, top + i, rows, p * F::per, (p + height) * F::per);
                F::multiply(left, rows, panels, width, height, sums + i * sums_row, sums_row, p > 0, added);
            }
        }
        if (straight) return;
        Position at(w, top);
        for (int64_t i = top; i < bottom; i++, at.next())
            finish(y + at.pixel() * y_pitch + group * w.out + first, sums + (i - top) * sums_row, plus, width);
    }

    static void finish(S* to, Sum* sums, const S* plus, int64_t n) {
        if constexpr (plain) {
            if (plus)
                for (int64_t c = 0; c < n; c++) to[c] = sums[c] + plus[c];
            else copy_exactly(to, sums, n);
        } else {
            if (plus) {
                constexpr int64_t some = 64;
                alignas(64) Sum more[some];
                for (int64_t first = 0; first < n; first += some) {
                    int64_t m = std::min(some, n - first);
                    widen(more, plus + first, m);
                    for (int64_t c = 0; c < m; c++) sums[first + c] += more[c];
                }
            }
            narrow_to(to, sums, n);
        }
    }

    // No window overlaps the image.
    void run_empty() const {
        std::vector<Sum> none(static_cast<size_t>(y_pitch));
        Position at(w, 0);
        for (int64_t i = 0; i < w.positions(); i++, at.next()) {
            std::fill(none.begin(), none.end(), Sum(0));
            finish(y + at.pixel() * y_pitch, none.data(), bias, y_pitch);
        }
    }

    static Cell* aligned(Tensor& memory, int64_t cells) {
        memory = empty({cells + int64_t(64 / sizeof(Cell))}, dtype_of<Cell>(), cpu_device);
        return reinterpret_cast<Cell*>((reinterpret_cast<uintptr_t>(memory.raw()) + 63) / 64 * 64);
    }

    // Returns false if windows reach out of the image and a weight is not finite.
    bool run() const {
        int64_t positions = w.positions(), threads = in_parallel_region() ? 1 : num_threads();
        if (positions == 0) return true;
        if (lanes == 0) return run_empty(), true;
        std::atomic<bool> finite{true};
        const bool reaches_out = w.reaches_out();
        bool alone = threads == 1 || positions * w.terms() * y_pitch < (int64_t(1) << 19);
        int64_t panels = (w.out + F::wide - 1) / F::wide;
        if (positions < few_rows) {
            // Each thread packs what it needs, limited by the size of its cache.
            int64_t most = std::clamp<int64_t>((int64_t(640) << 10) / (lanes * F::wide * 4), 1, 8);
            int64_t blocks =
                std::max((panels + most - 1) / most, alone || w.groups >= threads ? 1 : std::min(threads, panels));
            int64_t tasks = w.groups * blocks;
            parallel_for(tasks, alone ? tasks : 1, [&](int64_t begin, int64_t end) {
                for (int64_t task = begin; task < end; task++) {
                    int64_t group = task / blocks, b = task % blocks;
                    int64_t first = panels * b / blocks * F::wide;
                    int64_t last = std::min(w.out, panels * (b + 1) / blocks * F::wide);
                    int64_t columns = F::padded(last - first);
                    Tensor memory;
                    Cell* own = aligned(memory, columns * lanes * F::per);
                    WeightPacker<S, F> packer(w, weight, columns);
                    for (int64_t j = first; j < last; j += F::wide) packer.pack(own, group, j, j - first);
                    if (reaches_out && !packer.finite()) finite = false;
                    part(group, 0, tiles, first, last, own, columns, 0);
                }
            });
            return finite;
        }
        Tensor memory;
        Cell* packed = aligned(memory, w.groups * packed_group());
        int64_t pieces = w.groups * panels;
        parallel_for(pieces, alone ? pieces : 1, [&](int64_t begin, int64_t end) {
            WeightPacker<S, F> packer(w, weight, packed_columns());
            for (int64_t t = begin; t < end; t++)
                packer.pack(packed + t / panels * packed_group(), t / panels, t % panels * F::wide,
                            t % panels * F::wide);
            if (reaches_out && !packer.finite()) finite = false;
        });
        // Small products process more positions at a time.
        int64_t together = std::clamp<int64_t>((int64_t(1) << 21) / (lanes * F::per * w.out), rows_together,
                                               in_place ? 4 * rows_together : rows_together);
        if (!finite) return false;
        int64_t rounds = (tiles * tall + together - 1) / together;
        if (rounds < 8 * threads) rounds = std::min(tiles, (rounds + threads - 1) / threads * threads);
        int64_t wholes = (panels * F::wide + columns_together - 1) / columns_together;
        int64_t tasks = rounds * w.groups * wholes;
        parallel_for(tasks, alone ? tasks : 1, [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; t++) {
                int64_t b = t % wholes, g = t / wholes % w.groups, q = t / wholes / w.groups;
                int64_t first = panels * b / wholes * F::wide,
                        last = std::min(w.out, panels * (b + 1) / wholes * F::wide);
                part(g, tiles * q / rounds, tiles * (q + 1) / rounds, first, last, packed + g * packed_group(),
                     packed_columns(), first);
            }
        });
        return true;
    }
};

template <class S, class F>
void run(const WindowSum& w, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias, F) {
    auto once = [&](const WindowSum& sum) {
        return ImplicitProduct<S, F>{sum, x.data<S>(), weight.data<S>(), bias ? bias.data<S>() : nullptr, y.data<S>()}
            .run();
    };
    if (once(w)) return;
    for (const WindowSum& part : split_at_edges(w)) once(part);
}

}  // namespace

void implicit_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
    WindowSum w = forward_sum(s);
    with_format(x.dtype(), [&](auto format, auto tag) { run<decltype(tag)>(w, y, x, weight, bias, format); });
}

void implicit_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight) {
    std::vector<WindowSum> sums = backward_sums(s);
    int64_t covered = 0;
    for (const WindowSum& w : sums) covered += w.positions();
    if (covered < s.batch * s.pixels())
        std::memset(gx.raw(), 0, static_cast<size_t>(gx.numel() * itemsize(gx.dtype())));
    for (const WindowSum& w : sums)
        with_format(gx.dtype(),
                    [&](auto format, auto tag) { run<decltype(tag)>(w, gx, gy, weight, Tensor(), format); });
}

}  // namespace fb::cpu
