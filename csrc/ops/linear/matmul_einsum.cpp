// einsum: operands are contracted left to right; each pair becomes one batched matrix product on views where strides
// allow.
#include <map>

#include "ops/linear/matmul.h"

namespace fb {
namespace {

// A label is a letter, or a number from 52 on for the dims of an ellipsis (counted from the last).
constexpr int ellipsis_label = 52;
using Labels = std::vector<int>;

int letter(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    fail_value("invalid subscript '", c, "' in the equation; subscripts must be letters a-z or A-Z");
}
char letter_name(int label) { return static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26); }

struct Term {
    std::string text;
    Labels before, after;  // around the ellipsis
    bool ellipsis = false;
};

Term parse_term(const std::string& text) {
    Term term;
    term.text = text;
    for (size_t i = 0; i < text.size(); i++) {
        if (text[i] == ' ') continue;
        if (text[i] == '.') {
            check(text.compare(i, 3, "...") == 0, "einsum(): found '.' that is not part of any ellipsis '...' in \"",
                  text, "\"");
            check(!term.ellipsis, "found more than one ellipsis in \"", text, "\"");
            term.ellipsis = true;
            i += 2;
        } else {
            (term.ellipsis ? term.after : term.before).push_back(letter(text[i]));
        }
    }
    return term;
}

struct Operand {
    Tensor tensor;
    Labels labels;
    int64_t find(int label) const {
        auto at = std::find(labels.begin(), labels.end(), label);
        return at == labels.end() ? -1 : at - labels.begin();
    }
};

// Labels one operand's dims; repeated labels become a diagonal.
Operand label_operand(const Term& term, const Tensor& t, size_t index) {
    int64_t named = static_cast<int64_t>(term.before.size() + term.after.size());
    if (term.ellipsis) {
        check(t.dim() >= named, "operand ", index, " of shape ", t.shape(), " has fewer dimensions than the ", named,
              " subscripts of \"", term.text, "\"");
    } else {
        check(t.dim() == named, "the number of subscripts in \"", term.text, "\" (", named, ") does not match the ",
              t.dim(), " dimensions of operand ", index, ", whose shape is ", t.shape());
    }
    Labels all = term.before;
    for (int64_t i = t.dim() - named; i > 0; i--) all.push_back(ellipsis_label + static_cast<int>(i) - 1);
    all.insert(all.end(), term.after.begin(), term.after.end());
    Operand result;
    Dims shape, strides;
    for (size_t d = 0; d < all.size(); d++) {
        int64_t seen = result.find(all[d]);
        if (seen < 0) {
            result.labels.push_back(all[d]);
            shape.push_back(t.shape()[d]);
            strides.push_back(t.strides()[d]);
            continue;
        }
        check(shape[seen] == t.shape()[d], "subscript '", letter_name(all[d]), "' is repeated for operand ", index,
              " but the sizes ", shape[seen], " and ", t.shape()[d], " differ");
        strides[seen] += strides.empty() ? 0 : t.strides()[d];
    }
    result.tensor = view_of(t, shape, strides, t.offset());
    return result;
}

// Sums over dims by a product with ones, which keeps one summation order for every layout.
void sum_out(Operand& x, const std::vector<char>& keep) {
    Dims order, kept_shape;
    Labels labels;
    int64_t kept = 1, summed = 1;
    for (size_t d = 0; d < x.labels.size(); d++) {
        if (!keep[x.labels[d]]) continue;
        order.push_back(d);
        labels.push_back(x.labels[d]);
        kept_shape.push_back(x.tensor.shape()[d]);
        kept *= x.tensor.shape()[d];
    }
    if (labels.size() == x.labels.size()) return;
    for (size_t d = 0; d < x.labels.size(); d++) {
        if (keep[x.labels[d]]) continue;
        order.push_back(d);
        summed *= x.tensor.shape()[d];
    }
    DType dtype = x.tensor.dtype();
    Tensor total = empty({kept, 1}, dtype, x.tensor.device());
    gemm(total, reshape(permute(x.tensor, order), {kept, summed}),
         full({summed, 1}, Scalar(1), dtype, x.tensor.device()));
    x.tensor = view(total, kept_shape);
    x.labels = labels;
}

struct Groups {
    Labels batch, left, right, inner;
};

Dims positions(const Operand& x, std::initializer_list<const Labels*> groups) {
    Dims order;
    for (const Labels* group : groups) {
        for (int label : *group) order.push_back(x.find(label));
    }
    return order;
}

// Moves the groups after the batch and merges each into one dim.
Tensor as_matrix(const Operand& x, const Labels& batch, const Labels& rows, const Labels& cols) {
    Tensor t = permute(x.tensor, positions(x, {&batch, &rows, &cols}));
    Dims shape = leading(t, static_cast<int64_t>(rows.size() + cols.size()));
    int64_t d = shape.size(), m = 1, n = 1;
    for (size_t i = 0; i < rows.size(); i++) m *= t.shape()[d++];
    for (size_t i = 0; i < cols.size(); i++) n *= t.shape()[d++];
    shape.push_back(m);
    shape.push_back(n);
    return reshape(t, shape);
}

Operand contract(Operand x, Operand y, const std::vector<char>& keep, const std::map<int, int64_t>& sizes) {
    // A dim of size one that broadcasts is no dim of this operand.
    for (Operand* o : {&x, &y}) {
        for (int64_t d = static_cast<int64_t>(o->labels.size()) - 1; d >= 0; d--) {
            if (o->tensor.shape()[d] == 1 && sizes.at(o->labels[d]) != 1 && (o == &x ? y : x).find(o->labels[d]) >= 0) {
                o->tensor = squeeze(o->tensor, d);
                o->labels.erase(o->labels.begin() + d);
            }
        }
    }
    Groups g;
    std::vector<char> keep_x = keep, keep_y = keep;
    for (int label : x.labels) {
        bool shared = y.find(label) >= 0;
        if (shared) keep_x[label] = keep_y[label] = 1;
        if (shared) (keep[label] ? g.batch : g.inner).push_back(label);
        else if (keep[label]) g.left.push_back(label);
    }
    for (int label : y.labels) {
        if (x.find(label) < 0 && keep[label]) g.right.push_back(label);
    }
    sum_out(x, keep_x);
    sum_out(y, keep_y);
    Operand result;
    for (const Labels* group : {&g.batch, &g.left, &g.right})
        result.labels.insert(result.labels.end(), group->begin(), group->end());
    Dims shape, batch;
    for (int label : g.batch) batch.push_back(x.tensor.shape()[x.find(label)]);
    shape = batch;
    for (int label : g.left) shape.push_back(x.tensor.shape()[x.find(label)]);
    for (int label : g.right) shape.push_back(y.tensor.shape()[y.find(label)]);
    DType dtype = x.tensor.dtype();
    if (g.batch.empty() && g.left.empty() && g.right.empty()) {
        result.tensor = empty({}, dtype, x.tensor.device());
        Tensor a = permute(x.tensor, positions(x, {&g.inner})), b = permute(y.tensor, positions(y, {&g.inner}));
        device::multiplying(result.tensor).dot(result.tensor, reshape(a, {-1}), reshape(b, {-1}), false);
        return result;
    }
    if (g.inner.empty()) {
        Tensor left = permute(x.tensor, positions(x, {&g.batch, &g.left})),
               right = permute(y.tensor, positions(y, {&g.batch, &g.right}));
        for (size_t i = 0; i < g.right.size(); i++) left = unsqueeze(left, left.dim());
        for (size_t i = 0; i < g.left.size(); i++) right = unsqueeze(right, static_cast<int64_t>(g.batch.size()));
        result.tensor = empty(shape, dtype, x.tensor.device());
        device::multiplying(result.tensor).multiply(result.tensor, left, right);
        return result;
    }
    Tensor a = as_matrix(x, g.batch, g.left, g.inner), b = as_matrix(y, g.batch, g.inner, g.right);
    Dims full_shape = batch;
    full_shape.push_back(a.shape()[a.dim() - 2]);
    full_shape.push_back(b.shape().back());
    Tensor product = empty(full_shape, dtype, a.device());
    gemm(product, a, b);
    result.tensor = view(product, shape);
    return result;
}

std::vector<std::string> split_terms(const std::string& text) {
    std::vector<std::string> terms(1);
    for (char c : text) {
        if (c == ',') terms.emplace_back();
        else terms.back() += c;
    }
    return terms;
}

}  // namespace

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands) {
    check(!operands.empty(), "einsum(): must specify the equation string and at least one operand");
    size_t arrow = equation.find("->");
    std::vector<std::string> texts = split_terms(equation.substr(0, arrow));
    check(texts.size() == operands.size(), "the equation \"", equation, "\" has ", texts.size(), " terms but ",
          operands.size(), " operands were given");
    std::vector<Operand> work;
    std::map<int, int64_t> sizes, counts;
    int ellipsis_dims = 0;
    for (size_t i = 0; i < operands.size(); i++) {
        check_same_dtype(operands[0], operands[i]);
        Term term = parse_term(texts[i]);
        work.push_back(label_operand(term, operands[i], i));
        for (int label : term.before) counts[label]++;
        for (int label : term.after) counts[label]++;
        const Operand& x = work.back();
        for (size_t d = 0; d < x.labels.size(); d++) {
            int label = x.labels[d];
            int64_t size = x.tensor.shape()[d];
            if (label >= ellipsis_label) ellipsis_dims = std::max(ellipsis_dims, label - ellipsis_label + 1);
            auto [at, fresh] = sizes.emplace(label, size);
            if (fresh || at->second == size || size == 1) continue;
            check(at->second == 1,
                  label < ellipsis_label ? std::string("subscript '") + letter_name(label) + "'"
                                         : std::string("an ellipsis dimension"),
                  " has size ", size, " for operand ", i, ", which does not broadcast with the size ", at->second,
                  " seen before");
            at->second = size;
        }
    }
    Labels out;
    if (arrow == std::string::npos) {
        for (int d = ellipsis_dims; d > 0; d--) out.push_back(ellipsis_label + d - 1);
        for (auto [label, count] : counts) {
            if (count == 1) out.push_back(label);
        }
    } else {
        Term term = parse_term(equation.substr(arrow + 2));
        out = term.before;
        for (int d = ellipsis_dims; d > 0 && term.ellipsis; d--) out.push_back(ellipsis_label + d - 1);
        out.insert(out.end(), term.after.begin(), term.after.end());
        for (size_t i = 0; i < out.size(); i++) {
            check(sizes.count(out[i]), "output subscript '", letter_name(out[i]), "' does not appear in any operand");
            check(std::find(out.begin(), out.begin() + i, out[i]) == out.begin() + i, "output subscript '",
                  letter_name(out[i]), "' appears more than once");
        }
    }
    std::vector<char> wanted(ellipsis_label + max_dims + 1, 0);
    for (int label : out) wanted[label] = 1;
    // A letter of only one operand that is missing in the output is a plain sum: of integers in int64, as in sum().
    bool sums = false;
    for (const auto& entry : sizes) {
        int label = entry.first, holders = 0;
        for (Operand& x : work) holders += x.find(label) >= 0;
        sums |= holders == 1 && !wanted[label];
    }
    if (sums && is_integral_or_bool(operands[0].dtype())) {
        for (Operand& x : work) x.tensor = to_dtype(x.tensor, DType::I64);
    }
    Operand total = work[0];
    for (size_t i = 1; i < work.size(); i++) {
        std::vector<char> keep = wanted;
        for (size_t later = i + 1; later < work.size(); later++) {
            for (int label : work[later].labels) keep[label] = 1;
        }
        total = contract(std::move(total), work[i], keep, sizes);
    }
    sum_out(total, wanted);
    Dims order;
    for (int label : out) {
        int64_t at = total.find(label);
        check(at >= 0, "a label was lost");
        order.push_back(at);
    }
    return permute(total.tensor, order);
}

OP("einsum(str equation, *Tensor[] operands) -> Tensor", FUNCTION,
   R"(Sums of products of elements in Einstein notation.

Each operand's dimensions get letters; what carries the same letter is multiplied together, and letters that are missing in
the output are summed over. ``...`` stands for any dimensions, which broadcast. Instead of an equation, each operand may be
followed by a list of numbers (0 to 51) and ``Ellipsis``, with the output's list at the end.

Args:
    equation: like ``"ij,jk->ik"``; without ``->`` the output has the letters that occur once, in alphabetical order.
    operands: the tensors.

Example:
    >>> fb.einsum("ij,j->i", fb.tensor([[1, 2], [3, 4]]), fb.tensor([1, 10]))
    tensor([21, 43])
    >>> fb.einsum("ii", fb.tensor([[1, 2], [3, 4]]))
    tensor(5)
)") {
    return einsum(a.text(0), a.tensors(1));
}

}  // namespace fb
