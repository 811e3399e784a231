// Kernels that move elements by whole runs.
#pragma once
#include "ops/table/common.h"

namespace fb::cpu {

// `to` and `from` have one shape and dtype and do not overlap. As copy(), but quick for runs that go backwards.
void copy_flipped(const Tensor& to, const Tensor& from);
// to = from repeated along every dimension; both contiguous, of the same number of dimensions.
void repeat_into(const Tensor& to, const Tensor& from, const Dims& repeats);
// Every block of `block` elements of a contiguous `from` written `times` times in a row.
void interleave(const Tensor& to, const Tensor& from, int64_t block, int64_t times);
// Contiguous matrices (batch, rows, columns): keeps what lies on the wanted side of a diagonal, zeros elsewhere. to may
// be from.
void keep_triangle(const Tensor& to, const Tensor& from, int64_t diagonal, bool upper);
// Large copies of contiguous bytes on all threads.
void copy_bytes(char* to, const char* from, int64_t bytes);

// Pieces of bytes, each to be copied `count` times with its own steps: to + i * to_step ← from + i * from_step.
struct Piece {
    char* to;
    const char* from;
    int64_t bytes, to_step, from_step;
};
void copy_pieces(const std::vector<Piece>& pieces, int64_t count);

}  // namespace fb::cpu
