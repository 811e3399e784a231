"""SciPy and scikit-learn on flambeau tensors, through their array API paths.

Run as a script in a process of its own, because both libraries read SCIPY_ARRAY_API when they are imported:
``SCIPY_ARRAY_API=1 python ecosystem.py scipy|sklearn`` prints a JSON object, name of check -> traceback or null.
A check computes with tensors, asserts that a tensor came back, and compares with NumPy's result.
"""

from __future__ import annotations

import json
import sys
import traceback

import numpy as np

import flambeau as fb

CHECKS: dict[str, dict] = {"scipy": {}, "sklearn": {}}


def check(library):
    def register(function):
        CHECKS[library][function.__name__] = function
        return function

    return register


def data(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def t(x):
    return fb.from_numpy(np.array(x))


def agree(found, want, **tolerance):
    assert isinstance(found, fb.Tensor), f"expected a Tensor, got {type(found).__name__}"
    np.testing.assert_allclose(found.numpy(), np.asarray(want), **{"rtol": 1e-7, "atol": 1e-9, **tolerance})


def both(function, *arrays, **kwargs):
    """The function of tensors agrees with the function of NumPy arrays."""
    found, want = function(*map(t, arrays), **kwargs), function(*arrays, **kwargs)
    found, want = (found, want) if isinstance(want, tuple) else ((found,), (want,))
    for f, w in zip(found, want, strict=True):
        agree(f, w)


@check("scipy")
def fourier():
    from scipy import fft

    x, z = data(4, 6), data(4, 6) + 1j * data(4, 6, seed=1)
    for name in ("fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "hfft", "irfft", "irfftn"):
        both(getattr(fft, name), z)
    for name in ("rfft", "ihfft", "rfftn"):
        both(getattr(fft, name), x)
    both(fft.fftshift, x)


@check("scipy")
def statistics():
    from scipy import stats

    x, y = data(20, 3), data(20, 3, seed=1)
    both(stats.zscore, x)
    both(stats.skew, x)
    both(stats.kurtosis, x)
    both(stats.moment, x, order=3)
    both(stats.variation, x + 5)
    both(stats.gmean, np.abs(x) + 1)
    both(stats.pmean, np.abs(x) + 1, p=2)
    both(stats.entropy, np.abs(x) + 0.1)
    result, want = stats.ttest_ind(t(x), t(y)), stats.ttest_ind(x, y)
    agree(result.statistic, want.statistic)
    agree(result.pvalue, want.pvalue)
    result, want = stats.pearsonr(t(x[:, 0]), t(y[:, 0])), stats.pearsonr(x[:, 0], y[:, 0])
    agree(result.statistic, want.statistic)


@check("scipy")
def special():
    from scipy import special

    x = np.abs(data(3, 4)) + 0.1
    for name in ("gammaln", "erf", "expit", "log_ndtr", "i0", "digamma"):
        both(getattr(special, name), x)
    both(special.xlogy, x, x + 1)
    both(special.logsumexp, x, axis=1)
    both(special.softmax, x, axis=0)
    both(special.log_softmax, x, axis=1)


@check("scipy")
def clusters():
    from scipy.cluster import vq

    x = data(30, 3)
    both(vq.whiten, x)
    both(vq.vq, x, x[:4])
    codes, _ = vq.kmeans2(t(x), t(x[:3]), minit="matrix")
    agree(codes, vq.kmeans2(x, x[:3], minit="matrix")[0])


@check("scipy")
def images_and_signals():
    from scipy import ndimage, signal

    x = data(9, 9)
    both(ndimage.gaussian_filter, x, sigma=1.0)
    both(ndimage.median_filter, x, size=3)
    both(signal.fftconvolve, data(20), data(5, seed=1))
    both(signal.convolve, data(20), data(5, seed=1))
    both(signal.hilbert, data(16))


@check("scipy")
def calculus():
    from scipy import differentiate, integrate
    from scipy.optimize import elementwise

    x = data(5)
    agree(differentiate.derivative(lambda v: v**3, t(x)).df, 3 * x**2, rtol=1e-6)
    found = integrate.tanhsinh(lambda v: v * v, t(np.zeros(3)), t(np.array([1.0, 2.0, 3.0])))
    agree(found.integral, np.array([1.0, 8.0, 27.0]) / 3)
    root = elementwise.find_root(lambda v, c: v * v - c, (t(np.zeros(2)), t(np.full(2, 9.0))), args=(t([4.0, 25.0]),))
    agree(root.x, [2.0, 5.0])
    both(integrate.simpson, data(4, 9))
    both(integrate.trapezoid, data(4, 9))


@check("scipy")
def rotations():
    from scipy.spatial.transform import Rotation

    quaternion = np.array([0.0, 0.0, np.sin(np.pi / 4), np.cos(np.pi / 4)])
    both(lambda q: Rotation.from_quat(q).as_matrix(), quaternion)


def dispatching(function):
    import sklearn

    with sklearn.config_context(array_api_dispatch=True):
        return function()


@check("sklearn")
def scalers():
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

    x = data(20, 4)
    for scaler in (StandardScaler, MinMaxScaler, MaxAbsScaler):
        agree(dispatching(lambda make=scaler: make().fit_transform(t(x))), scaler().fit_transform(x))


@check("sklearn")
def principal_components():
    from sklearn.decomposition import PCA

    x = data(30, 5)
    found = dispatching(lambda: PCA(n_components=2, svd_solver="full").fit_transform(t(x)))
    agree(abs(found), np.abs(PCA(n_components=2, svd_solver="full").fit_transform(x)))


@check("sklearn")
def ridge_regression():
    from sklearn.linear_model import Ridge

    x, y = data(30, 5), data(30, seed=1)
    found = dispatching(lambda: Ridge(solver="svd").fit(t(x), t(y)).predict(t(x)))
    agree(found, Ridge(solver="svd").fit(x, y).predict(x))


@check("sklearn")
def discriminant_analysis():
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    x = data(40, 3) + np.repeat(np.arange(2), 20)[:, None] * 3
    y = np.repeat(np.arange(2), 20)
    found = dispatching(lambda: LinearDiscriminantAnalysis().fit(t(x), t(y)).predict(t(x)))
    agree(found, LinearDiscriminantAnalysis().fit(x, y).predict(x))


@check("sklearn")
def mixture():
    from sklearn.mixture import GaussianMixture

    x = np.concatenate([data(30, 2), data(30, 2, seed=1) + 8])
    settings = {"n_components": 2, "init_params": "random", "random_state": 0}
    found = dispatching(lambda: GaussianMixture(**settings).fit(t(x)).predict(t(x)))
    assert isinstance(found, fb.Tensor) and len(set(found.tolist())) == 2


@check("sklearn")
def metrics():
    from sklearn import metrics as m

    y, p = data(30), data(30, seed=1)
    for name in ("mean_squared_error", "mean_absolute_error", "r2_score"):
        found = dispatching(lambda f=getattr(m, name): f(t(y), t(p)))
        assert abs(found - getattr(m, name)(y, p)) < 1e-12
    a, b = (y > 0).astype("int64"), (p > 0).astype("int64")
    for name in ("accuracy_score", "zero_one_loss", "f1_score"):
        found = dispatching(lambda f=getattr(m, name): f(t(a), t(b)))
        assert abs(found - getattr(m, name)(a, b)) < 1e-12
    pairwise = m.pairwise
    for name in ("euclidean_distances", "cosine_similarity", "rbf_kernel", "linear_kernel"):
        found = dispatching(lambda f=getattr(pairwise, name): f(t(y.reshape(10, 3)), t(p.reshape(10, 3))))
        agree(found, getattr(pairwise, name)(y.reshape(10, 3), p.reshape(10, 3)))


@check("sklearn")
def splitting_and_labels():
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import LabelEncoder

    x = data(20, 2)
    found = dispatching(lambda: train_test_split(t(x), random_state=0))
    for f, w in zip(found, train_test_split(x, random_state=0), strict=True):
        agree(f, w)
    labels = np.array([5, 3, 5, 9])
    agree(dispatching(lambda: LabelEncoder().fit_transform(t(labels))), LabelEncoder().fit_transform(labels))


def main(library: str) -> None:
    results = {}
    for name, function in CHECKS[library].items():
        try:
            function()
            results[name] = None
        except Exception:
            results[name] = traceback.format_exc()
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
