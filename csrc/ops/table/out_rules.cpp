// The dtypes that out= may have. Most ops convert their result to any dtype of the same or a higher kind; those named
// here accept only the dtype of the result, as in PyTorch.
#include "ops/table/out_rules.h"

#include <string_view>
#include <unordered_set>

#include "base/wording.h"
#include "ops/table/dispatch.h"

namespace fb {

thread_local bool exact_out = false;

static const std::unordered_set<std::string_view> exact_ops = {
    // clang-format off
    "addbmm", "addmm", "addmv", "alias_copy", "amax", "amin", "argmax", "argmin", "as_strided_copy", "baddbmm",
    "bitwise_not", "bmm", "bucketize", "ceil", "complex", "conj_physical", "cross", "diag", "diagonal_copy", "dot",
    "expand_copy", "float_power", "floor", "frac", "gather", "hash_tensor", "heaviside", "histc", "index_add",
    "index_copy", "index_reduce", "index_select", "isin", "isneginf", "isposinf", "linalg.cholesky", "linalg.cross",
    "linalg.det", "linalg.eigvalsh", "linalg.inv", "linalg.ldl_solve", "linalg.lu_solve", "linalg.matrix_norm",
    "linalg.multi_dot", "linalg.norm", "linalg.solve", "linalg.solve_triangular", "linalg.svdvals", "linalg.vecdot",
    "linalg.vector_norm", "log_softmax", "logcumsumexp", "lu_solve", "masked_select", "matmul", "mm", "msort",
    "multinomial", "mv", "nan_to_num", "nanquantile", "narrow_copy", "neg", "nn.functional.avg_pool2d", "norm",
    "ormqr", "permute_copy", "polar", "quantile", "renorm", "round", "scatter", "scatter_add", "scatter_reduce",
    "searchsorted", "sgn", "sign", "signbit", "slice_scatter", "softmax", "squeeze_copy", "t_copy", "take",
    "take_along_dim", "tensordot", "transpose_copy", "tril", "triu", "trunc", "unfold_copy", "unsqueeze_copy",
    "vdot", "view_copy", "where",
    // clang-format on
};

// Linear algebra has a different message for an out= that cannot hold the result.
static const std::unordered_set<std::string_view> castable_ops = {
    "cholesky_inverse",
    "cholesky_solve",
    "geqrf",
    "linalg.cond",
    "linalg.eig",
    "linalg.eigvals",
    "linalg.householder_product",
    "linalg.lstsq",
    "linalg.matrix_power",
    "linalg.matrix_rank",
    "linalg.pinv",
    "linalg.tensorinv",
    "linalg.tensorsolve",
    "matrix_power",
    "orgqr",
    "pinverse",
};

void fail_cast(DType from, DType to, const char* out) {
    if (current_op && castable_ops.contains(current_op)) {
        if (std::string_view(current_op) == "linalg.eigvals") out = "eigenvalues";
        fail_type("Expected ", out, " to be safely castable from ", scalar_type(from), " dtype, but got ", out,
                  " with dtype ", scalar_type(to), " (", from, " and ", to, ")");
    }
    fail_type("result type ", scalar_type(from), " can't be cast to the desired output type ", scalar_type(to), " (",
              from, " and ", to, ")");
}

bool takes_exact_out(const std::string& op) { return exact_ops.contains(op); }

}  // namespace fb
