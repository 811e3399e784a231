"""flambeau.special: functions of one and two tensors, with SciPy as the reference."""

from __future__ import annotations

import numpy as np
from scipy import special as sp

from .samples import make, over_dims, over_one_dim
from .spec import BOOL, FLOATS, FULL_FLOATS, REAL, OpSpec, S, T, bad
from .specs_binary import binary
from .specs_unary import BY_NAME, complex_refused, unary

NOT_COMPLEX = BOOL + REAL
# Bessel functions are sums of many terms: a few more units in the last place.
LOOSE = {"float32": (1e-4, 1e-5), "float64": (1e-7, 1e-8), "float16": (1e-2, 1e-2), "bfloat16": (5e-2, 5e-2)}


def special_unary(name, ref, lo, hi, **kw):
    kw = {"dtypes": BOOL + REAL, "special": False, **kw}
    return unary(f"special.{name}", ref, lo, hi, method=False, inplace=False, errors=(complex_refused(),), **kw)


def polygamma_samples(dtype):
    for n in (0, 1, 2, 4):
        yield S(n, make(dtype, (3, 4), 0.5, 9))


def multigammaln_samples(dtype):
    for p in (1, 2, 3):
        yield S(make(dtype, (3, 4), 2.5, 9), p)


def _multigammaln(a, p):
    steps = sum(sp.gammaln(a - j / 2) for j in range(p))
    return steps + p * (p - 1) / 4 * np.log(np.pi)


def softmax(x, dim, dtype=None):
    if dtype is not None:
        x = x.astype(np.float64)
    return sp.softmax(x, axis=dim) if x.size else x


def log_softmax(x, dim, dtype=None):
    if dtype is not None:
        x = x.astype(np.float64)
    return sp.log_softmax(x, axis=dim) if x.size else x


def logsumexp(x, dim, keepdim=False):
    return sp.logsumexp(x, axis=dim if isinstance(dim, int) else tuple(dim), keepdims=keepdim)


def _softmax_samples(dtype):
    yield from over_one_dim()(dtype)
    if dtype in FLOATS:
        yield S(T([[1e4, 1e4, -1e4], [0.0, -np.inf, 0.0]], dtype), dim=1)


# fmt: off
ROWS = [
    special_unary("entr", sp.entr, 0, 5),
    special_unary("erfcx", sp.erfcx, -2, 9),
    special_unary("i0e", sp.i0e, -9, 9),
    special_unary("i1", sp.i1, -5, 5),
    special_unary("i1e", sp.i1e, -9, 9),
    special_unary("log_ndtr", sp.log_ndtr, -9, 3),
    special_unary("ndtr", sp.ndtr, -3, 3),
    special_unary("ndtri", sp.ndtri, 0.05, 0.95),
    special_unary("airy_ai", lambda x: sp.airy(x)[0], -5, 3, tolerance=LOOSE, dtypes=FULL_FLOATS),
    special_unary("bessel_j0", sp.j0, -9, 9, tolerance=LOOSE, dtypes=FULL_FLOATS),
    special_unary("bessel_j1", sp.j1, -9, 9, tolerance=LOOSE, dtypes=FULL_FLOATS),
    special_unary("bessel_y0", sp.y0, 0.5, 9, tolerance=LOOSE, dtypes=FULL_FLOATS),
    special_unary("bessel_y1", sp.y1, 0.5, 9, tolerance=LOOSE, dtypes=FULL_FLOATS),
    special_unary("modified_bessel_i0", sp.i0, -5, 5, tolerance=LOOSE, dtypes=FULL_FLOATS),
    special_unary("modified_bessel_i1", sp.i1, -5, 5, tolerance=LOOSE, dtypes=FULL_FLOATS),
    special_unary("modified_bessel_k0", sp.k0, 0.5, 5, tolerance=LOOSE, dtypes=FULL_FLOATS),
    special_unary("modified_bessel_k1", sp.k1, 0.5, 5, tolerance=LOOSE, dtypes=FULL_FLOATS),
    special_unary("scaled_modified_bessel_k0", sp.k0e, 0.5, 5, tolerance=LOOSE, dtypes=FULL_FLOATS),
    special_unary("scaled_modified_bessel_k1", sp.k1e, 0.5, 5, tolerance=LOOSE, dtypes=FULL_FLOATS),
    special_unary("spherical_bessel_j0", lambda x: sp.spherical_jn(0, x), 0.1, 9, tolerance=LOOSE, dtypes=FULL_FLOATS),

    OpSpec("polygamma", sp.polygamma, polygamma_samples, BOOL[:0] + REAL, "float", out=True, method=False,
           tolerance={**LOOSE, "float64": (1e-8, 1e-9)},
           errors=(bad("a negative order", RuntimeError, -1, T([1.0], "float32")),)),
    OpSpec("mvlgamma", _multigammaln, multigammaln_samples, REAL, "float", inplace=True, out=True,
           errors=(bad("p = 0", RuntimeError, T([3.0], "float32"), 0),)),
    OpSpec("softmax", softmax, _softmax_samples, FLOATS, keywords=False, large=lambda d: [S(make(d, (300, 700)), dim=1),
           S(make(d, (300, 700)), dim=0)], edge=lambda d: [S(make(d, (0, 3)), dim=1), S(make(d, (2, 0)), dim=1),
           S(make(d, ()), dim=0)],
           errors=(bad("a dim out of range", IndexError, T(np.ones((2, 3)), "float32"), 2),)),
    OpSpec("log_softmax", log_softmax, _softmax_samples, FLOATS, keywords=False,
           large=lambda d: [S(make(d, (300, 700)), dim=1)],
           edge=lambda d: [S(make(d, (0, 3)), dim=1), S(make(d, (2, 0)), dim=1)],
           errors=(bad("a dim out of range", IndexError, T(np.ones((2, 3)), "float32"), 2),)),
    OpSpec("logsumexp", logsumexp, over_dims(none=False), BOOL + REAL, "float", out=True,
           large=lambda d: [S(make(d, (300, 700)), dim=1), S(make(d, (300, 700)), dim=0)],
           edge=lambda d: [S(make(d, (3,)), dim=0), S(make(d, ()), dim=0)],
           special=lambda d: [S(T([[np.inf, 1.0], [-np.inf, -np.inf], [np.nan, 1.0], [1e3, 1e3]], d), dim=1)],
           special_dtypes=FLOATS,
           errors=(bad("a dim out of range", IndexError, T(np.ones((2, 3)), "float32"), 2),
                   bad("a dim given twice", RuntimeError, T(np.ones((2, 3)), "float32"), (0, 0)))),
    binary("special.xlog1py", sp.xlog1py, (-3, 3), (-0.5, 5), BOOL + REAL, "float", method=False, inplace=False,
           special_dtypes=FULL_FLOATS),
    binary("special.zeta", sp.zeta, (1.5, 6), (0.5, 5), BOOL + REAL, "float", method=False, inplace=False,
           special=False,
           tolerance={"float32": (1e-4, 1e-5), "float16": (1e-2, 1e-2), "bfloat16": (3e-2, 3e-2)}),
]


def _polynomial(kind, ref, lo=-0.9):
    def samples(dtype):
        for n in (0, 1, 2, 5):
            yield S(make(dtype, (4,), lo, 0.9), n)

    return OpSpec(f"special.{kind}", ref, samples, FULL_FLOATS, "float", method=False, out=True, layouts=False,
                  tolerance=LOOSE)


ROWS += [
    _polynomial("chebyshev_polynomial_t", lambda x, n: sp.eval_chebyt(n, x)),
    _polynomial("chebyshev_polynomial_u", lambda x, n: sp.eval_chebyu(n, x)),
    _polynomial("chebyshev_polynomial_v", lambda x, n: np.cos((n + 0.5) * np.arccos(x)) / np.cos(np.arccos(x) / 2)),
    _polynomial("chebyshev_polynomial_w", lambda x, n: np.sin((n + 0.5) * np.arccos(x)) / np.sin(np.arccos(x) / 2)),
    _polynomial("hermite_polynomial_h", lambda x, n: sp.eval_hermite(n, x)),
    _polynomial("hermite_polynomial_he", lambda x, n: sp.eval_hermitenorm(n, x)),
    _polynomial("laguerre_polynomial_l", lambda x, n: sp.eval_laguerre(n, x)),
    _polynomial("legendre_polynomial_p", lambda x, n: sp.eval_legendre(n, x)),
    _polynomial("shifted_chebyshev_polynomial_t", lambda x, n: sp.eval_sh_chebyt(n, x), 0.1),
    _polynomial("shifted_chebyshev_polynomial_u", lambda x, n: sp.eval_sh_chebyu(n, x), 0.1),
    _polynomial("shifted_chebyshev_polynomial_v", lambda x, n: np.cos((n + 0.5) * np.arccos(2 * x - 1))
                / np.cos(np.arccos(2 * x - 1) / 2), 0.1),
    _polynomial("shifted_chebyshev_polynomial_w", lambda x, n: np.sin((n + 0.5) * np.arccos(2 * x - 1))
                / np.sin(np.arccos(2 * x - 1) / 2), 0.1),
]
# fmt: on

_NEW = {row.name: row for row in ROWS}
# The names of flambeau.special that are root ops under another name.
ROWS += [
    {**BY_NAME, **_NEW}[root].alias(f"special.{name}", method=False, inplace=False)
    for name, root in (
        ("digamma", "digamma"),
        ("psi", "digamma"),
        ("erf", "erf"),
        ("erfc", "erfc"),
        ("erfinv", "erfinv"),
        ("exp2", "exp2"),
        ("expit", "sigmoid"),
        ("expm1", "expm1"),
        ("gammaln", "lgamma"),
        ("i0", "i0"),
        ("log1p", "log1p"),
        ("logit", "logit"),
        ("log_softmax", "log_softmax"),
        ("logsumexp", "logsumexp"),
        ("multigammaln", "mvlgamma"),
        ("polygamma", "polygamma"),
        ("round", "round"),
        ("sinc", "sinc"),
        ("softmax", "softmax"),
    )
]
