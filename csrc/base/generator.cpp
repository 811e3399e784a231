#include "base/generator.h"

#include <random>

#include "base/entropy.h"

namespace fb {

uint64_t seed_from_entropy() {
    std::random_device device;
    return (static_cast<uint64_t>(device()) << 32 | device()) >> 11;
}

Ref<Generator> default_generator() {
    static Ref<Generator>* generator = new Ref<Generator>(new Generator(seed_from_entropy()));  // never destroyed
    return *generator;
}

}  // namespace fb
