// Register-blocked products on processors: blocks of a result as vectors in registers, from panels that are read
// sequentially.
#pragma once
#include <string>

#include "backend/gpu/work.h"

namespace fb::gpu {

// A block of `height` rows by `vectors` vectors of `lanes` elements.
struct BlockShape {
    int64_t height, vectors, lanes;
    int64_t width() const { return vectors * lanes; }
    const char* vector() const { return lanes == 8 ? "v8d" : "v16"; }
    void define(Work& work) const { work.define("R", height).define("W", width()).define("LANES", lanes); }
};
// The block size for a result of this many columns.
BlockShape block_for(DType compute, int64_t rows, int64_t columns);

// Whether a device uses blocks for this dtype.
bool has_blocks(Device device, DType dtype);

// b (…, length, columns) as (…, panels, length * width) of the compute type, padded with zeros after the last column.
// Undefined if there is no kernel.
Tensor in_panels(const Tensor& b, DType compute, int64_t width);

// Text: declares sums s<row>_<vector>, initially zero.
std::string block_sums(const BlockShape& block);
// Text: adds column `k` of rows x0, x1 … times the vectors at `y`.
std::string block_products(const BlockShape& block);
// Text: for each row below `height`, its sums in row[0 … W), then `store`, where ROW stands for the number of the row.
// Where `whole` is given, blocks of the full width do that for each vector SUMS, whose first column is COLUMN.
std::string block_ends(const BlockShape& block, const std::string& store, const std::string& whole = "");

}  // namespace fb::gpu
