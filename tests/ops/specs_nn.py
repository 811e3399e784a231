"""Ops that nn.functional calls after its own checks: activations with their numbers, and the linear map."""

from __future__ import annotations

import numpy as np
from scipy import special as sp

from .samples import EDGE_SHAPES, LARGE, elementwise, make
from .spec import FLOATS, OpSpec, S, T, bad


def _activation(name, reference, lo=-5.0, hi=5.0, **numbers):
    def samples(shapes=((3, 4), (7,), (2, 3, 5))):
        return elementwise((lo, hi), shapes=shapes, **numbers)

    return OpSpec(
        f"_nn.{name}",
        lambda x, a=0.0, b=0.0, c=0.0: reference(x, a, b, c),
        samples(),
        FLOATS,
        "same",
        method=False,
        edge=samples(EDGE_SHAPES),
        large=samples(((LARGE + 13,),)),
        errors=(
            bad("a string", TypeError, "no tensor"),
            bad("an integer tensor", RuntimeError, T(np.ones(2), "int64"), **numbers),
        ),
        domains=((lo, hi),),
    )


def _gelu(x, a, b, c):
    return x * sp.ndtr(x)


def _gelu_tanh(x, a, b, c):
    return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2


def _linear(x, weight, bias=None):
    return x @ weight.T + (0 if bias is None else bias)


def _linear_samples(dtype):
    weight, bias = make(dtype, (4, 3), salt=1), make(dtype, (4,), salt=2)
    for shape in ((3,), (2, 3), (5, 2, 3), (0, 3)):
        yield S(make(dtype, shape), weight)
        yield S(make(dtype, shape), weight, bias)


ROWS = [
    _activation("gelu", _gelu),
    _activation("gelu_tanh", _gelu_tanh),
    _activation("silu", lambda x, a, b, c: x * sp.expit(x)),
    _activation("mish", lambda x, a, b, c: x * np.tanh(np.log1p(np.exp(x)))),
    _activation("softplus", lambda x, a, b, c: np.where(x * a > b, x, np.log1p(np.exp(x * a)) / a), a=1.5, b=4.0),
    _activation("logsigmoid", lambda x, a, b, c: sp.log_expit(x)),
    _activation("elu", lambda x, a, b, c: np.where(x > 0, b * x, a * np.expm1(c * x)), a=1.5, b=1.25, c=0.5),
    _activation("leaky_relu", lambda x, a, b, c: np.where(x > 0, x, a * x), a=0.125),
    _activation("hardtanh", lambda x, a, b, c: np.clip(x, a, b), a=-1.5, b=2.25),
    _activation("hardsigmoid", lambda x, a, b, c: np.clip(x + 3, 0, 6) / 6),
    _activation("hardswish", lambda x, a, b, c: x * np.clip(x + 3, 0, 6) / 6),
    OpSpec(
        "_nn.linear",
        _linear,
        _linear_samples,
        FLOATS,
        "same",
        method=False,
        errors=(
            bad("sizes that do not fit", RuntimeError, T(np.ones((2, 3)), "float32"), T(np.ones((4, 5)), "float32")),
            bad("dtypes that differ", RuntimeError, T(np.ones((2, 3)), "float32"), T(np.ones((4, 3)), "float64")),
        ),
    ),
]
