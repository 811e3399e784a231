#include "base/shape.h"

namespace fb {

std::ostream& operator<<(std::ostream& out, const Dims& dims) {
    out << "(";
    for (int64_t i = 0; i < dims.size(); i++) out << (i ? ", " : "") << dims[i];
    return out << (dims.size() == 1 ? ",)" : ")");
}

int64_t checked_mul(int64_t a, int64_t b, const char* what) {
    int64_t result;
    if (__builtin_mul_overflow(a, b, &result))
        fail_value(what, " overflows: ", a, " times ", b, " does not fit in 64 bits");
    return result;
}

int64_t checked_numel(const Dims& shape) {
    if (shape.size() > max_dims) fail_value("a tensor has at most ", max_dims, " dimensions, got ", shape.size());
    int64_t n = 1;
    bool overflow = false, zero = false;
    for (int64_t size : shape) {
        if (size < 0) fail_value("Trying to create tensor with negative dimension ", size, ", got shape ", shape);
        zero |= size == 0;
        overflow |= __builtin_mul_overflow(n, size, &n);
    }
    if (zero) return 0;
    // With 2**59 elements, the product with any item size plus any offset still fits.
    if (overflow || n > (int64_t(1) << 59))
        fail_value("Storage size calculation overflowed: shape ", shape, " has too many elements to address");
    return n;
}

Dims contiguous_strides(const Dims& shape) {
    Dims strides;
    strides.resize(shape.size());
    int64_t step = 1;
    for (int64_t i = shape.size() - 1; i >= 0; i--) {
        strides[i] = step;
        if (__builtin_mul_overflow(step, std::max<int64_t>(shape[i], 1), &step)) step = 0;  // only for empty shapes
    }
    return strides;
}

int64_t wrap_dim(int64_t dim, int64_t ndim) {
    int64_t range = std::max<int64_t>(ndim, 1);
    if (dim < -range || dim >= range) {
        fail_index("Dimension out of range (expected to be in range of [", -range, ", ", range - 1, "], but got ", dim,
                   ") for a ", ndim, "-d tensor");
    }
    return dim < 0 ? dim + range : dim;
}

Dims wrap_dims(const Dims& dims, int64_t ndim) {
    Dims result = dims;
    for (int64_t i = 0; i < dims.size(); i++) {
        result[i] = wrap_dim(dims[i], ndim);
        for (int64_t j = 0; j < i; j++)
            check(result[j] != result[i], "dim ", dims[i], " appears multiple times in the list of dims ", dims);
    }
    return result;
}

Dims broadcast_shapes(const Dims& a, const Dims& b) {
    if (a == b) return a;
    const Dims& longer = a.size() >= b.size() ? a : b;
    const Dims& shorter = a.size() >= b.size() ? b : a;
    Dims result = longer;
    int64_t offset = longer.size() - shorter.size();
    // From the last dimension, so that the error names the last that differs.
    for (int64_t i = shorter.size() - 1; i >= 0; i--) {
        int64_t x = longer[offset + i], y = shorter[i];
        if (x == y || y == 1) continue;
        if (x != 1) {
            fail_value("The size of tensor a (", a.size() >= b.size() ? x : y, ") must match the size of tensor b (",
                       a.size() >= b.size() ? y : x, ") at non-singleton dimension ", offset + i, ": shapes ", a,
                       " and ", b, " cannot be broadcast together");
        }
        result[offset + i] = y;
    }
    return result;
}

}  // namespace fb
