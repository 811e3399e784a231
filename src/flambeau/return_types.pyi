# Written by `python tools/stubgen.py` from the op table; changes made here are lost.

from . import (
    _ATauResult,
    _EigenvaluesEigenvectorsResult,
    _HistBinEdgesResult,
    _InverseInfoResult,
    _LdPivotsInfoResult,
    _LdPivotsResult,
    _LInfoResult,
    _LuPivotsInfoResult,
    _LuPivotsResult,
    _MantissaExponentResult,
    _MinMaxResult,
    _PLUResult,
    _QRResult,
    _ResultInfoResult,
    _SignLogabsdetResult,
    _SolutionClonedCoefficientResult,
    _SolutionResidualsRankSingularValuesResult,
    _USVhResult,
    _USVResult,
    _ValuesIndicesResult,
)

adaptive_max_pool1d = _ValuesIndicesResult
aminmax = _MinMaxResult
cummax = _ValuesIndicesResult
cummin = _ValuesIndicesResult
frexp = _MantissaExponentResult
geqrf = _ATauResult
histogram = _HistBinEdgesResult
kthvalue = _ValuesIndicesResult
linalg_cholesky_ex = _LInfoResult
linalg_eig = _EigenvaluesEigenvectorsResult
linalg_eigh = _EigenvaluesEigenvectorsResult
linalg_inv_ex = _InverseInfoResult
linalg_ldl_factor = _LdPivotsResult
linalg_ldl_factor_ex = _LdPivotsInfoResult
linalg_lstsq = _SolutionResidualsRankSingularValuesResult
linalg_lu = _PLUResult
linalg_lu_factor = _LuPivotsResult
linalg_lu_factor_ex = _LuPivotsInfoResult
linalg_qr = _QRResult
linalg_slogdet = _SignLogabsdetResult
linalg_solve_ex = _ResultInfoResult
linalg_svd = _USVhResult
lu_unpack = _PLUResult
max = _ValuesIndicesResult
max_pool1d_with_indices = _ValuesIndicesResult
median = _ValuesIndicesResult
min = _ValuesIndicesResult
mode = _ValuesIndicesResult
nanmedian = _ValuesIndicesResult
pca_lowrank = _USVResult
qr = _QRResult
slogdet = _SignLogabsdetResult
sort = _ValuesIndicesResult
svd = _USVResult
svd_lowrank = _USVResult
topk = _ValuesIndicesResult
triangular_solve = _SolutionClonedCoefficientResult
