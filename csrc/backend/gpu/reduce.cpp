// Reductions: one item of the kernel makes one element of the result.
#include <algorithm>
#include <numeric>

#include "backend/gpu/driver.h"
#include "backend/gpu/families.h"
#include "backend/gpu/source.h"

namespace fb::gpu {
namespace {

using device::Reduction;
constexpr int most_dims = 12;

struct Arguments {
    int64_t pointers = 2;
    char* data[2] = {};
    int64_t ndim = 0, shape[most_dims] = {},
            strides[2][most_dims] = {};                               // of the result, which it shares with the input
    int64_t inner = 0, sizes[most_dims] = {}, steps[most_dims] = {};  // of what is reduced
    double count = 0;
};
constexpr const char* declaration = R"(
struct Arguments {
    i64 pointers; char* data[2]; i64 ndim, shape[12], strides[2][12]; i64 inner, sizes[12], steps[12]; double count;
};
)";

// How the elements x are taken together: the accumulator's start, one step, and the result.
struct Rule {
    const char *start, *step, *finish;
};
const Rule* rule_of(Reduction how) {
    static constexpr Rule sum{"0", "acc = (A)(acc + (A)x)", "acc"},
        nansum{"0", "acc = m_isnan(x) ? acc : (A)(acc + (A)x)", "acc"}, mean{"0", "acc += (A)x", "acc / g.count"},
        product{"1", "acc = m_mul(acc, (A)x)", "acc"}, largest{"(A)x", "acc = m_max(acc, (A)x)", "acc"},
        smallest{"(A)x", "acc = m_min(acc, (A)x)", "acc"}, any{"0", "acc = acc != 0 || x != 0", "acc"},
        all{"1", "acc = acc != 0 && x != 0", "acc"}, count{"0", "acc += x != 0", "acc"};
    switch (how) {
        case Reduction::Sum:
            return &sum;
        case Reduction::NanSum:
            return &nansum;
        case Reduction::Mean:
            return &mean;
        case Reduction::Product:
            return &product;
        case Reduction::Largest:
            return &largest;
        case Reduction::Smallest:
            return &smallest;
        case Reduction::Any:
            return &any;
        case Reduction::All:
            return &all;
        case Reduction::Count:
            return &count;
        default:
            return nullptr;
    }
}

std::string kernel_text(const Rule& rule, DType read, DType in, DType out, bool extreme) {
    // Long sums of floats are taken in double.
    bool floats = is_floating(read);
    const char* accumulator = extreme ? compute_type(read) : floats ? "double" : "int64_t";
    std::string text = std::string(prelude()) + declaration;
    text += std::string("typedef ") + compute_type(read) + " T;\ntypedef " + accumulator + " A;\n";
    text += std::string("inline T element(const char* at) { return load<T, ") + stored_type(in) + ">(at); }\n";
    text += R"(
KERNEL {
    const Arguments& g = *(const Arguments*)arguments;
    i64 items = 1;
    for (int d = 0; d < g.inner; d++) items *= g.sizes[d];
    const i64 run = g.inner ? g.sizes[0] : 1, step = g.inner ? g.steps[0] : 0;
    for (i64 i = begin; i < end; i++) {
        char* to = g.data[0];
        const char* from = g.data[1];
        i64 rest = i;
        for (int d = 0; d < g.ndim; d++) {
            i64 place = rest % g.shape[d];
            rest /= g.shape[d];
            to += place * g.strides[0][d];
            from += place * g.strides[1][d];
        }
)";
    text += extreme ? "        T x = element(from);\n" : "        T x;\n";
    text += std::string("        A acc = ") + rule.start + ";\n";
    text += R"(        for (i64 n = 0; n < items; n += run) {
            const char* at = from;
            i64 left = n / run;
            for (int d = 1; d < g.inner; d++) {
                at += left % g.sizes[d] * g.steps[d];
                left /= g.sizes[d];
            }
            for (i64 k = 0; k < run; k++, at += step) {
                x = element(at);
                )";
    text += std::string(rule.step) + ";\n            }\n        }\n        store<" + stored_type(out) + ">(to, " +
            rule.finish + ");\n    }\n}\n";
    return text;
}

}  // namespace

bool run_reduction(Reduction how, DType read, const Tensor& in, const Dims& reduced, const Tensor* outs,
                   const double* numbers) {
    const Rule* rule = rule_of(how);
    const Tensor& out = outs[0];
    if (!uses_kernels() || !rule || !out || out.device() != in.device()) return false;
    bool truth = how == Reduction::Any || how == Reduction::All || how == Reduction::Count;
    bool extreme = how == Reduction::Largest || how == Reduction::Smallest;
    if (is_floating(read) && !is_floating(out.dtype()) && !truth) return false;
    if (!stored_type(in.dtype()) || !stored_type(out.dtype()) || !converts(in.dtype(), read)) return false;
    if (how == Reduction::Mean && !is_floating(read)) return false;
    Arguments g;
    std::vector<int64_t> inner;
    bool keeps = out.dim() == in.dim();
    int64_t at = 0;
    for (int64_t d = 0; d < in.dim(); d++) {
        int64_t own = keeps ? d : at;
        if (reduced[d]) {
            if (in.shape()[d] != 1) inner.push_back(d);
            continue;
        }
        at++;
        if (in.shape()[d] == 1) continue;
        if (g.ndim == most_dims) return false;
        g.shape[g.ndim] = in.shape()[d];
        g.strides[0][g.ndim] = out.strides()[own] * out.itemsize();
        g.strides[1][g.ndim++] = in.strides()[d] * in.itemsize();
    }
    if (inner.size() > most_dims) return false;
    // The elements that are next to each other first.
    std::stable_sort(inner.begin(), inner.end(),
                     [&](int64_t a, int64_t b) { return std::abs(in.strides()[a]) < std::abs(in.strides()[b]); });
    for (int64_t d : inner) {
        g.sizes[g.inner] = in.shape()[d];
        g.steps[g.inner++] = in.strides()[d] * in.itemsize();
    }
    if (out.numel() == 0) return true;
    if (extreme && in.numel() == 0) return false;
    Driver& d = driver(in.device());
    const Kernel* kernel = d.build(kernel_text(*rule, read, in.dtype(), out.dtype(), extreme));
    if (!kernel) return false;
    g.data[0] = out.raw();
    g.data[1] = in.raw();
    if (how == Reduction::Mean) g.count = numbers[0];
    count_kernel();
    d.launch(current_stream(in.device()), kernel, &g, sizeof g, out.numel());
    return true;
}

}  // namespace fb::gpu
