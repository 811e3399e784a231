"""What the gradient tests need to know of single rows."""

import flambeau as fb

from .spec import S, T

# Results that do not depend smoothly on their inputs: no history, or a gradient of zero.
CONSTANT = {"round", "special.round", "sign", "floor", "ceil", "trunc", "floor_divide", "heaviside"}
# Ops without a derivative: backward says so.
NOT_DIFFERENTIABLE = {
    "geqrf", "histogram", "igamma", "igammac", "linalg.ldl_factor", "linalg.ldl_factor_ex", "linalg.ldl_solve",
    "special.gammainc", "special.gammaincc", "special.zeta", "unique", "unique_consecutive",
}  # fmt: skip
# Random inside: finite differences do not apply.
RANDOM = {"svd_lowrank", "pca_lowrank"}


def _hermitian(options, *tensors):
    return tuple((t + t.mH) / 2 for t in tensors)


def _triangle(options, *tensors):
    last = tensors[-1]
    if last.is_complex():  # the diagonal of a factor is real
        last = last - fb.diag_embed(last.diagonal(dim1=-2, dim2=-1).imag) * 1j
    return (*tensors[:-1], last.triu() if options.get("upper") else last.tril())


# Inputs that are only read in part, or must stay in a set: what turns free numbers into such inputs.
PREPARE = {
    **dict.fromkeys(("cholesky", "linalg.cholesky", "linalg.cholesky_ex", "linalg.eigh", "linalg.eigvalsh"), _hermitian),
    **dict.fromkeys(("cholesky_inverse", "cholesky_solve"), _triangle),
}
# Vectors known up to a sign or phase: compared by what does not depend on it.
FINISH = dict.fromkeys(
    ("linalg.eigh", "linalg.eig", "linalg.svd", "svd"), lambda results: tuple(fb.abs(r) if r.ndim > 1 else r for r in results)
)


def _logit(dtype):
    yield S(T([0.2, 0.4, 0.9], dtype))
    yield S(T([0.05, 0.4, 0.95], dtype), eps=0.125)


# Other samples for the gradient: the row's own are at kinks, or at the border of the domain.
INPUTS = {
    "logit": _logit,
    "nan_to_num": lambda dtype: [S(T([1.0, -2.0, 0.5], dtype))],
    "quantile": lambda dtype: [S(T([[1.0, 4.0, 2.5], [0.5, 3.0, 7.0]], dtype), 0.3), S(T([1.0, 4.0, 2.5], dtype), T([0.2, 0.7], dtype))],
    # Only the singular values of the full form, and the thin form, are determined.
    "linalg.svd": lambda dtype: [S(T([[1.0, 2.0], [0.5, -1.0], [3.0, 0.2]], dtype), full_matrices=False)],
}
