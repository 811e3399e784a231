// Complex numbers: kernels have none, so formulas become two of real numbers, over the parts of their tensors, and a
// product of matrices becomes four.
#include <array>
#include <map>

#include "backend/gpu/elements.h"
#include "backend/gpu/families.h"

namespace fb::gpu {
namespace {

DType dtype_of_part(DType d) {
    return d == DType::C128 ? DType::F64 : d == DType::C64 ? DType::F32 : d == DType::C32 ? DType::F16 : d;
}
// The real (0) or imaginary (1) part of each element.
Tensor part(const Tensor& t, int which) {
    Dims strides = t.strides();
    for (int64_t& s : strides) s *= 2;
    return make_view(t.storage_ref(), dtype_of_part(t.dtype()), t.shape(), strides, 2 * t.offset() + which);
}

// A value as text: its real part, and the imaginary one unless it is real.
struct Value {
    std::string re, im;
    bool is_real() const { return im.empty(); }
    std::string imaginary() const { return is_real() ? "(T)0" : im; }
};

// A formula's tree as statements about real numbers.
class Translator {
  public:
    Translator(std::map<std::string, Value> names, DType compute) : names_(std::move(names)), compute_(compute) {}
    const std::string& statements() const { return statements_; }

    std::optional<Value> value(const Expression& e) {
        if (e.type == Expression::Type::Literal) {
            bool whole = e.name.find_first_of(".e") == std::string::npos;
            return Value{whole || compute_ != DType::F32 ? e.name : e.name + "f", ""};
        }
        if (e.type == Expression::Type::Name) {
            if (auto it = names_.find(e.name); it != names_.end()) return it->second;
            if (e.name.starts_with("p.")) return Value{"g." + e.name.substr(2), ""};
            return std::nullopt;
        }
        std::vector<Value> a;
        for (const Expression& argument : e.arguments) {
            std::optional<Value> one = value(argument);
            if (!one) return std::nullopt;
            a.push_back(*one);
        }
        return call(e.name, a);
    }

  private:
    std::string keep(const std::string& text, const char* type = "T") {
        std::string name(1, 'c');
        name += std::to_string(count_++);
        statements_ += std::string("const ") + type + " " + name + " = " + text + "; ";
        return name;
    }
    Value pair(const std::string& re, const std::string& im) { return {keep(re), keep(im)}; }
    Value flag(const std::string& text) { return {keep(text, "int"), ""}; }

    Value times(const Value& x, const Value& y) {
        if (y.is_real())
            return x.is_real() ? Value{keep(x.re + " * " + y.re), ""} : pair(x.re + " * " + y.re, x.im + " * " + y.re);
        if (x.is_real()) return times(y, x);
        return pair(x.re + " * " + y.re + " - " + x.im + " * " + y.im,
                    x.re + " * " + y.im + " + " + x.im + " * " + y.re);
    }
    // Scaled by the larger part, so that squares do not overflow.
    Value over(const Value& x, const Value& y) {
        if (y.is_real())
            return x.is_real() ? Value{keep(x.re + " / " + y.re), ""} : pair(x.re + " / " + y.re, x.im + " / " + y.re);
        std::string wide = keep("fabs(" + y.re + ") >= fabs(" + y.im + ")", "int");
        std::string high = keep(wide + " ? " + y.re + " : " + y.im), low = keep(wide + " ? " + y.im + " : " + y.re);
        std::string ratio = keep(high + " == 0 ? (T)0 : " + low + " / " + high);
        std::string under = keep(high + " + " + low + " * " + ratio), a = x.re, b = x.imaginary();
        return pair(
            "(" + wide + " ? " + a + " + " + b + " * " + ratio + " : " + a + " * " + ratio + " + " + b + ") / " + under,
            "(" + wide + " ? " + b + " - " + a + " * " + ratio + " : " + b + " * " + ratio + " - " + a + ") / " +
                under);
    }
    Value sum(const Value& x, const Value& y, const std::string& sign) {
        std::string re = x.re + sign + y.re;
        if (x.is_real() && y.is_real()) return {keep(re), ""};
        return pair(re, x.imaginary() + sign + y.imaginary());
    }
    Value root(const Value& x) {
        std::string size = keep("hypot(" + x.re + ", " + x.im + ")");
        std::string t = keep("sqrt((fabs(" + x.re + ") + " + size + ") * K(0.5))");
        std::string other = keep(t + " == 0 ? (T)0 : fabs(" + x.im + ") / (" + t + " + " + t + ")");
        return pair(x.re + " < 0 ? " + other + " : " + t,
                    "copysign(" + x.re + " < 0 ? " + t + " : " + other + ", " + x.im + ")");
    }

    std::optional<Value> call(const std::string& name, const std::vector<Value>& a) {
        bool real = true;
        for (const Value& v : a) real &= v.is_real();
        const std::string& x = a[0].re;
        const std::string& i = a[0].im;
        if (name == "where" && a[0].is_real()) {
            std::string begin = "(" + x + ") ? (", re = begin + a[1].re + ") : (" + a[2].re + ")";
            if (a[1].is_real() && a[2].is_real()) return Value{keep(re), ""};
            return pair(re, begin + a[1].imaginary() + ") : (" + a[2].imaginary() + ")");
        }
        if (name == "T") return a[0].is_real() ? Value{keep("(T)(" + x + ")"), ""} : a[0];
        if (name == "add" || (name == "+" && a.size() == 2)) return sum(a[0], a[1], " + ");
        if (name == "sub" || (name == "-" && a.size() == 2)) return sum(a[0], a[1], " - ");
        if (name == "neg" || name == "-") return real ? Value{keep("-" + x), ""} : pair("-" + x, "-" + i);
        if (name == "mul" || name == "*") return times(a[0], a[1]);
        if (name == "/") return over(a[0], a[1]);
        if (name == "==")
            return flag("(" + x + " == " + a[1].re + ") & (" + a[0].imaginary() + " == " + a[1].imaginary() + ")");
        if (name == "!=")
            return flag("(" + x + " != " + a[1].re + ") | (" + a[0].imaginary() + " != " + a[1].imaginary() + ")");
        if (name == "bool" || name == "nonzero") return flag("(" + x + " != 0) | (" + a[0].imaginary() + " != 0)");
        if (real && (name == "&" || name == "|" || name == "&&" || name == "||"))
            return flag("(" + x + ") " + name + " (" + a[1].re + ")");
        if (real && name == "!") return flag("!(" + x + ")");
        if (name == "conj") return real ? a[0] : Value{x, keep("-" + i)};
        if (name == "imag_part") return Value{a[0].imaginary(), ""};
        if (name == "number") return Value{keep("(T)(" + a[1].re + ")"), ""};
        if (name == "isnan") return flag("m_isnan(" + x + ") | m_isnan(" + a[0].imaginary() + ")");
        if (name == "isinf") return flag("m_isinf(" + x + ") | m_isinf(" + a[0].imaginary() + ")");
        if (name == "isfinite") return flag("m_isfinite(" + x + ") & m_isfinite(" + a[0].imaginary() + ")");
        if (real) return std::nullopt;
        if (name == "abs" || name == "modulus") return Value{keep("hypot(" + x + ", " + i + ")"), ""};
        if (name == "angle") return Value{keep("atan2(" + i + ", " + x + ")"), ""};
        if (name == "sgn") {
            std::string size = keep("hypot(" + x + ", " + i + ")");
            return pair(size + " == 0 ? (T)0 : " + x + " / " + size, size + " == 0 ? (T)0 : " + i + " / " + size);
        }
        if (name == "exp") {
            std::string size = keep("exp(" + x + ")");
            return pair(size + " * cos(" + i + ")", size + " * sin(" + i + ")");
        }
        if (name == "log") return pair("log(hypot(" + x + ", " + i + "))", "atan2(" + i + ", " + x + ")");
        if (name == "sqrt") return root(a[0]);
        if (name == "sin") return pair("sin(" + x + ") * cosh(" + i + ")", "cos(" + x + ") * sinh(" + i + ")");
        if (name == "cos") return pair("cos(" + x + ") * cosh(" + i + ")", "-(sin(" + x + ") * sinh(" + i + "))");
        if (name == "sinh") return pair("sinh(" + x + ") * cos(" + i + ")", "cosh(" + x + ") * sin(" + i + ")");
        if (name == "cosh") return pair("cosh(" + x + ") * cos(" + i + ")", "sinh(" + x + ") * sin(" + i + ")");
        return std::nullopt;
    }

    std::map<std::string, Value> names_;
    DType compute_;
    std::string statements_;
    int count_ = 0;
};

}  // namespace

bool run_complex_loop(const Formula& formula, DType common, const Tensor& out, const Tensor* const* in,
                      const Numbers* numbers) {
    if (!uses_kernels()) return false;
    if (out.numel() == 0) return true;
    const DType compute = dtype_of_part(compute_dtype(common));
    std::map<std::string, Value> names;
    std::vector<Tensor> inputs;
    Reals reals;
    unsigned conditions = 0;
    auto input = [&](const Tensor& t) {
        inputs.push_back(t);
        return std::string(1, "xyzuvws"[inputs.size() - 1]);
    };
    auto number = [&](const std::string& name, double value) {
        reals.emplace_back(name, value);
        return "g." + name;
    };
    for (int k = 0; k < formula.inputs; k++) {
        const Tensor& t = *in[k];
        Value& value = names[std::string(1, "xyz"[k])];
        if (formula.conditions >> k & 1) {
            conditions |= 1u << inputs.size();
            value.re = input(t);
        } else if (t.device().type == DeviceType::CPU) {
            const c128 given = item(t).to<c128>();
            std::string own = std::to_string(k);
            value = {number("re" + own, given.real()), number("im" + own, given.imag())};
        } else if (is_complex(t.dtype())) {
            value.re = input(part(t, 0));
            value.im = input(part(t, 1));
        } else {
            value.re = input(t);
        }
    }
    if (numbers) {
        const c128 given = numbers->value.number;
        names["p.value"] = {number("given_re", given.real()), number("given_im", given.imag())};
        number("a", numbers->a);
        number("b", numbers->b);
        number("c", numbers->c);
    }
    Translator translator(std::move(names), compute);
    std::optional<Value> result = translator.value(parse_formula(formula.text));
    if (!result) return false;
    if (is_complex(out.dtype()))
        return run_elements({{part(out, 0), result->re, compute}, {part(out, 1), result->imaginary(), compute}},
                            compute, inputs, reals, translator.statements(), conditions);
    if (!result->is_real()) return false;
    const DType computed = formula.result == formulas::Result::Bool ? DType::Bool : compute;
    return run_elements({{out, result->re, computed}}, compute, inputs, reals, translator.statements(), conditions);
}

bool run_complex_copy(const Tensor& to, const Tensor& from) {
    const DType a = dtype_of_part(from.dtype()), b = dtype_of_part(to.dtype());
    if (!compute_type(a) || !compute_type(b)) return false;
    const DType compute = a == DType::F64 || b == DType::F64 ? DType::F64 : DType::F32;
    if (!is_complex(from.dtype()))
        return run_elements({{part(to, 0), "x", compute}, {part(to, 1), "0", compute}}, compute, {from});
    std::vector<Tensor> parts{part(from, 0), part(from, 1)};
    if (is_complex(to.dtype()))
        return run_elements({{part(to, 0), "x", compute}, {part(to, 1), "y", compute}}, compute, parts);
    if (to.dtype() == DType::Bool) return run_elements({{to, "(x != 0) | (y != 0)", DType::Bool}}, compute, parts);
    parts.pop_back();
    return run_copy(to, parts[0]);
}

bool run_complex_product(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& alpha, const Scalar& beta) {
    const DType d = c.dtype();
    if (!uses_kernels() || (d != DType::C64 && d != DType::C128) || a.dtype() != d || b.dtype() != d ||
        alpha.to<c128>().imag() != 0 || beta.to<c128>().imag() != 0)
        return false;
    const Scalar by(alpha.to<c128>().real()), less(-by.re), old(beta.to<c128>().real()), one(1.0);
    return run_product(part(c, 0), part(a, 0), part(b, 0), by, old) &&
           run_product(part(c, 0), part(a, 1), part(b, 1), less, one) &&
           run_product(part(c, 1), part(a, 0), part(b, 1), by, old) &&
           run_product(part(c, 1), part(a, 1), part(b, 0), by, one);
}

}  // namespace fb::gpu
