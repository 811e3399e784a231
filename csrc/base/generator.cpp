#include "base/generator.h"

namespace fb {

Ref<Generator> default_generator() {
    static Ref<Generator>* generator = new Ref<Generator>(new Generator);  // outlives every user
    return *generator;
}

}  // namespace fb
