// Activation functions for vector loops: float32 by short polynomials, fitted to a relative error below 2^-24, float64
// by the C library.
#pragma once
#include <concepts>

#include "backend/cpu/math.h"
#include "backend/cpu/vector_exp.h"

namespace fb::curve {

// A call left in a loop would prevent vectorisation.
#define FB_CURVE [[gnu::always_inline]] inline

// c0 + c1 x + c2 x² + …
FB_CURVE float series(float, float c) { return c; }
template <class... Rest>
FB_CURVE float series(float x, float c, Rest... rest) {
    return __builtin_fmaf(series(x, rest...), x, c);
}

FB_CURVE float exp(float x) { return vector_exp(x); }
FB_CURVE double exp(double x) { return m::exp(x); }

template <std::floating_point T>
FB_CURVE T sigmoid(T x) {
    return T(1) / (T(1) + exp(-x));
}

FB_CURVE float tanh(float x) {
    float q = x * x, size = __builtin_fabsf(x);
    float near =
        x * series(q, 0.999999996f, -0.333332605f, 0.133311275f, -0.0537210637f, 0.0205909757f, -0.00565997613f);
    float far = __builtin_copysignf(1 - 2 / (1 + exp(2 * size)), x);
    return size < 0.625f ? near : far;
}
FB_CURVE double tanh(double x) { return m::tanh(x); }

// exp(-x²/2). The result for NaN is arbitrary, so callers must also use x in their result.
FB_CURVE float bell(float x) {
    float square = -0.5f * x * x;
    return square < -87.3f ? 0.0f : normal_exp(square);
}

// The normal distribution: its density, and the probability below x. Below zero that is the density times a ratio that
// falls slowly and smoothly, a polynomial of 1 / (1 + 0.35 |x|), so there is no cancellation in the tail.
FB_CURVE float density(float x) { return 0.398942280f * bell(x); }
FB_CURVE double density(double x) { return 0.398942280401432678 * m::exp(-0.5 * x * x); }
FB_CURVE float below(float x) {
    float t = 1 / __builtin_fmaf(0.35f, __builtin_fabsf(x), 1);
    float ratio = t * series(t, 0.139621569f, 0.139859098f, 0.119852309f, 0.105433495f, -0.022938566f, 0.158931501f,
                             -0.255506602f, 0.143873264f, -0.0291260844f);
    float tail = bell(x) * ratio;
    return x < 0 ? tail : 1 - tail;
}
FB_CURVE double below(double x) { return 0.5 * m::erfc(-0.707106781186547524 * x); }

// tanh(log(1 + exp(x))) = w / (w + 2) with w = exp(x) (exp(x) + 2); 1 beyond 20.
template <std::floating_point T>
FB_CURVE T mish_gate(T x) {
    T e = exp(x), w = e * (e + T(2)), gate = w / (w + T(2));
    return x > T(20) ? T(1) : gate;
}

#undef FB_CURVE

}  // namespace fb::curve
