#include "backend/cpu/convert.h"

#include "backend/cpu/halves.h"
#include "base/bool.h"

namespace fb::cpu {
namespace {

// Converts as many whole vectors as there are; returns the number of elements.
template <class H>
int64_t half_from_float(H* y, const float* x, int64_t n) {
    int64_t i = 0;
    for (; i + pair_lanes <= n; i += pair_lanes) {
        Floats8 low, high;
        std::memcpy(&low, x + i, sizeof low);
        std::memcpy(&high, x + i + 8, sizeof high);
        store_pair(y + i, low, high);
    }
    return i;
}
template <class H>
int64_t float_from_half(float* y, const H* x, int64_t n) {
    int64_t i = 0;
    for (; i + pair_lanes <= n; i += pair_lanes) {
        Floats8 low, high;
        load_pair(x + i, low, high);
        std::memcpy(y + i, &low, sizeof low);
        std::memcpy(y + i + 8, &high, sizeof high);
    }
    return i;
}
// Values out of range, and NaN, become the minimum, as in convert().
int64_t int_from_float([[maybe_unused]] int32_t* y, [[maybe_unused]] const float* x, [[maybe_unused]] int64_t n) {
    int64_t i = 0;
#ifdef __AVX2__
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), _mm256_cvttps_epi32(_mm256_loadu_ps(x + i)));
#endif
    return i;
}

template <class To, class From>
void convert_loop(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t n) {
    if (to_stride == sizeof(To) && from_stride == sizeof(From)) {
        To* __restrict y = reinterpret_cast<To*>(to);
        const Stored<From>* __restrict x = reinterpret_cast<const Stored<From>*>(from);
        int64_t done = 0;
        if constexpr (std::is_same_v<To, int32_t> && std::is_same_v<From, float>) done = int_from_float(y, x, n);
        if constexpr (is_half_type<To> && std::is_same_v<From, float>) done = half_from_float(y, x, n);
        if constexpr (std::is_same_v<To, float> && is_half_type<From>) done = float_from_half(y, x, n);
#pragma omp simd
        for (int64_t i = done; i < n; i++) {
            if constexpr (std::is_same_v<From, bool>) y[i] = x[i].byte ? convert<To>(1) : convert<To>(0);
            else y[i] = convert<To>(x[i]);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++)
        *reinterpret_cast<To*>(to + i * to_stride) =
            convert<To>(From(*reinterpret_cast<const Stored<From>*>(from + i * from_stride)));
}

using ConvertFn = void (*)(char*, int64_t, const char*, int64_t, int64_t);

struct Table {
    ConvertFn at[dtype_count][dtype_count];  // [to][from]
};
template <class To, class... From>
void fill_row(Table& table) {
    ((table.at[static_cast<int>(dtype_of<To>())][static_cast<int>(dtype_of<From>())] = convert_loop<To, From>), ...);
}
template <class... All>
Table make_table() {
    Table table{};
    (fill_row<All, All...>(table), ...);
    return table;
}
// A storage dtype and its value dtype, in both directions.
template <class Storage, class Value>
void fill_pair(Table& table) {
    fill_row<Storage, Value>(table);
    fill_row<Value, Storage>(table);
}
template <class... All>
void fill_float8(Table& table) {
    (fill_pair<All, float>(table), ...);
}
Table whole_table() {
    Table table = make_table<bool, FB_INTS, Half, BFloat16, float, double, c64, c128>();
    fill_pair<c32, c64>(table);
    fill_float8<FB_FLOAT8>(table);
    return table;
}

// Storage dtypes convert to other dtypes through their value dtype.
void convert_through(char* to, DType to_dtype, int64_t to_stride, const char* from, DType from_dtype,
                     int64_t from_stride, int64_t n) {
    constexpr int64_t chunk = 256;
    alignas(64) char values[chunk * sizeof(c64)];
    DType between = is_storage(from_dtype) ? value_dtype(from_dtype) : value_dtype(to_dtype);
    int64_t step = itemsize(between);
    for (int64_t i = 0; i < n; i += chunk) {
        int64_t count = std::min(chunk, n - i);
        convert_strided(values, between, step, from + i * from_stride, from_dtype, from_stride, count);
        convert_strided(to + i * to_stride, to_dtype, to_stride, values, between, step, count);
    }
}

}  // namespace

void convert_strided(char* to, DType to_dtype, int64_t to_stride, const char* from, DType from_dtype,
                     int64_t from_stride, int64_t n) {
    static const Table table = whole_table();
    ConvertFn direct = table.at[static_cast<int>(to_dtype)][static_cast<int>(from_dtype)];
    if (direct) direct(to, to_stride, from, from_stride, n);
    else convert_through(to, to_dtype, to_stride, from, from_dtype, from_stride, n);
}

}  // namespace fb::cpu
