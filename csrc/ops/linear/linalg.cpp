#include "ops/linear/linalg.h"

#include <limits>
#include <string_view>

#include "base/wording.h"
#include "device/linalg.h"
#include "device/move.h"

namespace fb {

Dims batch_of(const Tensor& a) { return Dims(a.shape().begin(), a.shape().begin() + (a.dim() - 2)); }
Dims with(Dims dims, std::initializer_list<int64_t> more) {
    for (int64_t size : more) dims.push_back(size);
    return dims;
}

void check_matrices(const Tensor& a, const char* name) {
    bool plain = std::string_view(name) == "input";
    check(a.dim() >= 2, plain ? "" : "The input tensor ", name,
          " must have at least 2 dimensions. Expected a matrix or a batch of matrices, got shape ", a.shape());
    if (a.dtype() == DType::F32 || a.dtype() == DType::F64 || is_complex(a.dtype())) return;
    fail_value(is_floating(a.dtype()) ? "Low precision dtypes not supported. Got "
                                      : "Expected a floating point or complex tensor as input. Got ",
               scalar_type(a.dtype()), ": ", name,
               " must be float32, float64, complex64 or complex128; convert it with .to(dtype)");
}
void check_square(const Tensor& a, const char* name) {
    check_matrices(a, name);
    check(a.shape()[a.dim() - 1] == a.shape()[a.dim() - 2], name, " must be batches of square matrices, but they are ",
          a.size(-2), " by ", a.size(-1), " matrices");
}

void check_finite(const Tensor& a, const char* name) {
    Tensor flat = is_complex(a.dtype()) ? contiguous(a) : a;
    if (!device::decomposing(a).all_finite(contiguous(flat)))
        fail(ErrorKind::LinAlg, "input tensor should not contain infs or NaNs: with those that ", name,
             " has the algorithm would not converge");
}

Columns empty_columns(const Dims& batch, int64_t rows, int64_t cols, DType dtype, Device device) {
    constexpr int64_t most = std::numeric_limits<int>::max();
    check(rows <= most && cols <= most, "matrices of ", rows, " × ", cols, " are too large for LAPACK");
    Columns c;
    Dims shape = with(batch, {cols, rows});
    c.count = checked_numel(batch);
    if (is_complex(dtype)) {
        // OpenBLAS reads one element past the end when it scales complex vectors (cscal, called by QR and LU).
        Tensor room = empty({checked_numel(shape) + 1}, dtype, device);
        c.tensor = transpose(make_view(room.storage_ref(), dtype, shape, contiguous_strides(shape), 0), -1, -2);
    } else {
        c.tensor = transpose(empty(shape, dtype, device), -1, -2);
    }
    c.rows = static_cast<int>(rows);
    c.cols = static_cast<int>(cols);
    return c;
}
Columns to_columns(const Tensor& a, const Dims& batch) {
    Columns c = empty_columns(batch, a.size(-2), a.size(-1), a.dtype(), a.device());
    device::moving(c.tensor).copy(c.tensor, expand(a, c.tensor.shape()));
    return c;
}
Columns to_columns(const Tensor& a) { return to_columns(a, batch_of(a)); }

std::vector<int64_t> batch_map(const Dims& batch, const Dims& own) {
    std::vector<int64_t> map(static_cast<size_t>(checked_numel(batch)));
    Dims strides = contiguous_strides(own);
    int64_t extra = batch.size() - own.size();
    for (size_t i = 0; i < map.size(); i++) {
        int64_t rest = static_cast<int64_t>(i), at = 0;
        for (int64_t d = batch.size() - 1; d >= 0; d--) {
            int64_t index = rest % batch[d];
            rest /= batch[d];
            if (d >= extra && own[d - extra] != 1) at += index * strides[d - extra];
        }
        map[i] = at;
    }
    return map;
}

void check_info(const Tensor& info, const char* what) {
    int code = 0;
    int64_t i = device::decomposing(info).first_code(info, code);
    if (i < 0) return;
    std::string where = info.dim() ? "(Batch element " + std::to_string(i) + "): " : "";
    if (code < 0) fail(ErrorKind::LinAlg, where, "LAPACK refused argument ", -code, "; are all values finite?");
    std::string text = what;
    for (size_t at; (at = text.find('#')) != std::string::npos;) text.replace(at, 1, std::to_string(code));
    fail(ErrorKind::LinAlg, where, text);
}

Tensor conjugated(const Tensor& t) {
    if (!is_complex(t.dtype())) return t;
    Tensor copy = clone(t);
    device::decomposing(copy).conjugate(copy);
    return copy;
}

LU lu_factor(const Tensor& a) {
    LU lu;
    lu.factors = to_columns(a);
    Columns& c = lu.factors;
    int small = std::min(c.rows, c.cols);
    Dims batch = batch_of(a);
    lu.pivots = empty(with(batch, {small}), DType::I32, a.device());
    lu.info = zeros(batch, DType::I32, a.device());
    if (small == 0) return lu;
    device::decomposing(a).lu(c.tensor, lu.pivots, lu.info);
    return lu;
}

Tensor cholesky_lower(const Tensor& a, const Tensor& info) {
    Columns c = empty_columns(batch_of(a), a.size(-2), a.size(-1), a.dtype(), a.device());
    device::decomposing(a).cholesky(c.tensor, a, info);
    return c.tensor;
}

}  // namespace fb
