// Products with quantized weights. For a few rows of x the stored integers are used directly, which costs little more
// than reading them; for many rows, panels of the weight are converted to floats that serve all rows.
#include "backend/cpu/quantized.h"

#include <atomic>
#include <bit>
#include <cstring>
#include <type_traits>
#include <vector>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "backend/cpu/gemm.h"
#include "base/cpu_level.h"
#include "base/parallel.h"
#include "device/quantized.h"

namespace fb::cpu {
namespace {
#include "backend/cpu/quantized_formats.h"

using device::QuantFormat;
using device::QuantWeight;

const QuantKernels& kernels() {
#if defined(__x86_64__)
    if (cpu_has(CpuLevel::AVX512_VNNI)) return quant_kernels_wide();
#endif
    static constexpr QuantKernels base = kernels_of_level;
    return base;
}

// From this number of rows on, panels of floats are faster.
constexpr int64_t few_rows = 16;
constexpr int64_t panel_bytes = 1 << 19;
constexpr int64_t bytes_per_chunk = 1 << 16;  // bytes of the weight that a thread processes at once

struct Weight {
    explicit Weight(const QuantWeight& w)
        : by_rows(w.format == QuantFormat::Int8 && w.group == 0),
          kernel(kernel_of(w)),
          rows(w.data.size(0)),
          columns(w.columns),
          row_bytes(w.data.size(1)),
          data(reinterpret_cast<const uint8_t*>(w.data.raw())) {
        if (by_rows) row_scale = w.scale.data<float>();
        else if (w.group) {
            scale = reinterpret_cast<const uint16_t*>(w.scale.raw());
            if (w.zero) zero = reinterpret_cast<const uint16_t*>(w.zero.raw());
            shift = std::countr_zero(static_cast<uint64_t>(w.group / 32));
            groups = columns / w.group;
        }
    }
    int64_t int4_group() const { return kernel >= 2 && kernel <= 4 ? int64_t(8) << kernel : 0; }
    static size_t kernel_of(const QuantWeight& w) {
        if (w.format == QuantFormat::Int8) return w.group ? 1 : 0;
        if (w.format == QuantFormat::Int4) return w.group == 32 ? 2 : w.group == 64 ? 3 : 4;
        return static_cast<size_t>(w.format) + 3;
    }
    QuantRow row(int64_t j) const {
        return {data + j * row_bytes, scale ? scale + j * groups : nullptr, zero ? zero + j * groups : nullptr, shift};
    }
    void expand(int64_t j, float* to) const {
        kernels().expand[kernel](row(j), columns, to);
        if (by_rows) {
            for (int64_t i = 0; i < columns; i++) to[i] *= row_scale[j];
        }
    }
    bool by_rows;
    size_t kernel;
    int64_t rows, columns, row_bytes, groups = 0;
    const uint8_t* data;
    const float* row_scale = nullptr;
    const uint16_t *scale = nullptr, *zero = nullptr;
    int shift = 0;
};

// The largest absolute value, or NaN: compared as integers, which have the same order and vectorise.
template <class T>
float largest(const T* x, int64_t n) {
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++)
        most = std::max(most, std::bit_cast<uint32_t>(static_cast<float>(x[i])) & 0x7fffffffu);
    return std::bit_cast<float>(most);
}

// The left operand in int16; `finite` is false if x has values that are not finite.
class LeftRows {
  public:
    template <class T>
    LeftRows(const T* x, int64_t rows, int64_t k, int64_t int4_group)
        : parts_((k + 127) / 128 * 4),
          rows_(rows),
          group_(int4_group),
          values_(static_cast<size_t>(rows * parts_ * 32)),
          bytes_(group_ ? values_.size() * 2 : 0),
          sums_(static_cast<size_t>(rows * parts_ * 4)),
          group_scales_(group_ ? values_.size() / static_cast<size_t>(group_) + 4 : 0),
          group_sums_(group_scales_.size()) {
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t i = 0; i < k && finite; i += 128)
                four(x + r * k + i, std::min<int64_t>(128, k - i), r * parts_ + i / 32);
        }
    }
    QuantLeft from(int64_t r) const {
        const float* scale = sums_.data();
        int64_t all = rows_ * parts_;
        return {values_.data() + r * parts_ * 32,
                bytes_.data() + (group_ ? r * parts_ * 64 : 0),
                parts_ * 32,
                parts_,
                scale + r * parts_,
                scale + all + r * parts_,
                scale + 2 * (all + r * parts_),
                group_scales_.data() + (group_ ? r * parts_ * 32 / group_ : 0),
                group_sums_.data() + (group_ ? r * parts_ * 32 / group_ : 0)};
    }
    bool finite = true;

  private:
    template <class T>
    void four(const T* x, int64_t n, int64_t at) {
        alignas(64) float given[128] = {};
        for (int64_t i = 0; i < n; i++) given[i] = static_cast<float>(x[i]);
        float most = largest(given, 128);
        finite &= most <= std::numeric_limits<float>::max();
        if (!finite) return;
        // The inverse of what is smaller would overflow.
        constexpr float top = 127 << 8;  // no sum of the high byte of this and a signed byte overflows
        float scale = most / top, inverse = most > 1e-30f ? top / most : 0;
        int16_t* to = values_.data() + at * 32;
        // In two steps, which the compiler vectorises: there is no conversion from float to int16.
        int32_t whole[128];
        for (int i = 0; i < 128; i++) whole[i] = static_cast<int32_t>(std::nearbyint(given[i] * inverse));
        for (int i = 0; i < 128; i++) to[i] = static_cast<int16_t>(whole[i]);
        if (group_) split(whole, bytes_.data() + at * 64);
        size_t all = values_.size() / 32;
        for (size_t p = static_cast<size_t>(at); p < static_cast<size_t>(at) + 4; p++) {
            const int32_t* from = whole + (p - static_cast<size_t>(at)) * 32;
            int32_t halves[2] = {};
            for (int i = 0; i < 16; i++) halves[0] += from[i], halves[1] += from[16 + i];
            sums_[p] = scale;
            sums_[all + p] = scale * static_cast<float>(halves[0] + halves[1]);
            if (group_) {
                group_scales_[p * 32 / static_cast<size_t>(group_)] = scale;
                group_sums_[p * 32 / static_cast<size_t>(group_)] += sums_[all + p];
            }
            sums_[2 * (all + p)] = scale * static_cast<float>(halves[0]);
            sums_[2 * (all + p) + 1] = scale * static_cast<float>(halves[1]);
        }
    }
    void split(const int32_t* whole, int8_t* to) const {
        int8_t low[128], high[128];
        for (int i = 0; i < 128; i++) {
            int32_t rest = static_cast<int8_t>(whole[i]);
            low[i] = static_cast<int8_t>(rest);
            high[i] = static_cast<int8_t>((whole[i] - rest) >> 8);
        }
        size_t n = group_ == 32 ? 16 : 32;  // numbers that follow each other and are the low halves of bytes
        for (size_t i = 0; i < 128; i += n, to += i / n % 2 ? 64 : static_cast<int64_t>(n) - 64) {
            std::memcpy(to, high + i, n);
            std::memcpy(to + 128, low + i, n);
        }
    }
    int64_t parts_, rows_, group_;
    std::vector<int16_t> values_;
    std::vector<int8_t> bytes_;
    std::vector<float> sums_;  // scales, sums of 32, sums of 16
    std::vector<float> group_scales_, group_sums_;
};

template <class T>
void few(T* out, const LeftRows& x, int64_t m, const Weight& w, const float* bias) {
    auto dot = kernels().dot[w.kernel];
    parallel_for((w.rows + 3) / 4,
                 std::max<int64_t>(1, bytes_per_chunk / std::max<int64_t>(1, w.row_bytes * 4 * ((m + 3) / 4))),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t j = begin * 4; j < std::min(end * 4, w.rows); j += 4) {
                         int columns = static_cast<int>(std::min<int64_t>(4, w.rows - j));
                         QuantRow row[4];
                         for (int c = 0; c < columns; c++) row[c] = w.row(j + c);
                         for (int64_t r = 0; r < m; r += 4) {
                             float sums[16];
                             int rows = static_cast<int>(std::min<int64_t>(4, m - r));
                             dot(row, columns, w.columns, x.from(r), rows, sums);
                             for (int i = 0; i < rows; i++) {
                                 for (int c = 0; c < columns; c++) {
                                     float value = sums[c * 4 + i];
                                     if (w.by_rows) value *= w.row_scale[j + c];
                                     if (bias) value += bias[j + c];
                                     out[(r + i) * w.rows + j + c] = T(value);
                                 }
                             }
                         }
                     }
                 });
}

void many(float* out, const float* x, int64_t m, const Weight& w, const float* bias) {
    int64_t k = w.columns, wide = std::clamp<int64_t>(panel_bytes / 4 / std::max<int64_t>(1, k), 16, 256);
    parallel_for((w.rows + wide - 1) / wide, 1, [&](int64_t begin, int64_t end) {
        std::vector<float> panel(static_cast<size_t>(wide * k));
        for (int64_t p = begin; p < end; p++) {
            int64_t first = p * wide, n = std::min(wide, w.rows - first);
            for (int64_t j = 0; j < n; j++) w.expand(first + j, panel.data() + j * k);
            float_gemm({DType::F32, m, n, k, reinterpret_cast<const char*>(x), k, 1,
                        reinterpret_cast<const char*>(panel.data()), 1, k, reinterpret_cast<char*>(out + first), w.rows,
                        Scalar(1), Scalar(0)});
            for (int64_t i = 0; bias && i < m; i++) {
                for (int64_t j = 0; j < n; j++) out[i * w.rows + first + j] += bias[first + j];
            }
        }
    });
}

// Rounds every row of x to int8 with one scale; false if that is not possible.
template <class T>
bool round_rows(const T* x, int64_t m, int64_t k, int64_t stride, int8_t* to, float* scale) {
    std::atomic<bool> finite = true;
    parallel_for(m, std::max<int64_t>(1, parallel_grain / std::max<int64_t>(1, k)), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; r++) {
            const T* from = x + r * k;
            float most = largest(from, k);
            if (!(most <= std::numeric_limits<float>::max())) {
                finite = false;
                continue;
            }
            float inverse = most > 1e-30f ? 127 / most : 0;
            scale[r] = most / 127;
            for (int64_t i = 0; i < k; i++)
                to[r * stride + i] =
                    static_cast<int8_t>(static_cast<int32_t>(std::nearbyint(static_cast<float>(from[i]) * inverse)));
        }
    });
    return finite;
}

template <class T>
bool in_bytes(T* out, const T* x, int64_t m, const Weight& w, const float* bias) {
    int64_t k = w.columns, n = w.rows, stride = (k + 63) / 64 * 64;
    std::vector<int8_t> left(static_cast<size_t>(m * stride));
    std::vector<float> scale(static_cast<size_t>(m));
    if (!round_rows(x, m, k, stride, left.data(), scale.data())) return false;
    const int8_t* weight = reinterpret_cast<const int8_t*>(w.data);
    auto multiply_rows = kernels().bytes;
    parallel_for((n + 3) / 4, std::max<int64_t>(1, bytes_per_chunk / std::max<int64_t>(1, 4 * k * ((m + 3) / 4))),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t j = begin * 4; j < std::min(end * 4, n); j += 4) {
                         int columns = static_cast<int>(std::min<int64_t>(4, n - j));
                         int32_t sums[4] = {}, products[16];
                         for (int c = 0; c < columns; c++) {
                             for (int64_t i = 0; i < k; i++) sums[c] += weight[(j + c) * k + i];
                         }
                         for (int64_t r = 0; r < m; r += 4) {
                             int rows = static_cast<int>(std::min<int64_t>(4, m - r));
                             multiply_rows({left.data() + r * stride, stride, weight + j * k, k, sums}, rows, columns,
                                           products);
                             for (int i = 0; i < rows; i++) {
                                 for (int c = 0; c < columns; c++) {
                                     float value = static_cast<float>(products[i * 4 + c]) *
                                                   (scale[static_cast<size_t>(r + i)] * w.row_scale[j + c]);
                                     out[(r + i) * n + j + c] = T(bias ? value + bias[j + c] : value);
                                 }
                             }
                         }
                     }
                 });
    return true;
}

template <class T>
void multiply_as(const Tensor& out, const Tensor& x, const Weight& w, const float* bias, bool dynamic) {
    int64_t m = x.size(0), k = w.columns, n = w.rows;
    if (dynamic && in_bytes(out.data<T>(), x.data<T>(), m, w, bias)) return;
    if (m <= few_rows) {
        LeftRows left(x.data<T>(), m, k, w.int4_group());
        if (left.finite) return few(out.data<T>(), left, m, w, bias);
    }
    if constexpr (std::is_same_v<T, float>) many(out.data<float>(), x.data<float>(), m, w, bias);
    else {
        Tensor from = empty({m, k}, DType::F32, cpu_device), to = empty({m, n}, DType::F32, cpu_device);
        auto each = [](int64_t count, auto f) {
            parallel_for(count, parallel_grain, [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; i++) f(i);
            });
        };
        each(m * k, [&](int64_t i) { from.data<float>()[i] = static_cast<float>(x.data<T>()[i]); });
        many(to.data<float>(), from.data<float>(), m, w, bias);
        each(m * n, [&](int64_t i) { out.data<T>()[i] = T(to.data<float>()[i]); });
    }
}

void multiply(const Tensor& out, const Tensor& x, const QuantWeight& weight, const Tensor& bias, bool dynamic) {
    if (out.numel() == 0) return;
    Weight w(weight);
    const float* start = bias ? bias.data<float>() : nullptr;
    dispatch<float, Half, BFloat16>(x.dtype(), "float32, float16 or bfloat16", [&](auto tag) {
        multiply_as<typename decltype(tag)::type>(out, x, w, start, dynamic);
    });
}

void dequantize(const Tensor& out, const QuantWeight& weight) {
    if (out.numel() == 0) return;
    Weight w(weight);
    parallel_for(w.rows, std::max<int64_t>(1, parallel_grain / w.columns), [&](int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; j++) w.expand(j, out.data<float>() + j * w.columns);
    });
}

const device::Provide<device::Quantized> provided(DeviceType::CPU, {.multiply = multiply, .dequantize = dequantize});

}  // namespace
}  // namespace fb::cpu
