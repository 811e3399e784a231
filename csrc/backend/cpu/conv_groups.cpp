// Convolutions with small groups of channels, depthwise ones included. A vector holds adjacent channels of the result;
// the source channels it needs are in one vector too, and are broadcast within their groups one after the other. A band
// of rows is copied to scratch memory with its padding, so that all taps have fixed distances.
#pragma GCC optimize("fp-contract=fast")
#include <utility>

#include "backend/cpu/conv_format.h"
#include "backend/cpu/conv_window.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

#ifdef __AVX512F__
constexpr int vector_bytes = 64;
#else
constexpr int vector_bytes = 32;
#endif
template <class T>
struct Lanes {
    typedef T V __attribute__((vector_size(vector_bytes), may_alias));
    typedef T Loose __attribute__((vector_size(vector_bytes), aligned(sizeof(T)), may_alias));
    using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    typedef Index M __attribute__((vector_size(vector_bytes)));
    static constexpr int64_t count = vector_bytes / sizeof(T);
};

constexpr int64_t together = 8;      // channel blocks per unit of work, which are loaded into the caches together
constexpr int64_t band_lines = 512;  // about what the first-level cache holds
constexpr int64_t widest = 128;      // positions of a row
constexpr int64_t most_scratch = int64_t(1) << 18;
constexpr int64_t most_taps = 64, pixels_at_once = 8, sums_at_once = 8;

template <class S>
struct Grouped {
    using T = Computed<S>;
    using L = Lanes<T>;
    using V = typename L::V;
    using M = typename L::M;
    static constexpr int64_t lanes = L::count;

    const WindowSum& w;
    int64_t in_channels = w.groups * w.in, out_channels = w.groups * w.out;
    int64_t blocks = (out_channels + lanes - 1) / lanes, units = (blocks + together - 1) / together;
    int64_t taps = static_cast<int64_t>(w.taps.size()), terms = w.terms();
    const Axis &y = w.axis[1], &x = w.axis[2];
    bool alike = w.in == 1 && w.out == 1;  // depthwise: channels of result and source are in the same lane
    int64_t pitch = 0, band = 0, bands = 0, strip = 0, strips = 0;  // rows and columns of the current positions
    std::vector<int64_t> offsets;                                   // of taps in a band

    // The last block overlaps the one before.
    int64_t channel(int64_t block) const { return std::min(block * lanes, out_channels - lanes); }
    int64_t source(int64_t block) const { return std::min(channel(block) / w.out * w.in, in_channels - lanes); }
    int64_t lane(int64_t block, int64_t i, int64_t l) const {
        return (channel(block) + l) / w.out * w.in + i - source(block);
    }

    explicit Grouped(const WindowSum& sum) : w(sum) {
        if (taps == 0) return;
        strips = (x.count + widest - 1) / widest, strip = (x.count + strips - 1) / strips;
        pitch = (strip - 1) * x.step + x.offset.back() - x.offset.front() + 1;
        int64_t reach = y.offset.back() - y.offset.front();
        band = std::clamp<int64_t>((band_lines / pitch - reach) / y.step, 1, y.count);
        band = std::max(band, std::min(y.count, reach));
        bands = (y.count + band - 1) / band;
        for (int64_t a : y.offset)
            for (int64_t b : x.offset)
                offsets.push_back(((a - y.offset.front()) * pitch + b - x.offset.front()) * lanes);
    }
    bool fits() const {
        if (w.groups == 1 || taps == 0 || taps > most_taps || w.axis[0].source != 1 || w.axis[0].count != 1 ||
            in_channels < lanes || out_channels < lanes || band_size() > most_scratch)
            return false;
        for (int64_t b = 0; b < blocks; b++)
            for (int64_t l = 0; l < lanes; l++)
                if (lane(b, 0, l) < 0 || lane(b, w.in - 1, l) >= lanes) return false;
        return true;
    }
    int64_t source_rows(int64_t rows) const { return (rows - 1) * y.step + y.offset.back() - y.offset.front() + 1; }
    int64_t band_size() const { return source_rows(band) * pitch * lanes; }

    static void take(T* to, const S* from) {
        if constexpr (std::is_same_v<S, T>)
            *reinterpret_cast<V*>(to) = V(*reinterpret_cast<const typename L::Loose*>(from));
        else widen(to, from, lanes);
    }

    // Loads source rows for `rows` positions from row `top` on, from column `left` on; image: its first pixel, at the
    // first channel of the block.
    void load(T* to, const S* image, int64_t top, int64_t rows, int64_t left) const {
        int64_t low = left * x.step + x.offset.front(), begin = std::clamp<int64_t>(-low, 0, pitch);
        int64_t end = std::clamp<int64_t>(x.source - low, begin, pitch);
        for (int64_t r = 0; r < source_rows(rows); r++, to += pitch * lanes) {
            int64_t row = top * y.step + y.offset.front() + r;
            if (row < 0 || row >= y.source) {
                std::fill(to, to + pitch * lanes, T(0));
                continue;
            }
            std::fill(to, to + begin * lanes, T(0));
            const S* from = image + (row * x.source + low + begin) * in_channels;
            for (int64_t i = begin; i < end; i++, from += in_channels) take(to + i * lanes, from);
            std::fill(to + end * lanes, to + pitch * lanes, T(0));
        }
    }
    // A piece of work: some blocks of channels of some rows and columns of an image.
    struct Piece {
        int64_t block, end, top, rows, left, columns, image, part;
    };
    int64_t parts() const { return w.batch * bands * strips; }
    Piece piece(int64_t task) const {
        Piece p{};
        p.block = task % units * together, p.end = std::min(blocks, p.block + together);
        p.part = task / units;
        p.left = p.part % strips * strip, p.columns = std::min(strip, x.count - p.left);
        p.top = p.part / strips % bands * band, p.rows = std::min(band, y.count - p.top);
        p.image = p.part / strips / bands;
        return p;
    }
    int64_t grain() const { return std::max<int64_t>(1, parallel_grain / (band * strip * terms * 2)); }
    void indices(M* to, int64_t block) const {
        for (int64_t i = 0; i < w.in; i++)
            for (int64_t l = 0; l < lanes; l++) to[i][l] = static_cast<typename L::Index>(lane(block, i, l));
    }

    // ---- forward ----------------------------------------------------------------------------------------------------

    static V read(const S* from) {
        if constexpr (std::is_same_v<S, T>) return V(*reinterpret_cast<const typename L::Loose*>(from));
#ifdef __AVX512F__
        else if constexpr (std::is_same_v<S, Half>)
            return (V)_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
        else
            return (V)_mm512_maskz_slli_epi32(
                0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))),
                16);
#elif defined(__AVX2__)
        else if constexpr (std::is_same_v<S, Half>)
            return (V)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
        else
            return (V)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))),
                                        16);
#else
        V value = {};
        for (int64_t l = 0; l < lanes; l++) value[l] = T(from[l]);
        return value;
#endif
    }

    // One term of the current sums: a tap's vectors of weights, and its pixel's offset from that of the position.
    struct Tap {
        const V* weights;
        int64_t delta;
    };
    // Computes `count` adjacent positions of a row, all channels.
    struct Constants {
        const V* starts;
        const M* index;
    };
    template <int count, bool Alike>
    static void sum_pixels(const Grouped& g, const S* from, const Tap* taps, size_t tap_count, Constants of, S* to,
                           int64_t to_step) {
        const int64_t distance = g.x.step * g.in_channels, in = g.w.in;
        for (int64_t b = 0; b < g.blocks; b++) {
            V sum[count];
#pragma GCC unroll 8
            for (V& s : sum) s = of.starts[b];
            const S* source = from + (Alike ? g.channel(b) : g.source(b));
            for (size_t t = 0; t < tap_count; t++) {
                // Four positions share an address, as in gemm_packed.cpp.
                const S* at[(count + 3) / 4];
#pragma GCC unroll 2
                for (int q = 0; q < (count + 3) / 4; q++) at[q] = source + taps[t].delta + 4 * q * distance;
                const V* weights = taps[t].weights + b * g.terms;
                if constexpr (Alike) {
                    V weight = *weights;
#pragma GCC unroll 8
                    for (int p = 0; p < count; p++) sum[p] += read(at[p / 4] + p % 4 * distance) * weight;
                } else {
                    const M* index = of.index + b * in;
                    for (int64_t i = 0; i < in; i++) {
                        V weight = weights[i];
                        M lanes_of = index[i];
#pragma GCC unroll 8
                        for (int p = 0; p < count; p++)
                            sum[p] += __builtin_shuffle(read(at[p / 4] + p % 4 * distance), lanes_of) * weight;
                    }
                }
            }
            int64_t first = g.channel(b), skip = b * lanes - first;
#pragma GCC unroll 8
            for (int p = 0; p < count; p++) g.store(to + first + p * to_step, sum[p], skip);
        }
    }
    using SumPixels = void (*)(const Grouped&, const S*, const Tap*, size_t, Constants, S*, int64_t);
    template <size_t... i>
    static SumPixels pick(int64_t count, bool alike, std::index_sequence<i...>) {
        static constexpr SumPixels table[2][pixels_at_once] = {{sum_pixels<i + 1, false>...},
                                                               {sum_pixels<i + 1, true>...}};
        return table[alike][count - 1];
    }

    void store(S* to, V sum, int64_t skip) const {
        if (skip == 0) {
            if constexpr (std::is_same_v<S, T>) *reinterpret_cast<typename L::Loose*>(to) = sum;
            else narrow_to(to, reinterpret_cast<const T*>(&sum), lanes);
        } else {
            if constexpr (std::is_same_v<S, T>)
                std::memcpy(to + skip, reinterpret_cast<const T*>(&sum) + skip, size_t(lanes - skip) * sizeof(T));
            else narrow_to(to + skip, reinterpret_cast<const T*>(&sum) + skip, lanes - skip);
        }
    }

    // Computes one row of positions for all channels in turn, so that the source is read sequentially. Windows that
    // cross the ends of the row have fewer taps.
    void forward(S* result, const S* from, const S* weight, const S* bias) const {
        constexpr auto counts = std::make_index_sequence<pixels_at_once>();
        // (block, tap, channel of the group, lane), then the biases.
        Tensor memory = empty({blocks * (terms + 1 + w.in) + 1, lanes}, dtype_of<T>(), cpu_device);
        V* weights = reinterpret_cast<V*>((reinterpret_cast<uintptr_t>(memory.raw()) + 63) / 64 * 64);
        V* starts = weights + blocks * terms;
        M* index = reinterpret_cast<M*>(starts + blocks);
        for (int64_t b = 0; b < blocks; b++) {
            for (int64_t t = 0; t < taps; t++)
                for (int64_t i = 0; i < w.in; i++)
                    for (int64_t l = 0; l < lanes; l++) {
                        int64_t o = channel(b) + l;
                        weights[(b * taps + t) * w.in + i][l] =
                            T(weight[o / w.out * w.weight_group + o % w.out * w.weight_out + i * w.weight_in +
                                     w.taps[static_cast<size_t>(t)]]);
                    }
            starts[b] = V{};
            for (int64_t l = 0; bias && l < lanes; l++) starts[b][l] = T(bias[channel(b) + l]);
            indices(index + b * w.in, b);
        }
        const Axis& z = w.axis[0];
        int64_t rows = w.batch * z.count * y.count, to_step = x.spread * out_channels;
        int64_t work = x.count * terms * out_channels;
        // Positions whose windows are inside the row.
        int64_t low = std::min(x.count, x.offset.front() < 0 ? (-x.offset.front() + x.step - 1) / x.step : 0);
        int64_t high = x.source - x.offset.back() > 0 ? (x.source - x.offset.back() - 1) / x.step + 1 : 0;
        high = std::clamp(high, low, x.count);
        parallel_for(rows, std::max<int64_t>(1, 4 * parallel_grain / work), [&](int64_t begin, int64_t end) {
            std::vector<Tap> all, some;
            for (int64_t row = begin; row < end; row++) {
                int64_t k = row % y.count, j = row / y.count % z.count, image = row / y.count / z.count;
                // The taps of this row, with their offsets along it.
                all.clear();
                size_t tap = 0;
                for (int64_t a : z.offset)
                    for (int64_t b : y.offset) {
                        int64_t at_z = j * z.step + a, at_y = k * y.step + b;
                        bool there = at_z >= 0 && at_z < z.source && at_y >= 0 && at_y < y.source;
                        for (int64_t c : x.offset) {
                            int64_t pixel = ((image * z.source + at_z) * y.source + at_y) * x.source + c;
                            if (there) all.push_back({weights + int64_t(tap) * w.in, pixel * in_channels});
                            tap++;
                        }
                    }
                int64_t pixel = (image * z.result + z.first + j * z.spread) * y.result + y.first + k * y.spread;
                S* to = result + (pixel * x.result + x.first) * out_channels;
                for (int64_t l = 0; l < x.count;) {
                    const std::vector<Tap>* taps_here = &all;
                    int64_t count = 1;
                    if (l >= low && l < high) {
                        int64_t left = high - l, rounds = (left + pixels_at_once - 1) / pixels_at_once;
                        count = (left + rounds - 1) / rounds;
                    } else {
                        some.clear();
                        size_t across = x.offset.size();
                        for (size_t i = 0; i < all.size(); i++) {
                            int64_t c = l * x.step + x.offset[i % across];
                            if (c >= 0 && c < x.source) some.push_back(all[i]);
                        }
                        taps_here = &some;
                    }
                    pick(count, alike, counts)(*this, from + l * x.step * in_channels, taps_here->data(),
                                               taps_here->size(), {starts, index}, to + l * to_step, to_step);
                    l += count;
                }
            }
        });
    }

    // ---- the gradient of the weight ---------------------------------------------------------------------------------

    // sums[n] += gradient * source, over positions of a band, for some pairs of taps and channels of the group.
    template <int count, bool Alike>
    static void add_products(const Grouped& g, const T* slopes, const T* from, const int64_t* offset, const M* index,
                             int64_t rows, int64_t columns, V* sums) {
        V sum[count] = {};
        const int64_t step = g.x.step * lanes;
        for (int64_t r = 0; r < rows; r++) {
            const T* at = from + r * g.y.step * g.pitch * lanes;
            for (int64_t k = 0; k < columns; k++, at += step, slopes += lanes) {
                V slope = *reinterpret_cast<const V*>(slopes);
#pragma GCC unroll 8
                for (int n = 0; n < count; n++) {
                    V value = *reinterpret_cast<const V*>(at + offset[n]);
                    if constexpr (!Alike) value = __builtin_shuffle(value, index[n]);
                    sum[n] += slope * value;
                }
            }
        }
#pragma GCC unroll 8
        for (int n = 0; n < count; n++) sums[n] += sum[n];
    }
    using AddProducts = void (*)(const Grouped&, const T*, const T*, const int64_t*, const M*, int64_t, int64_t, V*);
    template <size_t... i>
    static AddProducts pick_sums(int64_t count, bool alike, std::index_sequence<i...>) {
        static constexpr AddProducts table[2][sums_at_once] = {{add_products<i + 1, false>...},
                                                               {add_products<i + 1, true>...}};
        return table[alike][count - 1];
    }

    // Returns false if a sum is not finite: padding was multiplied as zeros.
    bool backward_weight(S* gweight, const S* gy, const S* from) const {
        bool finite = true;
        constexpr auto counts = std::make_index_sequence<sums_at_once>();
        // (part, block, term, lane): summed in this order.
        Tensor memory = empty({parts() * blocks * terms + 1, lanes}, dtype_of<T>(), cpu_device);
        V* table = reinterpret_cast<V*>((reinterpret_cast<uintptr_t>(memory.raw()) + 63) / 64 * 64);
        parallel_for(parts() * units, grain(), [&](int64_t begin, int64_t end) {
            thread_local Scratch scratch;
            T* lines = scratch.get<T>(band_size() + band * strip * lanes);
            T* slopes = lines + band_size();
            M index[lanes], some_index[sums_at_once];
            int64_t some_offset[sums_at_once];
            for (int64_t task = begin; task < end; task++) {
                Piece at = piece(task);
                for (int64_t b = at.block; b < at.end; b++) {
                    load(lines, from + at.image * y.source * x.source * in_channels + source(b), at.top, at.rows,
                         at.left);
                    T* to = slopes;
                    for (int64_t r = 0; r < at.rows; r++) {
                        const S* slope =
                            gy + ((at.image * y.count + at.top + r) * x.count + at.left) * out_channels + channel(b);
                        for (int64_t k = 0; k < at.columns; k++, to += lanes) take(to, slope + k * out_channels);
                    }
                    indices(index, b);
                    V* sums = table + (at.part * blocks + b) * terms;
                    std::fill(sums, sums + terms, V{});
                    for (int64_t n = 0; n < terms; n += sums_at_once) {
                        int64_t count = std::min(sums_at_once, terms - n);
                        for (int64_t i = 0; i < count; i++) {
                            some_offset[i] = offsets[static_cast<size_t>((n + i) / w.in)];
                            some_index[i] = index[(n + i) % w.in];
                        }
                        pick_sums(count, alike, counts)(*this, slopes, lines, some_offset, some_index, at.rows,
                                                        at.columns, sums + n);
                    }
                }
            }
        });
        std::fill(gweight, gweight + w.groups * w.weight_group, S(0.0f));
        for (int64_t b = 0; b < blocks; b++)
            for (int64_t n = 0; n < terms; n++)
                for (int64_t l = b * lanes - channel(b); l < lanes; l++) {
                    double sum = 0;
                    for (int64_t part = 0; part < parts(); part++)
                        sum += double(table[(part * blocks + b) * terms + n][l]);
                    int64_t o = channel(b) + l;
                    finite = finite && sum - sum == 0;
                    gweight[o * w.weight_out + n % w.in * w.kernel + w.taps[static_cast<size_t>(n / w.in)]] = S(T(sum));
                }
        return finite;
    }
};

}  // namespace

bool grouped_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
    if (s.groups == 1) return false;
    WindowSum w = forward_sum(s);
    return dispatch_floating(x.dtype(), [&](auto tag) {
        using S = typename decltype(tag)::type;
        Grouped<S> g(w);
        if (!g.fits()) return false;
        g.forward(y.data<S>(), x.data<S>(), weight.data<S>(), bias ? bias.data<S>() : nullptr);
        return true;
    });
}

bool grouped_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight) {
    if (s.groups == 1) return false;
    std::vector<WindowSum> sums = backward_sums(s);
    return dispatch_floating(gx.dtype(), [&](auto tag) {
        using S = typename decltype(tag)::type;
        int64_t covered = 0;
        for (const WindowSum& w : sums) {
            if (!Grouped<S>(w).fits()) return false;
            covered += w.positions();
        }
        if (covered < s.batch * s.pixels())
            std::memset(gx.raw(), 0, static_cast<size_t>(gx.numel() * itemsize(gx.dtype())));
        for (const WindowSum& w : sums) Grouped<S>(w).forward(gx.data<S>(), gy.data<S>(), weight.data<S>(), nullptr);
        return true;
    });
}

bool grouped_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x) {
    if (s.groups == 1) return false;
    WindowSum w = forward_sum(s);
    return dispatch_floating(x.dtype(), [&](auto tag) {
        using S = typename decltype(tag)::type;
        Grouped<S> g(w);
        if (!g.fits()) return false;
        return g.backward_weight(gweight.data<S>(), gy.data<S>(), x.data<S>());
    });
}

}  // namespace fb::cpu
