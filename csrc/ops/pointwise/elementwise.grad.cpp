// Gradients of the elementwise ops: the rows of unary.def, then the ops of two and three operands.
#include "autograd/mode.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

// The component of g perpendicular to x, over |x|; zero at zero, and for real x.
Var sgn_gradient(const Var& g, const Var& x) {
    if (!is_complex(x.dtype())) return zeros_like(g);
    Var size = abs(x), sign = sgn(x), along = cast(real(g * conj(sign)), g.dtype());
    return masked_fill((g - along * sign) / size, size == 0, 0);
}
Var angle_gradient(const Var& g, const Var& x) {
    if (!is_complex(x.dtype())) return zeros_like(g);
    Var re = real(x), im = imag(x), square = re * re + im * im, zero = square == 0;
    Var scale = masked_fill(g / square, zero, 0);
    return call<"complex">(-(im * scale), re * scale);
}
Var relu_gradient(const GradCall& c, const Var& g, const Var& y) {
    return c.leave_gate() ? g : call<"_relu_gradient">(g, y);
}

// One pass, unless it is to be differentiated again.
bool in_one_pass(const Var& y) { return !grad_enabled() && !is_complex(y.dtype()); }
Var tanh_gradient(const Var& g, const Var& y) {
    return in_one_pass(y) ? call<"_tanh_backward">(g, y) : g * conj(1 - y * y);
}
Var sigmoid_gradient(const Var& g, const Var& y) {
    return in_one_pass(y) ? call<"_sigmoid_backward">(g, y) : g * conj((1 - y) * y);
}

constexpr uint32_t X = IN(0), Y = RESULT(0);

const Var none;  // rows that are not differentiable

#define UNARY(name, domain, result, cost, formula, keeps, gradient, ...) \
    void gradient_of_##name(GradCall& c) {                               \
        [[maybe_unused]] Var g = c.g(), x, y;                            \
        if ((keeps) == X) x = c.in(0);                                   \
        if ((keeps) == Y) y = c.out();                                   \
        c.set(0, gradient);                                              \
    }                                                                    \
    const RegisterGradient register_gradient_##name(                     \
        #name, {keeps}, std::string_view(#gradient) == "none" ? nullptr : gradient_of_##name);
#include "device/formulas/unary.def"
#undef UNARY

}  // namespace

GRAD("positive") { c.set(0, c.g()); }
GRAD("conj|conj_physical") { c.set(0, conj(c.g())); }
GRAD("real") { c.set(0, cast(c.g(), c.dtype(0))); }
GRAD("imag") { c.set(0, call<"complex">(zeros_like(c.g()), c.g())); }
GRAD("round") { c.set(0, zeros_like(c.g())); }
GRAD("nan_to_num", IN(0)) { c.set(0, masked(c.g(), call<"isfinite">(c.in(0)))); }
GRAD("square", IN(0)) { c.set(0, c.g() * conj(c.in(0)) * 2); }
GRAD("logit", IN(0)) {
    Var x = c.in(0), slope = c.g() / (x * (1 - x));
    if (!c.given(1)) {
        // Outside of [0, 1] the function is NaN.
        c.set(0, masked_fill(slope, logical_or(x < 0, x > 1), std::numeric_limits<double>::quiet_NaN()));
        return;
    }
    double eps = c.number(1);
    c.set(0, masked(slope, logical_and(x >= eps, x <= 1 - eps)));
}
GRAD("sinc", IN(0)) {
    constexpr double pi = 3.14159265358979323846;
    Var x = c.in(0), turn = x * pi, zero = x == 0;
    // (cos(πx) - sinc(x)) / x, and 0 at zero; the quotient is taken where x is not zero.
    Var safe = masked_fill(x, zero, 1);
    Var slope = (cos(turn) - sin(turn) / (safe * pi)) / safe;
    c.set(0, c.g() * conj(masked_fill(slope, zero, 0)));
}

// ---- two operands ---------------------------------------------------------------------------------------------------

GRAD("add") {
    c.set(0, c.g());
    if (c.needs(1)) c.set(1, c.scalar(2).is_integral() && c.integer(2) == 1 ? c.g() : c.g() * conj(Var(c.scalar(2))));
}
GRAD("sub") {
    c.set(0, c.g());
    if (c.needs(1))
        c.set(1, -(c.scalar(2).is_integral() && c.integer(2) == 1 ? c.g() : c.g() * conj(Var(c.scalar(2)))));
}
GRAD("rsub") {
    if (c.needs(0)) c.set(0, -(c.g() * conj(Var(c.scalar(2)))));
    c.set(1, c.g());
}
GRAD("mul", IN(1), IN(0)) {
    if (c.needs(0)) c.set(0, c.g() * conj(c.in(1)));
    if (c.needs(1)) c.set(1, c.g() * conj(c.in(0)));
}
static void divide(GradCall& c) {
    Var y = conj(c.in(1)), slope = c.g() / y;
    c.set(0, slope);
    if (c.needs(1)) c.set(1, -(slope * conj(c.in(0)) / y));
}
GRAD("true_divide", IN(1), IN(0) | IN(1)) { divide(c); }
GRAD("div", IN(1), IN(0) | IN(1)) {
    if (!c.given(2)) return divide(c);
    c.set(0, zeros_like(c.g()));
    c.set(1, zeros_like(c.g()));
}
GRAD("floor_divide") {
    c.set(0, zeros_like(c.g()));
    c.set(1, zeros_like(c.g()));
}
GRAD("remainder", 0, IN(0) | IN(1)) {
    c.set(0, c.g());
    if (c.needs(1)) c.set(1, -(c.g() * call<"div">(c.in(0), c.in(1), "floor")));
}
GRAD("fmod", 0, IN(0) | IN(1)) {
    c.set(0, c.g());
    if (c.needs(1)) c.set(1, -(c.g() * call<"div">(c.in(0), c.in(1), "trunc")));
}
GRAD("atan2", IN(0) | IN(1), IN(0) | IN(1)) {
    Var y = c.in(0), x = c.in(1), scale = c.g() / (x * x + y * y);
    scale = masked_fill(scale, logical_and(x == 0, y == 0), 0);
    if (c.needs(0)) c.set(0, scale * x);
    if (c.needs(1)) c.set(1, -(scale * y));
}
GRAD("hypot", IN(0) | RESULT(0), IN(1) | RESULT(0)) {
    Var ratio = c.g() / c.out();
    if (c.needs(0)) c.set(0, ratio * c.in(0));
    if (c.needs(1)) c.set(1, ratio * c.in(1));
}
// Where both are equal each gets one half.
static void extremes(GradCall& c, const Var& first, const Var& second, const Var& equal) {
    if (c.needs(0)) c.set(0, masked_fill(where(equal, c.g() * 0.5, c.g()), second, 0));
    if (c.needs(1)) c.set(1, masked_fill(where(equal, c.g() * 0.5, c.g()), first, 0));
}
GRAD("maximum", IN(0) | IN(1), IN(0) | IN(1)) {
    Var x = c.in(0), y = c.in(1);
    extremes(c, x > y, x < y, x == y);
}
GRAD("minimum", IN(0) | IN(1), IN(0) | IN(1)) {
    Var x = c.in(0), y = c.in(1);
    extremes(c, x<y, x> y, x == y);
}
// NaN loses, and the first wins ties.
GRAD("fmax", IN(0) | IN(1), IN(0) | IN(1)) {
    Var first = logical_or(c.in(0) >= c.in(1), isnan(c.in(1)));
    if (c.needs(0)) c.set(0, masked(c.g(), first));
    if (c.needs(1)) c.set(1, masked_fill(c.g(), first, 0));
}
GRAD("fmin", IN(0) | IN(1), IN(0) | IN(1)) {
    Var first = logical_or(c.in(0) <= c.in(1), isnan(c.in(1)));
    if (c.needs(0)) c.set(0, masked(c.g(), first));
    if (c.needs(1)) c.set(1, masked_fill(c.g(), first, 0));
}
GRAD("copysign", IN(0) | RESULT(0)) {
    if (c.needs(0)) {
        Var x = c.in(0);
        c.set(0, masked_fill(c.g() * (c.out() / masked_fill(x, x == 0, 1)), x == 0, 0));
    }
    c.set(1, zeros_like(c.g()));
}
GRAD("heaviside") {
    c.set(0, zeros_like(c.g()));
    c.set(1, zeros_like(c.g()));
}
// exp(x) / (exp(x) + exp(y)) is a sigmoid of the difference, which stays finite where x or y is not.
GRAD("logaddexp", IN(0) | IN(1), IN(0) | IN(1)) {
    if (c.needs(0)) c.set(0, c.g() * conj(sigmoid(c.in(0) - c.in(1))));
    if (c.needs(1)) c.set(1, c.g() * conj(sigmoid(c.in(1) - c.in(0))));
}
GRAD("logaddexp2", IN(0) | IN(1), IN(0) | IN(1)) {
    constexpr double log2 = 0.693147180559945309;
    if (c.needs(0)) c.set(0, c.g() * sigmoid((c.in(0) - c.in(1)) * log2));
    if (c.needs(1)) c.set(1, c.g() * sigmoid((c.in(1) - c.in(0)) * log2));
}
GRAD("xlogy", IN(1) | IN(0), IN(0) | IN(1)) {
    Var x = c.in(0), y = c.in(1);
    if (c.needs(0)) c.set(0, c.g() * masked_fill(log(y), logical_and(x == 0, y <= 0), 0));
    if (c.needs(1)) c.set(1, c.g() * x / y);
}
NO_GRAD("eq|ne|lt|le|gt|ge|logical_and|logical_or|logical_xor");

// Both derivatives of x**p, with 0 where base or exponent make the product undefined.
static void power(GradCall& c, Var x, Var p) {
    if (c.needs(0)) {
        bool number = p.dim() == 0 && !requires_grad(p.tensor) && p.tensor.is_wrapped_number();
        if (!number) {
            Var slope = c.g() * conj(p * pow(x, p - 1));
            c.set(0, masked_fill(slope, p == 0, 0));
        } else if (Scalar power = item(p.tensor); power.re == 0 && power.im == 0) {
            c.set(0, zeros_like(c.g()));
        } else {
            c.set(0, c.g() * conj(p * pow(x, p - 1)));
        }
    }
    if (c.needs(1)) {
        Var zero = logical_and(x == 0, is_complex(p.dtype()) ? real(p) >= 0 : p >= 0);
        Var base = is_complex(c.out_dtype()) ? cast(x, c.out_dtype()) : x;  // the logarithm of -1 is a complex number
        Var slope = c.g() * conj(pow(x, p) * log(masked_fill(base, x == 0, 1)));
        Var bare = c.g() * conj(pow(x, p) * log(base));
        c.set(1, where(zero, zeros_like(slope), where(x == 0, bare, slope)));
    }
}
GRAD("pow", IN(0) | IN(1), IN(0) | IN(1)) { power(c, c.in(0), c.in(1)); }
GRAD("float_power", IN(0) | IN(1), IN(0) | IN(1)) {
    // Halves would leave their range on the way.
    Var p = c.in(1);
    power(c, cast(c.in(0), c.out_dtype()), p.tensor.is_wrapped_number() ? p : cast(p, c.out_dtype()));
}

// ---- three operands -------------------------------------------------------------------------------------------------

GRAD("where(Tensor condition, Operand input", 0, IN(0), IN(0)) {
    if (c.needs(1)) c.set(1, masked(c.g(), c.in(0)));
    if (c.needs(2)) c.set(2, masked_fill(c.g(), c.in(0), 0));
}
GRAD("where(Tensor input, Tensor condition", IN(1), 0, IN(1)) {
    if (c.needs(0)) c.set(0, masked(c.g(), c.in(1)));
    if (c.needs(2)) c.set(2, masked_fill(c.g(), c.in(1), 0));
}
GRAD("_relu", RESULT(0)) { c.set(0, relu_gradient(c, c.g(), c.out())); }
GRAD("clamp", IN(0) | IN(1) | IN(2), IN(0) | IN(1) | IN(2), IN(0) | IN(1) | IN(2)) {
    Var x = c.in(0), low = c.given(1) ? c.in(1) : Var(), high = c.given(2) ? c.in(2) : Var();
    if (c.needs(0)) {
        // NaN lies in no range.
        Var inside = low.defined() ? x >= low : x <= high;
        if (low.defined() && high.defined()) inside = logical_and(inside, x <= high);
        c.set(0, masked(c.g(), inside));
    }
    // The upper bound wins where the bounds cross.
    if (c.needs(1)) {
        Var used = x < low;
        if (high.defined()) used = logical_and(used, low < high);
        c.set(1, masked(c.g(), used));
    }
    if (c.needs(2)) {
        Var used = x > high;
        if (low.defined()) used = logical_or(used, high < low);
        c.set(2, masked(c.g(), used));
    }
}
GRAD("clamp_min", IN(0) | IN(1), IN(0) | IN(1)) {
    Var x = c.in(0), bound = c.in(1);
    if (c.needs(0)) c.set(0, masked(c.g(), x >= bound));
    if (c.needs(1)) c.set(1, masked(c.g(), x < bound));
}
GRAD("clamp_max", IN(0) | IN(1), IN(0) | IN(1)) {
    Var x = c.in(0), bound = c.in(1);
    if (c.needs(0)) c.set(0, masked(c.g(), x <= bound));
    if (c.needs(1)) c.set(1, masked(c.g(), x > bound));
}
GRAD("lerp", IN(2), IN(2), IN(0) | IN(1)) {
    if (c.needs(0)) c.set(0, c.g() * conj(1 - c.in(2)));
    if (c.needs(1)) c.set(1, c.g() * conj(c.in(2)));
    if (c.needs(2)) c.set(2, c.g() * conj(c.in(1) - c.in(0)));
}
GRAD("addcmul", 0, IN(2), IN(1)) {
    c.set(0, c.g());
    Var scale = conj(Var(c.scalar(3)));
    if (c.needs(1)) c.set(1, c.g() * conj(c.in(2)) * scale);
    if (c.needs(2)) c.set(2, c.g() * conj(c.in(1)) * scale);
}
GRAD("addcdiv", 0, IN(2), IN(1) | IN(2)) {
    c.set(0, c.g());
    Var scale = conj(Var(c.scalar(3)));
    if (c.needs(1)) c.set(1, c.g() * scale / conj(c.in(2)));
    if (c.needs(2)) c.set(2, -(c.g() * scale * conj(c.in(1) / (c.in(2) * c.in(2)))));
}

}  // namespace fb
