// einsum's gradient: for each operand, einsum of the result's gradient with all the other operands.
#include <map>
#include <string>

#include "ops/table/gradient.h"

namespace fb {
namespace {

// The equation with a letter for every dimension, those of an ellipsis included.
struct Equation {
    std::vector<std::string> terms;
    std::string result;
};

bool holds(const std::string& text, char letter) { return text.find(letter) != std::string::npos; }

Equation spell_out(const GradCall& c) {
    std::string text;
    for (char ch : c.text(0)) {
        if (ch != ' ') text += ch;
    }
    // Letters for the dimensions of an ellipsis, the last one first.
    std::string spare;
    for (char ch = 'a'; ch <= 'z'; ch++) {
        if (!holds(text, ch)) spare += ch;
    }
    for (char ch = 'A'; ch <= 'Z'; ch++) {
        if (!holds(text, ch)) spare += ch;
    }
    int64_t widest = 0;
    auto fill_in = [&](std::string term, int64_t hidden) {
        size_t at = term.find("...");
        if (at == std::string::npos) return term;
        check(hidden <= static_cast<int64_t>(spare.size()), "the gradient needs a letter for each of ", hidden,
              " dimensions of the ellipsis, but only ", spare.size(), " are left; use fewer dimensions");
        std::string letters(spare.begin(), spare.begin() + hidden);
        return term.replace(at, 3, std::string(letters.rbegin(), letters.rend()));
    };

    Equation equation;
    size_t arrow = text.find("->");
    std::string inputs = text.substr(0, arrow);
    std::map<char, int> times;
    for (size_t start = 0; start <= inputs.size();) {
        size_t end = std::min(inputs.find(',', start), inputs.size());
        std::string term = inputs.substr(start, end - start);
        int64_t hidden = 0;
        if (holds(term, '.')) {
            hidden = c.dim(1, static_cast<int>(equation.terms.size())) - (static_cast<int64_t>(term.size()) - 3);
            widest = std::max(widest, hidden);
        }
        for (char ch : term) {
            if (ch != '.') times[ch]++;
        }
        equation.terms.push_back(fill_in(term, hidden));
        start = end + 1;
    }
    if (arrow != std::string::npos) {
        equation.result = fill_in(text.substr(arrow + 2), widest);
        return equation;
    }
    equation.result = fill_in("...", widest);
    for (auto [letter, count] : times) {
        if (count == 1) equation.result += letter;
    }
    return equation;
}

Var operand_gradient(const GradCall& c, const Equation& equation, int k) {
    const std::string& term = equation.terms[static_cast<size_t>(k)];
    const Dims& shape = c.shape(1, k);
    std::string product = equation.result, known = equation.result;
    std::vector<Var> factors{c.g()};
    for (int other = 0; other < c.count(1); other++) {
        if (other == k) continue;
        const std::string& text = equation.terms[static_cast<size_t>(other)];
        product += "," + text;
        known += text;
        factors.push_back(conj(c.in(1, other)));
    }
    // Each letter of the operand once. A dimension of size 1 was broadcast, so its gradient is summed; a letter of no
    // other operand was summed, so its gradient is broadcast.
    std::string letters, kept;
    Dims once;
    for (size_t d = 0; d < term.size(); d++) {
        if (holds(letters, term[d])) continue;
        letters += term[d];
        once.push_back(shape[static_cast<int64_t>(d)]);
        if (once.back() != 1 && holds(known, term[d])) kept += term[d];
    }
    Var gradient = call<"einsum">(product + "->" + kept, factors);
    Dims spread;
    for (char letter : letters) {
        size_t at = kept.find(letter);
        spread.push_back(at == std::string::npos ? 1 : gradient.shape()[static_cast<int64_t>(at)]);
    }
    gradient = expand(reshape(gradient, spread), once);
    if (letters == term) return gradient;
    // A repeated letter stands for a diagonal.
    for (size_t d = 0; d < term.size(); d++) {
        if (!holds(term.substr(0, d), term[d])) continue;
        size_t at = letters.find(term[d]);
        gradient = movedim(gradient, Dims{static_cast<int64_t>(at)}, Dims{-1});
        gradient = call<"diag_embed">(gradient, 0, -2, -1);
        letters.erase(at, 1);
        letters += std::string(2, term[d]);
    }
    Dims order;
    for (char letter : term) {
        size_t at = letters.find(letter);
        order.push_back(static_cast<int64_t>(at));
        letters[at] = '.';
    }
    return permute(gradient, order);
}

}  // namespace

GRAD("einsum", IN(1)) {
    Equation equation = spell_out(c);
    for (int k = 0; k < c.count(1); k++) {
        if (c.needs(1, k)) c.set(1, k, operand_gradient(c, equation, k));
    }
}

}  // namespace fb
