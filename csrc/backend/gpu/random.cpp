// Random numbers: the CPU's (backend/cpu/philox.h), bit for bit as far as the device's arithmetic allows. An item
// computes one counter, whose four words belong to elements 16 apart in a group of 64.
#include <cmath>

#include "backend/gpu/elements.h"
#include "backend/gpu/families.h"
#include "base/generator.h"

namespace fb::gpu {
namespace {

using device::FromUniform;
constexpr int64_t group_counters = 16, group_words = 64;

constexpr const char* philox = R"(
typedef struct { u32 w[4]; } Words;
FN u32 high_of(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
FN Words philox(u64 seed, u64 counter, u32 third, u32 fourth) {
    Words x;
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    x.w[0] = (u32)counter;
    x.w[1] = (u32)(counter >> 32);
    x.w[2] = third;
    x.w[3] = fourth;
    for (int round = 0; round < 10; round++) {
        const u32 a = x.w[0], b = x.w[2];
        x.w[0] = high_of(b, 0xCD9E8D57u) ^ x.w[1] ^ k0;
        x.w[1] = b * 0xCD9E8D57u;
        x.w[2] = high_of(a, 0xD2511F53u) ^ x.w[3] ^ k1;
        x.w[3] = a * 0xD2511F53u;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return x;
}
FN u64 wide(u32 high, u32 low) { return (u64)high << 32 | low; }
FN u64 high_product(u64 a, u64 b) {
    const u64 a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
    const u64 low = a0 * b0, one = a1 * b0 + (low >> 32), two = a0 * b1 + (one & 0xffffffffu);
    return a1 * b1 + (one >> 32) + (two >> 32);
}
// Number s of an element's own sequence, in (0, 1).
FN u64 sequence_bits(u64 seed, u64 index, u32 s) {
    const Words x = philox(seed, index, s / 2, 1);
    return s & 1 ? wide(x.w[2], x.w[3]) : wide(x.w[0], x.w[1]);
}
)";

// Natural logarithm of a normal, positive number, and cosine and sine of u whole turns: the CPU's series.
const char* curves(DType d) {
    return d == DType::F32 ? R"(
FN T log_positive(T x) {
    const i32 bits = (i32)bits_of_float(x) - 0x3f3504f3, exponent = bits >> 23;
    const T m = float_of_bits((u32)((bits & 0x007fffff) + 0x3f3504f3)), s = (m - 1) / (m + 1), q = s * s;
    const T series = 2 + q * (0.666666667f + q * (0.4f + q * (0.285714286f + q * 0.222222222f)));
    return (T)exponent * 0.693147181f + s * series;
}
#define TERMS 5
)"
                           : R"(
FN T log_positive(T x) {
    const i64 bits = (i64)bits_of_double(x) - 0x3fe6a09e667f3bcd, exponent = bits >> 52;
    const T m = double_of_bits((u64)((bits & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd)), s = (m - 1) / (m + 1), q = s * s;
    T series = K(2.0) / 21;
    for (int odd = 19; odd > 0; odd -= 2) series = K(2.0) / odd + q * series;
    return (T)exponent * K(0.69314718055994530942) + s * series;
}
#define TERMS 8
)";
}
constexpr const char* turn = R"(
FN T turned(T u, int sine) {
    const int quarter = (int)(u * 4 + K(0.5));
    const T t = (u - (T)quarter * K(0.25)) * K(6.28318530717958647692), q = -t * t;
    T c = (T)1, s = (T)1, x, y;
    for (int i = TERMS; i > 0; i--) {
        c = (T)1 + c * q * ((T)1 / (T)((2 * i) * (2 * i - 1)));
        s = (T)1 + s * q * ((T)1 / (T)((2 * i) * (2 * i + 1)));
    }
    s *= t;
    x = quarter & 1 ? s : c;
    y = quarter & 1 ? c : s;
    return sine ? (quarter & 2 ? -y : y) : ((quarter + 1) & 2 ? -x : x);
}
)";

uint64_t counters(int64_t n, int words) {
    int64_t per_group = group_words / words;
    return static_cast<uint64_t>((n + per_group - 1) / per_group) * group_counters;
}

// Draws for n elements of `words` words each; the text reads the four words of its counter in x, and writes elements of
// its group with PUT(place, value). `lane` is the first of its places.
bool draw(Work& work, int64_t n, int words, Generator& generator, const std::string& text) {
    uint64_t count = counters(n, words);
    auto [seed, first] = generator.draw(count);
    work.word("seed", seed).word("first", first).number("n", n).number("per_group", group_words / words);
    work.define("PUT(place, value)", "{ const ix put = base + (place); if (put < g.n) STORE_to(put, value); }");
    return work.run(
        "    const ix group_ = item / 16, lane = item - group_ * 16, base = group_ * g.per_group;\n    const Words "
        "x = philox(g.seed, g.first + (u64)item, 0, 0);\n" +
            text,
        static_cast<int64_t>(count));
}
bool ready(const Tensor& t) { return uses_kernels() && compute_type(t.dtype()); }
// The places of a lane's elements: four with one word each, two with two.
const char* four(const char*) {
    return "    for (int w = 0; w < 4; w++) { const u32 bits = x.w[w]; const ix at = 16 * w + lane; ";
}
constexpr const char* two =
    "    for (int w = 0; w < 2; w++) { const u64 bits = wide(x.w[w], x.w[w + 2]); const ix at = 16 * w + lane; ";

}  // namespace

bool run_uniform(const Tensor& t, double from, double to, Generator& generator) {
    if (!ready(t) || !is_floating(t.dtype())) return false;
    DType d = compute_dtype(t.dtype());
    Work work(t.device());
    work.compute(d).tensor("to", t).text(philox);
    if (d == DType::F64) {
        work.real("start", from).real("width", to - from);
        return draw(
            work, t.numel(), 2, generator,
            std::string(two) + "PUT(at, g.start + g.width * ((T)(i64)(bits >> 11) * 1.1102230246251565e-16)) }");
    }
    work.real("start", from).real("width", static_cast<float>(to - from) * 0x1p-24f).real("end", to);
    std::string value = "g.start + g.width * (f32)(i32)(bits >> 8)", cut = "v";
    if (is_half(t.dtype())) {
        // Rounding to 16 bits may reach the end.
        std::string rounded = t.dtype() == DType::F16 ? "m_as_half(v)" : "m_as_bfloat16(v)";
        cut = rounded + " < g.end ? v : g.start";
    }
    return draw(work, t.numel(), 1, generator,
                std::string(four("")) + "const T v = " + value + "; PUT(at, " + cut + ") }");
}

bool run_normal(const Tensor& t, double mean, double std, Generator& generator) {
    if (!ready(t) || !is_floating(t.dtype())) return false;
    DType d = compute_dtype(t.dtype());
    Work work(t.device());
    work.compute(d).tensor("to", t).real("mean", mean).real("std", std).text(philox).text(curves(d)).text(turn);
    if (d == DType::F64)
        return draw(work, t.numel(), 2, generator, R"(
    const u64 a = wide(x.w[0], x.w[1]), b = wide(x.w[2], x.w[3]);
    const T radius = sqrt(-2 * log_positive(((T)(i64)(a >> 11) + 0.5) * 1.1102230246251565e-16)) * g.std;
    const T angle = (T)(i64)(b >> 11) * 1.1102230246251565e-16;
    PUT(lane, g.mean + radius * turned(angle, 0))
    PUT(16 + lane, g.mean + radius * turned(angle, 1)))");
    return draw(work, t.numel(), 1, generator, R"(    for (int w = 0; w < 2; w++) {
        const T u = ((T)(i32)(x.w[w] >> 1) + 0.5f) * 4.656612873077393e-10f, radius = sqrt(-2 * log_positive(u)) * g.std;
        const T angle = (T)(i32)(x.w[w + 2] >> 8) * 5.9604644775390625e-8f;
        PUT(16 * w + lane, g.mean + radius * turned(angle, 0))
        PUT(32 + 16 * w + lane, g.mean + radius * turned(angle, 1))
    })");
}

bool run_log_normal(const Tensor& t, double mean, double std, Generator& generator) {
    return ready(t) && run_normal(t, mean, std, generator) &&
           run_elements({{t, "exp(x)", t.dtype()}}, compute_dtype(t.dtype()), {t});
}

bool run_integers(const Tensor& t, int64_t low, uint64_t span, Generator& generator) {
    if (!ready(t)) return false;
    Work work(t.device());
    work.compute(DType::I64).tensor("to", t).word("low", static_cast<uint64_t>(low)).word("span", span).text(philox);
    if (span != 0 && span <= 65536)
        return draw(work, t.numel(), 1, generator,
                    std::string(four("")) + "PUT(at, (i64)(g.low + ((u64)bits * g.span >> 32))) }");
    std::string offset = span ? "high_product(bits, g.span)" : "bits";
    return draw(work, t.numel(), 2, generator, std::string(two) + "PUT(at, (i64)(g.low + " + offset + ")) }");
}

bool run_bernoulli(const Tensor& t, double p, Generator& generator) {
    if (!ready(t)) return false;
    Work work(t.device());
    work.compute(DType::I32).tensor("to", t).word("limit", static_cast<uint64_t>(std::ceil(p * 0x1p32))).text(philox);
    return draw(work, t.numel(), 1, generator, std::string(four("")) + "PUT(at, (u64)bits < g.limit ? 1 : 0) }");
}

bool run_from_uniform(const Tensor& t, FromUniform which, double a, double b, Generator& generator) {
    if (!ready(t)) return false;
    DType d = is_half(t.dtype()) ? DType::F32 : is_floating(t.dtype()) ? t.dtype() : DType::F64;
    std::string value;
    double first = a, second = b;
    switch (which) {
        case FromUniform::Exponential:
            first = 1 / a;
            value = "-log_positive(u) * g.a";
            break;
        case FromUniform::Geometric:
            first = 1 / std::log1p(-a);
            value = "m_max((T)1, ceil(log_positive(u) * g.a))";
            break;
        case FromUniform::Cauchy:
            value = "g.a + g.b * tan(K(3.14159265358979323846) * (u - K(0.5)))";
            break;
    }
    Work work(t.device());
    work.compute(d).tensor("to", t).real("a", first).real("b", second).text(philox).text(curves(d));
    if (d == DType::F64)
        return draw(work, t.numel(), 2, generator,
                    std::string(two) + "const T u = ((T)(i64)(bits >> 12) + 0.5) * 2.220446049250313e-16; PUT(at, " +
                        value + ") }");
    return draw(work, t.numel(), 1, generator,
                std::string(four("")) + "const T u = ((T)(i32)(bits >> 9) + 0.5f) * 1.1920928955078125e-7f; PUT(at, " +
                    value + ") }");
}

namespace {

constexpr Fault bad_odds{ErrorKind::Value, "probabilities must be from 0 to 1"};
constexpr Fault bad_std{ErrorKind::Value, "normal expects all elements of std >= 0.0"};
constexpr Fault bad_weights{ErrorKind::Value,
                            "probability tensor contains either `inf`, `nan` or element < 0, or a row of zeros "
                            "(invalid multinomial distribution): row {index}"};

}  // namespace

bool run_hits(const Tensor& out, const Tensor& p, Generator& generator) {
    if (!ready(out) || p.device() != out.device()) return false;
    bool single = out.dtype() == DType::F32;
    Work work(out.device());
    work.compute(out.dtype()).tensor("to", out).tensor("odds", p).text(philox).on_fail(bad_odds, 0, 0);
    std::string test =
        "if (base + at < g.n) { const T want = LOAD_odds(base + at); if (!(want >= 0 && want <= 1)) FAIL(0, base + "
        "at); PUT(at, u < want ? (T)1 : (T)0) } }";
    if (single)
        return draw(work, out.numel(), 1, generator,
                    std::string(four("")) + "const T u = (T)(i32)(bits >> 8) * 5.9604644775390625e-8f; " + test);
    return draw(work, out.numel(), 2, generator,
                std::string(two) + "const T u = (T)(i64)(bits >> 11) * 1.1102230246251565e-16; " + test);
}

bool run_normal_around(const Tensor& out, const Tensor& mean, const Tensor& std, Generator& generator) {
    if (!ready(out) || !is_floating(out.dtype()) || std.device() != out.device() || mean.device() != out.device())
        return false;
    Work check(out.device());
    check.compute(std.dtype()).tensor("std", std).on_fail(bad_std, 0, 0);
    if (!check.run("    if (!(LOAD_std(item) >= 0)) FAIL(0, item);", std.numel())) return false;
    return run_normal(out, 0, 1, generator) &&
           run_elements({{out, "y + z * x", out.dtype()}}, out.dtype(), {out, mean, std});
}

// Fisher–Yates, one swap after the other.
bool run_permutation(const Tensor& out, Generator& generator) {
    if (!ready(out)) return false;
    auto [seed, first] = generator.draw(counters(out.numel(), 2));
    Work work(out.device());
    work.compute(out.dtype())
        .tensor("to", out)
        .word("seed", seed)
        .word("first", first)
        .number("n", out.numel())
        .text(philox);
    return work.run(R"(    for (ix i = item; i < g.n; i++) to[i] = (T)i;
    ix drawn = 0;
    for (ix i = g.n - 1; i > 0; i--, drawn++) {
        const ix group = drawn / 32, at = drawn - group * 32;
        const Words x = philox(g.seed, g.first + (u64)(group * 16 + at % 16), 0, 0);
        const u64 bits = at < 16 ? wide(x.w[0], x.w[2]) : wide(x.w[1], x.w[3]);
        const ix j = (ix)high_product(bits, (u64)i + 1);
        const T kept = to[i];
        to[i] = to[j];
        to[j] = kept;
    })",
                    1);
}

bool run_multinomial(const Tensor& out, const Tensor& weights, int64_t rows, int64_t count, bool replacement,
                     Generator& generator) {
    if (!uses_kernels() || weights.dtype() != DType::F64) return false;
    int64_t n = weights.shape()[weights.dim() - 1];
    auto [seed, first] = generator.draw(static_cast<uint64_t>(rows));
    Tensor scratch = empty({rows, n}, DType::F64, out.device());
    Work work(out.device());
    work.compute(DType::F64).tensor("to", out).tensor("w", weights).tensor("sums", scratch).number("n", n);
    work.number("count", count).word("seed", seed).word("first", first).text(philox).on_fail(bad_weights, 0, 0);
    const std::string begin = R"(    const ix base = item * g.n;
    const u64 stream = g.first + (u64)item;
    T total = (T)0;
    int bad = 0;
    for (ix i = 0; i < g.n; i++) {
        const T weight = w[base + i];
        bad |= !(weight >= 0 && m_isfinite(weight));
        total += weight;
        sums[base + i] = total;
    }
    if (bad || !(total > 0)) {
        FAIL(0, item);
        for (ix s = 0; s < g.count; s++) to[item * g.count + s] = 0;
        return;
    }
)";
    const std::string uniform =
        "((T)(i64)(sequence_bits(g.seed, stream, (u32)s) >> 11) + 0.5) * 1.1102230246251565e-16";
    if (replacement)
        // Rounding at the end must not pick an impossible index.
        return work.run(
            begin + "    for (ix s = 0; s < g.count; s++) {\n        const T v = (" + uniform + R"() * total;
        ix low = 0, high = g.n;
        while (low < high) {
            const ix mid = low + (high - low) / 2;
            if (sums[base + mid] <= v) low = mid + 1;
            else high = mid;
        }
        while (low >= g.n || w[base + low] == 0) low--;
        to[item * g.count + s] = (i64)low;
    })",
            rows);
    // Exponential waiting times with the weights as rates: the first arrivals are the sample.
    if (!work.run(begin + "    for (ix s = 0; s < g.n; s++) sums[base + s] = w[base + s] > 0 ? -log(" + uniform +
                      ") / w[base + s] : INF;",
                  rows))
        return false;
    Tensor waits = empty({rows, count}, DType::F64, out.device());
    return run_topk(scratch, count, false, true, waits, out);
}

}  // namespace fb::gpu
