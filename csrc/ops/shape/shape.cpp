// Views: the C++ functions. Their Python signatures are in shape.bind.cpp.
#include "ops/shape/shape.h"

#include "base/exclusive.h"
#include "base/wording.h"

namespace fb {

Tensor flatten(const Tensor& t, int64_t start, int64_t end) {
    start = wrap_dim(start, t.dim());
    end = wrap_dim(end, t.dim());
    check(start <= end, "start_dim (", start, ") cannot come after end_dim (", end, ")");
    if (t.dim() == 0) return reshape(t, {1});
    if (start == end) return t;
    Dims shape(t.shape().begin(), t.shape().begin() + start);
    int64_t joined = 1;
    for (int64_t d = start; d <= end; d++) joined *= t.shape()[d];
    shape.push_back(joined);
    for (int64_t d = end + 1; d < t.dim(); d++) shape.push_back(t.shape()[d]);
    return reshape(t, shape);
}

Tensor movedim(const Tensor& t, const Dims& source, const Dims& destination) {
    check(source.size() == destination.size(), "Invalid source or destination dims: source (", Bracketed{source},
          " dims) should contain the same number of dims as destination (", Bracketed{destination}, " dims)");
    auto distinct = [&](const Dims& dims, const char* which) {
        for (int64_t i = 0; i < dims.size(); i++) {
            for (int64_t j = 0; j < i; j++)
                check(wrap_dim(dims[i], t.dim()) != wrap_dim(dims[j], t.dim()), "repeated dim in `", which, "` (",
                      Bracketed{dims}, ")");
        }
    };
    distinct(source, "source");
    distinct(destination, "destination");
    Dims from = wrap_dims(source, t.dim()), to = wrap_dims(destination, t.dim());
    if (t.dim() == 0) return alias(t);
    Dims order(t.dim(), -1), rest;
    for (int64_t i = 0; i < from.size(); i++) order[to[i]] = from[i];
    for (int64_t d = 0; d < t.dim(); d++) {
        if (!from.contains(d)) rest.push_back(d);
    }
    int64_t next = 0;
    for (int64_t& d : order) {
        if (d < 0) d = rest[next++];
    }
    return permute(t, order);
}

Tensor squeeze_dims(const Tensor& t, const std::optional<Dims>& dims) {
    Dims chosen = dims ? wrap_dims(*dims, t.dim()) : Dims(), shape, strides;
    for (int64_t d = 0; d < t.dim(); d++) {
        if (t.shape()[d] == 1 && (!dims || chosen.contains(d))) continue;
        shape.push_back(t.shape()[d]);
        strides.push_back(t.strides()[d]);
    }
    return view_of(t, shape, strides, t.offset());
}

Tensor diagonal(const Tensor& t, int64_t offset, int64_t dim1, int64_t dim2) {
    int64_t rows = wrap_dim(dim1, t.dim()), columns = wrap_dim(dim2, t.dim());
    check(rows != columns, "diagonal dimensions cannot be identical ", dim1, ", ", dim2);
    Dims shape, strides;
    for (int64_t d = 0; d < t.dim(); d++) {
        if (d == rows || d == columns) continue;
        shape.push_back(t.shape()[d]);
        strides.push_back(t.strides()[d]);
    }
    int64_t n = t.shape()[rows], m = t.shape()[columns], start = t.offset(), length;
    if (offset >= 0) length = offset < m ? std::min(n, m - offset) : 0;
    else length = offset > -n ? std::min(n + offset, m) : 0;
    if (length > 0 && t.numel() > 0) start += offset >= 0 ? offset * t.strides()[columns] : -offset * t.strides()[rows];
    shape.push_back(length);
    strides.push_back(t.strides()[rows] + t.strides()[columns]);
    return view_of(t, shape, strides, start);
}

Tensor view_as_real(const Tensor& t) {
    check(is_complex(t.dtype()), "expected a complex tensor, got dtype ", t.dtype());
    Dims shape = t.shape(), strides = t.strides();
    for (int64_t& s : strides) s *= 2;
    shape.push_back(2);
    strides.push_back(1);
    return reinterpret_view(t, real_of(t.dtype()), shape, strides, t.offset() * 2);
}

Tensor view_as_complex(const Tensor& t) {
    check(t.dtype() == DType::F16 || t.dtype() == DType::F32 || t.dtype() == DType::F64,
          "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: ",
          info(t.dtype()).torch_name);
    check(t.dim() > 0, "Tensor must have a last dimension of size 2, got a 0-d tensor");
    check(t.shape().back() == 2, "Tensor must have a last dimension of size 2, got shape ", t.shape());
    check(t.strides().back() == 1, "Tensor must have a last dimension with stride 1, got strides ", t.strides());
    Dims shape(t.shape().begin(), t.shape().end() - 1), strides(t.strides().begin(), t.strides().end() - 1);
    for (int64_t& s : strides) {
        check(s % 2 == 0, "expected every stride but the last to be even, got ", t.strides());
        s /= 2;
    }
    check(t.offset() % 2 == 0, "expected an even storage offset, got ", t.offset());
    return reinterpret_view(t, complex_of(t.dtype()), shape, strides, t.offset() / 2);
}

Tensor view_dtype(const Tensor& t, DType dtype) {
    int64_t have = t.itemsize(), want = itemsize(dtype);
    if (have == want) return reinterpret_view(t, dtype, t.shape(), t.strides(), t.offset());
    check(t.dim() > 0, "self.dim() cannot be 0 to view ", scalar_type(t.dtype()), " as ", scalar_type(dtype),
          " (different element sizes)");
    Dims shape = t.shape(), strides = t.strides();
    check(strides.back() == 1, "self.stride(-1) must be 1 to view ", scalar_type(t.dtype()), " as ", scalar_type(dtype),
          " (different element sizes), but got strides ", strides, "; use contiguous() first");
    int64_t last = t.dim() - 1, offset = t.offset();
    if (have > want) {
        int64_t ratio = have / want;
        shape[last] = checked_mul(shape[last], ratio, "the size of the last dimension");
        for (int64_t d = 0; d < last; d++) strides[d] *= ratio;
        return reinterpret_view(t, dtype, shape, strides, offset * ratio);
    }
    int64_t ratio = want / have;
    check(shape[last] % ratio == 0, "self.size(-1) must be divisible by ", ratio, " to view ", scalar_type(t.dtype()),
          " as ", scalar_type(dtype), " (different element sizes), but got ", shape[last]);
    check(offset % ratio == 0, "self.storage_offset() must be divisible by ", ratio, " to view ",
          scalar_type(t.dtype()), " as ", scalar_type(dtype), " (different element sizes), but got ", offset);
    for (int64_t d = 0; d < last; d++) {
        check(strides[d] % ratio == 0, "self.stride(", d, ") must be divisible by ", ratio, " to view ",
              scalar_type(t.dtype()), " as ", scalar_type(dtype), " (different element sizes), but got ", strides[d]);
        strides[d] /= ratio;
    }
    shape[last] /= ratio;
    return reinterpret_view(t, dtype, shape, strides, offset / ratio);
}

Tensor as_strided(const Tensor& t, const Dims& size, const Dims& stride, std::optional<int64_t> offset) {
    int64_t start = offset.value_or(t.offset());
    // A view without elements may begin anywhere, but its byte address is still computed.
    check(start >= 0 && start < (int64_t(1) << 58), "Storage size calculation overflowed: storage_offset ", start,
          " is outside of every storage");
    return view_of(t, size, stride, start);
}

Tensor unfold(const Tensor& t, int64_t dim, int64_t size, int64_t step) {
    dim = wrap_dim(dim, t.dim());
    int64_t have = t.dim() ? t.shape()[dim] : 1, stride = t.dim() ? t.strides()[dim] : 1;
    check(size >= 0, "size is ", size, " but must be >= 0");
    check(size <= have, "maximum size for a tensor at dimension ", dim, " is ", have, " but size is ", size);
    check(step > 0, "step is ", step, " but must be > 0");
    Dims shape = t.shape(), strides = t.strides();
    if (t.dim() > 0) {
        int64_t count = (have - size) / step + 1;
        shape[dim] = count;
        strides[dim] = count > 1 ? stride * step : stride;
    }
    shape.push_back(size);
    strides.push_back(stride);
    return view_of(t, shape, strides, t.offset());
}

std::vector<Tensor> unbind(const Tensor& t, int64_t dim) {
    if (t.dim() == 0) fail_index("Dimension specified as 0 but tensor has no dimensions");
    dim = wrap_dim(dim, t.dim());
    std::vector<Tensor> parts;
    for (int64_t i = 0; i < t.shape()[dim]; i++) parts.push_back(select(t, dim, i));
    return parts;
}

std::vector<Tensor> split(const Tensor& t, int64_t size, int64_t dim) {
    check(t.dim() > 0, "expects at least a 1-dimensional tensor");
    dim = wrap_dim(dim, t.dim());
    check(size >= 0, "expects split_size be non-negative, but got split_size=", size);
    int64_t have = t.shape()[dim];
    check(size > 0 || have == 0, "split_size can only be 0 if dimension size is 0, but got dimension size of ", have);
    std::vector<Tensor> parts;
    if (have == 0 || size == 0) return {alias(t)};
    for (int64_t start = 0; start < have; start += std::min(size, have - start)) {
        parts.push_back(narrow(t, dim, start, std::min(size, have - start)));
    }
    return parts;
}

std::vector<Tensor> split(const Tensor& t, const Dims& sizes, int64_t dim) {
    check(t.dim() > 0, "expects at least a 1-dimensional tensor");
    dim = wrap_dim(dim, t.dim());
    int64_t total = 0, start = 0;
    for (int64_t size : sizes) {
        check(size >= 0, "expects split sizes to have only non-negative entries, got ", sizes);
        if (__builtin_add_overflow(total, size, &total)) fail_value("split sizes ", sizes, " overflow");
    }
    check(total == t.shape()[dim], "expects split sizes to sum exactly to ", t.shape()[dim], " (size of dimension ",
          dim, "), got ", sizes);
    std::vector<Tensor> parts;
    for (int64_t size : sizes) {
        parts.push_back(narrow(t, dim, start, size));
        start += size;
    }
    return parts;
}

Tensor become(const Tensor& t, const Tensor& view) {
    TensorImpl &to = *t.impl(), &from = *view.impl();
    exclusively([&] {
        to.shape = from.shape;
        to.strides = from.strides;
        to.offset = from.offset;
        to.numel = from.numel;
        to.contiguous = from.contiguous;
    });
    return t;
}

}  // namespace fb
