// Programs for accelerators: kernels as text that is portable between the dialects.
//
// Note [Kernel text]: the vocabulary of kernel bodies.
// A body is the inside of a function that runs once for each item. Items come in groups of `size`. It may use
//   - its pointers, by the names they were declared with, and the parameters as members of `g`, of type Params;
//   - GID, LID, GROUP (numbers of type i64) and SIZE: the index of the item among all and in its group, the index of
//     the group, and the number of items in a group;
//   - SHARED f32 tile[64]; at the top of the body: memory of the group. BARRIER; waits for the whole group, and every
//   item
//     of a group has to come by the same ones: no `return` before a barrier;
//   - FAIL(code, index): an error of the launch. The item goes on, so do nothing wrong afterwards: clamp, or return;
//   - CAS_U32(p, old, new), ADD_U32(p, x), CAS_U64, ADD_U64: atomic, on GLOBAL memory; they give the old value.
//     SHARED_ADD_U32(p, x) is for SHARED memory. Those with 64 bits are there where HAS_ATOMIC64 is defined; f64 where
//     HAS_F64 is.
// BARRIER, FAIL and the numbers of items are words of bodies only: functions get what they need as arguments. Functions
// begin with FN; pointers in their arguments carry GLOBAL or LOCAL, or neither where they lead to an item's own
// numbers.
//
//   - UNROLL in front of a short loop, PARALLEL in front of one whose turns may run side by side;
//   - `ix`, the type of indices, and `px`, its form among the parameters;
//   - v16 and v8d, sixteen f32 and eight f64, with v16_load(p), v16_store(p, v), v16_of(x), v16_fma(a, b, c)
//     and v16_sum(v): for processors, whose compilers keep them in registers.
// The text is C that OpenCL C 1.2, CUDA C++ and C++17 all compile: no templates, references, overloads or other vector
// types; the types are i8 … u64, f32 and f64, without `long`, `double` or `bool`. Mathematical functions have the names
// without a type suffix (exp, not expf), for both types.
#pragma once
#include <string>
#include <vector>

namespace fb::gpu {

struct KernelText {
    std::string name;
    std::vector<std::string> pointers;  // "GLOBAL f32* out": at most most_pointers
    std::string body;
    int size = 128;
    bool whole = true;  // false: items from g.items on are skipped
};
inline constexpr size_t most_pointers = 32;

struct Program {
    std::string text;  // functions, and the type Params
    std::vector<KernelText> kernels;
    bool fuses = false;  // a * b + c may be rounded once
};

enum class Dialect { Cpp, OpenCL, Cuda };
// The complete source for a compiler of the dialect.
std::string assemble(const Program& program, Dialect dialect);

}  // namespace fb::gpu
