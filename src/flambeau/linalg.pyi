# Written by `python tools/stubgen.py` from the op table; changes made here are lost.

from collections.abc import Sequence
from typing import Any, overload

from . import (
    Tensor,
    _bool,
    _dtype,
    _EigenvaluesEigenvectorsResult,
    _float,
    _int,
    _InverseInfoResult,
    _LdPivotsInfoResult,
    _LdPivotsResult,
    _LInfoResult,
    _LuPivotsInfoResult,
    _LuPivotsResult,
    _Number,
    _PLUResult,
    _QRResult,
    _ResultInfoResult,
    _SignLogabsdetResult,
    _SolutionResidualsRankSingularValuesResult,
    _str,
    _USVhResult,
)
from .errors import LinAlgError as LinAlgError

def cholesky(A: Tensor, *, upper: _bool = False, out: Tensor | None = None) -> Tensor: ...
def cholesky_ex(
    A: Tensor, *, upper: _bool = False, check_errors: _bool = False, out: Sequence[Tensor] | None = None
) -> _LInfoResult: ...
@overload
def cond(A: Tensor, p: _Number | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def cond(A: Tensor, p: _str, *, out: Tensor | None = None) -> Tensor: ...
@overload
def cross(input: Tensor, other: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor: ...
@overload
def cross(input: Tensor, other: Tensor, *, axis: _int, out: Tensor | None = None) -> Tensor: ...
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def diagonal(A: Tensor, *, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor: ...
def eig(A: Tensor, *, out: Sequence[Tensor] | None = None) -> _EigenvaluesEigenvectorsResult: ...
def eigh(A: Tensor, UPLO: _str = "L", *, out: Sequence[Tensor] | None = None) -> _EigenvaluesEigenvectorsResult: ...
def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def eigvalsh(A: Tensor, UPLO: _str = "L", *, out: Tensor | None = None) -> Tensor: ...
def householder_product(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def inv_ex(A: Tensor, *, check_errors: _bool = False, out: Sequence[Tensor] | None = None) -> _InverseInfoResult: ...
def ldl_factor(A: Tensor, *, hermitian: _bool = False, out: Sequence[Tensor] | None = None) -> _LdPivotsResult: ...
def ldl_factor_ex(
    A: Tensor, *, hermitian: _bool = False, check_errors: _bool = False, out: Sequence[Tensor] | None = None
) -> _LdPivotsInfoResult: ...
def ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def lstsq(
    A: Tensor,
    B: Tensor,
    rcond: _float | None = None,
    *,
    driver: _str | None = None,
    out: Sequence[Tensor] | None = None,
) -> _SolutionResidualsRankSingularValuesResult: ...
def lu(A: Tensor, *, pivot: _bool = True, out: Sequence[Tensor] | None = None) -> _PLUResult: ...
def lu_factor(A: Tensor, *, pivot: _bool = True, out: Sequence[Tensor] | None = None) -> _LuPivotsResult: ...
def lu_factor_ex(
    A: Tensor, *, pivot: _bool = True, check_errors: _bool = False, out: Sequence[Tensor] | None = None
) -> _LuPivotsInfoResult: ...
def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: _bool = True, adjoint: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def matrix_exp(A: Tensor) -> Tensor: ...
@overload
def matrix_norm(
    A: Tensor,
    ord: _Number,
    dim: _int | Sequence[_int] = ...,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def matrix_norm(
    A: Tensor,
    ord: _Number,
    *,
    axis: _int | Sequence[_int],
    keepdims: _bool = False,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def matrix_norm(
    A: Tensor,
    ord: _Number,
    dim: _int | Sequence[_int] = ...,
    *,
    keepdims: _bool,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def matrix_norm(
    A: Tensor,
    ord: _str = "fro",
    dim: _int | Sequence[_int] = ...,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def matrix_norm(
    A: Tensor,
    ord: _str = "fro",
    *,
    axis: _int | Sequence[_int],
    keepdims: _bool = False,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def matrix_norm(
    A: Tensor,
    ord: _str = "fro",
    dim: _int | Sequence[_int] = ...,
    *,
    keepdims: _bool,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def matrix_power(A: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def matrix_rank(
    A: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: _bool = False, out: Tensor | None = None
) -> Tensor: ...
@overload
def matrix_rank(A: Tensor, tol: Any, hermitian: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
@overload
def norm(
    input: Tensor,
    ord: _Number | None = None,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def norm(
    input: Tensor,
    ord: _Number | None = None,
    *,
    axis: _int | Sequence[_int] | None,
    keepdims: _bool = False,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def norm(
    input: Tensor,
    ord: _Number | None = None,
    dim: _int | Sequence[_int] | None = None,
    *,
    keepdims: _bool,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def norm(
    input: Tensor,
    ord: _str,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def norm(
    input: Tensor,
    ord: _str,
    *,
    axis: _int | Sequence[_int] | None,
    keepdims: _bool = False,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def norm(
    input: Tensor,
    ord: _str,
    dim: _int | Sequence[_int] | None = None,
    *,
    keepdims: _bool,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def pinv(
    A: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: _bool = False, out: Tensor | None = None
) -> Tensor: ...
@overload
def pinv(A: Tensor, rcond: Any, hermitian: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def qr(A: Tensor, mode: _str = "reduced", *, out: Sequence[Tensor] | None = None) -> _QRResult: ...
def slogdet(A: Tensor, *, out: Sequence[Tensor] | None = None) -> _SignLogabsdetResult: ...
def solve(A: Tensor, B: Tensor, *, left: _bool = True, out: Tensor | None = None) -> Tensor: ...
def solve_ex(
    A: Tensor, B: Tensor, *, left: _bool = True, check_errors: _bool = False, out: Sequence[Tensor] | None = None
) -> _ResultInfoResult: ...
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: _bool, left: _bool = True, unitriangular: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def svd(
    A: Tensor, full_matrices: _bool = True, *, driver: _str | None = None, out: Sequence[Tensor] | None = None
) -> _USVhResult: ...
def svdvals(A: Tensor, *, driver: _str | None = None, out: Tensor | None = None) -> Tensor: ...
def tensorinv(A: Tensor, ind: _int = 2, *, out: Tensor | None = None) -> Tensor: ...
def tensorsolve(
    A: Tensor, B: Tensor, dims: _int | Sequence[_int] | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def vander(x: Tensor, *, N: _int | None = None) -> Tensor: ...
@overload
def vecdot(x: Tensor, y: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor: ...
@overload
def vecdot(x: Tensor, y: Tensor, *, axis: _int, out: Tensor | None = None) -> Tensor: ...
@overload
def vector_norm(
    x: Tensor,
    ord: _Number = 2,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def vector_norm(
    x: Tensor,
    ord: _Number = 2,
    *,
    axis: _int | Sequence[_int] | None,
    keepdims: _bool = False,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def vector_norm(
    x: Tensor,
    ord: _Number = 2,
    dim: _int | Sequence[_int] | None = None,
    *,
    keepdims: _bool,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
