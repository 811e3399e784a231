// Functions used by activation.def that are formulas themselves, for every T. Included inside a namespace that has the
// basic functions, so there is no include guard. They are twice the argument of tanh in the tanh approximation of gelu,
// and its derivative: (1 + tanh(u)) / 2 = sigmoid(2u).
constexpr double bend1 = 1.5957691216057308, bend3 = 0.044715 * bend1;
template <class T>
[[gnu::always_inline]] inline T bend(const T& x) {
    return x * (T(bend1) + T(bend3) * x * x);
}
template <class T>
[[gnu::always_inline]] inline T tanh_gelu_slope(const T& x, const T& s) {
    return s * (T(1) + x * (T(1) - s) * (T(bend1) + T(3 * bend3) * x * x));
}
template <class T>
[[gnu::always_inline]] inline T silu_slope(const T& x, const T& s) {
    return s * (T(1) + x * (T(1) - s));
}
template <class T>
[[gnu::always_inline]] inline T mish_slope(const T& x, const T& gate) {
    return gate + x * (T(1) - gate * gate) * sigmoid(x);
}
