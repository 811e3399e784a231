// Words of activation.def that are formulas themselves, for every T. To be included inside a namespace that has the
// other words: no include guard. Twice the argument of tanh in its approximation of gelu, and the slope of that: (1 +
// tanh(u)) / 2 = sigmoid(2u).
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
