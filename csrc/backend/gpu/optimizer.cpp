// Optimizer steps: one kernel per parameter, which reads and writes each tensor once.
#include "backend/gpu/elements.h"
#include "backend/gpu/families.h"

namespace fb::gpu {
namespace {

using namespace device;

// Runs the statements for every row. Columns are p (x), g (y) and the state (z, u, v); the first `written` of them
// change: the statements assign variables of these names.
bool each(const OptimizerRows& rows, int columns, const std::string& written, Reals reals,
          const std::string& statements) {
    for (const OptimizerRow& row : rows) {
        DType d = row.columns[0].dtype();
        if (!uses_kernels() || row.columns[0].device().type == DeviceType::CPU) return false;
        Work work(row.columns[0].device());
        work.compute(d);
        static constexpr const char* names[] = {"p", "g", "a", "b", "c"};
        std::string loads, stores;
        for (int k = 0; k < columns; k++) {
            work.tensor(std::string("at_") + names[k], row.columns[k]);
            loads += std::string("    ") + (k == 1 ? "const T g_ = " : std::string("T ") + names[k] + " = ") +
                     "LOAD_at_" + names[k] + "(item);\n";
            if (written.find(*names[k]) != std::string::npos)
                stores += std::string("    STORE_at_") + names[k] + "(item, " + names[k] + ");\n";
        }
        for (const auto& [name, number] : reals) work.real(name, number);
        work.real("rate", row.rate).real("grad_rate", row.grad_rate).real("root", row.root).real("row_eps", row.eps);
        if (!work.run(loads + "    T d = (T)g.sign * g_ + (T)g.decay * p;\n" + statements + stores, row.numel))
            return false;
    }
    return true;
}

}  // namespace

bool run_sgd(const OptimizerRows& rows, const SgdStep& s) {
    std::string text;
    if (s.averaging) {
        text += s.first ? "    a = d;\n" : "    a = g.momentum * a + g.keep * d;\n";
        text += s.nesterov ? "    d = d + g.momentum * a;\n" : "    d = a;\n";
    }
    return each(
        rows, s.averaging ? 3 : 2, s.averaging ? "pa" : "p",
        {{"sign", s.sign}, {"decay", s.decay}, {"momentum", s.momentum}, {"keep", 1 - s.dampening}, {"lr", s.lr}},
        text + "    p -= g.lr * d;\n");
}

bool run_rmsprop(const OptimizerRows& rows, const RmspropStep& s) {
    std::string buffer = s.centered ? "c" : "b", text = "    a = g.alpha * a + g.rest * d * d;\n    T v = a;\n";
    if (s.centered) text += "    b = b + g.rest * (d - b);\n    v = v - b * b;\n";
    text += "    d = d / (sqrt(v) + g.eps);\n";
    if (s.averaging) text += "    d = g.momentum * " + buffer + " + d;\n    " + buffer + " = d;\n";
    return each(rows, 3 + s.centered + s.averaging,
                std::string("pa") + (s.centered ? "b" : "") + (s.averaging ? buffer : ""),
                {{"sign", s.sign},
                 {"decay", s.decay},
                 {"alpha", s.alpha},
                 {"rest", 1 - s.alpha},
                 {"eps", s.eps},
                 {"momentum", s.momentum},
                 {"lr", s.lr}},
                text + "    p -= g.lr * d;\n");
}

bool run_adagrad(const OptimizerRows& rows, const AdagradStep& s) {
    return each(rows, 3, "pa", {{"sign", s.sign}, {"decay", s.decay}, {"eps", s.eps}},
                "    a += d * d;\n    p -= g.rate * (d / (sqrt(a) + g.eps));\n");
}

bool run_adadelta(const OptimizerRows& rows, const AdadeltaStep& s) {
    return each(
        rows, 4, "pab",
        {{"sign", s.sign}, {"decay", s.decay}, {"rho", s.rho}, {"rest", 1 - s.rho}, {"eps", s.eps}, {"lr", s.lr}},
        "    a = g.rho * a + g.rest * d * d;\n    const T change = sqrt(b + g.eps) / sqrt(a + g.eps) * d;\n    b = "
        "g.rho * b + g.rest * change * change;\n    p -= g.lr * change;\n");
}

bool run_adam(const OptimizerRows& rows, const AdamStep& s) {
    std::string text = "    a = a + g.w1 * (d - a);\n    b = g.beta2 * b + g.w2 * d * d;\n    T v = b;\n";
    // NaN is kept.
    if (s.amsgrad) text += "    v = v > c || v != v ? v : c;\n    c = v;\n";
    text += "    T way = g.rate * a;\n";
    if (s.with_gradient) text += "    way += g.grad_rate * d;\n";
    text += "    p = p * g.shrink - way / (g.root == 0 ? g.row_eps : sqrt(v) * g.root + g.row_eps);\n";
    return each(rows, s.amsgrad ? 5 : 4, s.amsgrad ? "pabc" : "pab",
                {{"sign", s.sign},
                 {"decay", s.decay},
                 {"shrink", s.shrink},
                 {"w1", 1 - s.beta1},
                 {"beta2", s.beta2},
                 {"w2", 1 - s.beta2}},
                text);
}

bool run_adamax(const OptimizerRows& rows, const AdamaxStep& s) {
    return each(rows, 4, "pab",
                {{"sign", s.sign}, {"decay", s.decay}, {"w1", 1 - s.beta1}, {"beta2", s.beta2}, {"eps", s.eps}},
                "    a = a + g.w1 * (d - a);\n    const T old = b * g.beta2, now = fabs(d) + g.eps;\n    b = old > now "
                "|| old != "
                "old ? old : now;\n    p -= g.rate * (a / b);\n");
}

}  // namespace fb::gpu
