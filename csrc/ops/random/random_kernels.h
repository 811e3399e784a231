// Shared by the random fills: contiguous targets, and distributions that are a function of one uniform number.
#pragma once
#include "backend/cpu/loops.h"
#include "backend/cpu/philox.h"
#include "ops/random/random.h"

namespace fb {

// Runs f on a contiguous tensor and brings the numbers to `t` if that is not `t` itself.
template <class F>
Tensor random_fill(const Tensor& t, F&& f) {
    t.will_write();
    check(!may_overlap_itself(t),
          "the tensor written to refers to one memory location more than once (an expanded view?); clone() it first");
    if (t.numel() == 0) return t;
    if (t.is_contiguous()) {
        f(t);
        return t;
    }
    Tensor flat = empty(t.shape(), t.dtype(), t.device());
    f(flat);
    cpu::copy(t, flat);
    return t;
}

// x = f(u) with u uniform in (0, 1): 23 bits for float, 52 for double; half types compute in float, integers in double.
template <class F>
Tensor fill_from_uniform(const Tensor& t, Generator& generator, F f) {
    DType compute = is_half(t.dtype()) ? DType::F32 : is_floating(t.dtype()) ? t.dtype() : DType::F64;
    return random_fill(t, [&](const Tensor& target) {
        Tensor flat = target.dtype() == compute ? target : empty(target.shape(), compute, target.device());
        bool wide = compute == DType::F64;
        auto [seed, first] = generator.draw(cpu::philox_counters(flat.numel(), wide ? 2 : 1));
        if (wide) {
            cpu::philox_fill<2>(flat.data<double>(), flat.numel(), seed, first,
                                [=](const uint32_t* __restrict words, double* __restrict at) {
                                    for (int i = 0; i < 32; i++) {
                                        uint64_t bits = uint64_t(words[i]) << 32 | words[32 + i];
                                        at[i] =
                                            f((static_cast<double>(static_cast<int64_t>(bits >> 12)) + 0.5) * 0x1p-52);
                                    }
                                });
        } else {
            cpu::philox_fill<1>(
                flat.data<float>(), flat.numel(), seed, first,
                [=](const uint32_t* __restrict words, float* __restrict at) {
                    for (int i = 0; i < 64; i++)
                        at[i] = f((static_cast<float>(static_cast<int32_t>(words[i] >> 9)) + 0.5f) * 0x1p-23f);
                });
        }
        if (!flat.is_same(target)) cpu::copy(target, flat);
    });
}

}  // namespace fb
