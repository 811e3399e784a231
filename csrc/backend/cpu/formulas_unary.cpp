// The rows of unary.def.
#include "backend/cpu/formula.h"
#include "backend/cpu/words.h"

namespace fb::cpu {
namespace {

using namespace fb::m;
using enum formulas::Domain;

#define UNARY(name, domain, result, cost, text, ...) \
    struct Row_##name {                              \
        template <class T>                           \
        static auto f(T x) {                         \
            return text;                             \
        }                                            \
    };                                               \
    const Compiled compiled_##name(formulas::name, unary_kernels<Row_##name, domain>());
#include "device/formulas/unary.def"
#undef UNARY

}  // namespace
}  // namespace fb::cpu
