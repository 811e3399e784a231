"""Valid calls of functions written in Python (nn.functional, fft, windows), for the fuzzer to spoil."""

from __future__ import annotations

from typing import Any

import numpy as np

from .registry import FUNCTION, Overload
from .spec import S, T


def x(*shape: int, dtype: str = "float32") -> T:
    """Values from -1 to 1, none of them equal."""
    count = int(np.prod(shape))
    return T(np.linspace(-1, 1, count, endpoint=False).reshape(shape) if count else np.zeros(shape), dtype)


def p(*shape: int) -> T:
    """Values from 0.1 to 0.9."""
    return T(np.linspace(0.1, 0.9, int(np.prod(shape))).reshape(shape), "float32")


def i(*shape: int, below: int = 3, dtype: str = "int64") -> T:
    return T(np.arange(int(np.prod(shape))).reshape(shape) % below, dtype)


def signs(*shape: int) -> T:
    return T(np.arange(int(np.prod(shape))).reshape(shape) % 2 * 2 - 1, "float32")


IMAGES = (x(2, 3, 7), x(2, 3, 6, 5), x(2, 3, 5, 4, 6))


def pooling(name: str) -> dict[str, list[S]]:
    """Samples for 1, 2 and 3 dimensions."""
    found: dict[str, list[S]] = {}
    for n, image in enumerate(IMAGES, 1):
        one = x(*image.shape[1:])
        if name == "adaptive_max_pool":
            calls = [S(image, 2), S(one, (2,) * n, return_indices=True), S(image, (None,) * (n - 1) + (3,))]
            found[f"{name}{n}d_with_indices"] = calls
        elif name == "adaptive_avg_pool":
            calls = [S(image, 2), S(one, (3,) * n), S(x(*image.shape, dtype="float64"), 1)]
        elif name == "max_pool":
            calls = [S(image, 2), S(image, 3, 2, 1, ceil_mode=True), S(one, (2,) * n, dilation=2, return_indices=True)]
            found[f"{name}{n}d_with_indices"] = calls
        elif name == "avg_pool":
            calls = [S(image, 2), S(image, 3, 2, 1, True, False), S(one, (2,) * n)]
        elif name == "lp_pool":
            calls = [S(image, 2.0, 2), S(image, 1.5, 3, 2, True)]
        elif name == "max_unpool":
            small = (2, 3, *(2,) * n)
            calls = [S(x(*small), i(*small, below=2), 2), S(x(*small[1:]), i(*small[1:], below=2), 2, 2, 0, (4,) * n)]
        elif name == "conv":
            weight = x(4, 3, *(2,) * n)
            calls = [S(image, weight), S(image, weight, x(4), 2, 1, 2), S(image, x(6, 1, *(3,) * n), None, 1, 1, 1, 3),
                     S(one, weight, x(4), padding="same"), S(x(*image.shape, dtype="float64"), x(4, 3, *(2,) * n, dtype="float64"))]
        else:  # conv_transpose
            weight = x(3, 2, *(3,) * n)
            calls = [S(image, weight), S(image, weight, x(2), 2, 1, 1, 1, 1), S(image, x(3, 1, *(2,) * n), x(3), groups=3),
                     S(one, weight, padding=1)]  # fmt: skip
        found[f"{name}{n}d"] = calls
    return found


def fractional(n: int) -> list[S]:
    image = x(2, 3, *(6,) * n)
    samples = T(np.full((2, 3, n), 0.4), "float32")
    return [S(image, 2, 3), S(image, 2, output_ratio=0.5, return_indices=True), S(image, (2,) * n, 4, None, False, samples)]


def losses(*samples: S) -> list[S]:
    """The same calls with every reduction."""
    return [S(*s.args, **s.kwargs, reduction=how) for s in samples for how in ("mean", "sum", "none")]


A, B = x(4, 5), p(4, 5)
SAME = losses(S(A, B), S(A, x(4, 5)), S(x(2, 3, 4), p(2, 3, 4)))
PLAIN = [S(A), S(x(2, 3, 4, dtype="float64")), S(x(3, dtype="bfloat16"))]
Q = x(2, 4, 6, 8)

TABLE: dict[str, list[S]] = {
    **{k: v for name in ("adaptive_avg_pool", "adaptive_max_pool", "avg_pool", "max_pool", "lp_pool", "max_unpool", "conv",
                         "conv_transpose") for k, v in pooling(name).items()},
    "fractional_max_pool2d": fractional(2), "fractional_max_pool2d_with_indices": fractional(2),
    "fractional_max_pool3d": fractional(3), "fractional_max_pool3d_with_indices": fractional(3),
    "affine_grid": [S(x(2, 2, 3), (2, 3, 4, 5), align_corners=False), S(x(2, 3, 4), (2, 1, 3, 4, 5), True)],
    "grid_sample": [S(x(2, 3, 4, 5), x(2, 3, 3, 2), mode, pad, True) for mode in ("bilinear", "nearest", "bicubic")
                    for pad in ("zeros", "border", "reflection")] + [S(x(1, 2, 3, 4, 5), x(1, 2, 2, 2, 3), align_corners=False)],
    "interpolate": [S(IMAGES[1], (4, 9), mode=m) for m in ("nearest", "bilinear", "bicubic", "area", "nearest-exact")]
    + [S(IMAGES[0], scale_factor=1.7, mode="linear", align_corners=True), S(IMAGES[2], 3, mode="trilinear"),
       S(IMAGES[1], (3, 3), mode="bilinear", antialias=True)],
    "upsample": [S(IMAGES[1], (4, 9)), S(IMAGES[1], None, 2, "bilinear")],
    "upsample_bilinear": [S(IMAGES[1], (4, 9)), S(IMAGES[1], None, 2)], "upsample_nearest": [S(IMAGES[1], (4, 9)), S(IMAGES[1], None, 2)],
    "unfold": [S(x(2, 3, 6, 5), 2), S(x(2, 3, 6, 5), (2, 3), 1, 1, 2)],
    "fold": [S(x(2, 12, 20), (6, 5), 2), S(x(2, 8, 9), (4, 4), 2)],
    "pad": [S(IMAGES[1], (1, 2, 0, 1), m) for m in ("constant", "reflect", "replicate", "circular")] + [S(A, (-1, 1), value=2.0)],
    "pixel_shuffle": [S(x(2, 8, 3, 3), 2)], "pixel_unshuffle": [S(x(2, 2, 4, 6), 2)], "channel_shuffle": [S(x(2, 6, 3, 3), 3)],
    "batch_norm": [S(IMAGES[1], x(3), p(3), p(3), x(3), training) for training in (True, False)] + [S(A, None, None, training=True)],
    "instance_norm": [S(IMAGES[1]), S(IMAGES[1], x(3), p(3), p(3), x(3), False)],
    "layer_norm": [S(A, (5,), p(5), x(5)), S(x(2, 3, 4), [3, 4])], "rms_norm": [S(A, (5,), p(5)), S(x(2, 3, 4), [3, 4])],
    "group_norm": [S(x(2, 6, 4), 3, p(6), x(6)), S(x(2, 4), 2)],
    "local_response_norm": [S(IMAGES[1], 2), S(IMAGES[0], 3, 0.1, 0.5, 2.0)],
    "normalize": [S(A), S(A, 1.0, 0), S(x(3), 3.0, 0)],
    "linear": [S(A, x(3, 5), x(3)), S(x(2, 3, 5), x(4, 5)), S(x(5), x(3, 5))],
    "bilinear": [S(x(4, 3), x(4, 2), x(5, 3, 2), x(5))],
    "embedding": [S(i(2, 4), x(3, 5)), S(i(4), x(3, 5), 1, 1.0), S(i(4), x(3, 5), scale_grad_by_freq=True)],
    "embedding_bag": [S(i(2, 4), x(3, 5), mode=m) for m in ("sum", "mean", "max")]
    + [S(i(6), x(3, 5), T(np.array([0, 2, 2, 6]), "int64"), mode="sum", per_sample_weights=p(6), include_last_offset=True)],
    "one_hot": [S(i(2, 3), 4), S(i(5))],
    "scaled_dot_product_attention": [S(Q, Q, Q), S(Q, x(2, 4, 5, 8), x(2, 4, 5, 7), x(6, 5)), S(Q, Q, Q, None, 0.5, True),
                                     S(Q, x(2, 2, 6, 8), x(2, 2, 6, 8), enable_gqa=True), S(Q, Q, Q, T(np.ones((6, 6)) > 0, "bool"))],
    "multi_head_attention_forward": [S(x(3, 2, 4), x(5, 2, 4), x(5, 2, 4), 4, 2, x(12, 4), x(12), None, None, False, 0.0, x(4, 4), x(4))],
    "grouped_mm": [S(x(2, 3, 8), x(2, 8, 5)), S(x(6, 8), x(2, 8, 5), offs=T(np.array([2, 6]), "int32"))],
    "linear_cross_entropy": losses(S(A, x(3, 5), i(4))),
    "cross_entropy": losses(S(x(4, 3), i(4)), S(x(4, 3), i(4), p(3), label_smoothing=0.1),
                            S(x(2, 3, 4), i(2, 4), ignore_index=1), S(x(4, 3), p(4, 3))),
    "nll_loss": losses(S(x(4, 3), i(4)), S(x(4, 3), i(4), p(3)), S(x(2, 3, 4, 5), i(2, 4, 5), ignore_index=1), S(x(3), i())),
    "ctc_loss": losses(S(x(6, 2, 4), T(np.array([[1, 2, 3], [2, 2, 1]]), "int64"), [6, 5], [3, 2]),
                       S(x(6, 2, 4), T(np.array([1, 2, 3, 2, 2]), "int64"), i(2, below=1), T(np.array([3, 2]), "int64"),
                         zero_infinity=True)),
    "multi_margin_loss": losses(S(x(4, 3), i(4)), S(x(4, 3), i(4), 2, 0.5, p(3))),
    "multilabel_margin_loss": losses(S(x(2, 3), T(np.array([[0, 2, -1], [1, -1, 0]]), "int64"))),
    "multilabel_soft_margin_loss": losses(S(A, B), S(A, B, p(5))),
    "binary_cross_entropy": losses(S(p(4, 5), B), S(p(4, 5), B, p(5))),
    "binary_cross_entropy_with_logits": losses(S(A, B), S(A, B, p(5), pos_weight=p(5))),
    "gaussian_nll_loss": losses(S(A, B, p(4, 5)), S(A, B, p(4, 1), True)),
    "poisson_nll_loss": losses(S(A, B), S(p(4, 5), B, False, True)),
    "kl_div": losses(S(A, B), S(A, x(4, 5), log_target=True)),
    "margin_ranking_loss": losses(S(x(4), p(4), signs(4))), "hinge_embedding_loss": losses(S(A, signs(4, 5))),
    "soft_margin_loss": losses(S(A, signs(4, 5))), "cosine_embedding_loss": losses(S(A, B, signs(4), 0.1)),
    "triplet_margin_loss": losses(S(A, B, x(4, 5), swap=True)), "triplet_margin_with_distance_loss": losses(S(A, B, x(4, 5))),
    "cosine_similarity": [S(A, B), S(A, x(5), -1)], "pairwise_distance": [S(A, B), S(A, B, 1.0, keepdim=True)], "pdist": [S(A), S(A, 1.0)],
    "mse_loss": [*SAME, *losses(S(A, B, weight=p(4, 5)))], "l1_loss": SAME, "smooth_l1_loss": SAME, "huber_loss": SAME,
    "softmax": [S(A, 1), S(x(2, 3, 4), 0)], "log_softmax": [S(A, 1), S(x(2, 3, 4), 0)], "softmin": [S(A, 1)],
    "gumbel_softmax": [S(A), S(A, 0.5, True)], "glu": [S(x(3, 4)), S(x(4, 3), 0)], "prelu": [S(A, p(5)), S(IMAGES[1], p(1))],
    "threshold": [S(A, 0.1, 2.0), S(A, 0.1, 2.0, True)], "threshold_": [S(A, 0.1, 2.0)],
    "rrelu": [S(A), S(A, 0.1, 0.3, True)], "rrelu_": [S(A, 0.1, 0.3, True)], "gelu": [*PLAIN, S(A, "tanh")],
    **{name: [*PLAIN, S(IMAGES[1], 0.3, True), S(IMAGES[0], 0.3, True, True)]
       for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")},
    **{name: [*PLAIN, S(A, 0.5)]
       for name in ("celu", "celu_", "elu", "elu_", "hardshrink", "leaky_relu", "leaky_relu_", "softplus", "softshrink")},
    **{name: PLAIN for name in ("hardsigmoid", "hardswish", "hardtanh", "hardtanh_", "logsigmoid", "mish", "relu", "relu6", "relu_", "selu",
                                "selu_", "sigmoid", "silu", "softsign", "tanh", "tanhshrink")},
}  # fmt: skip

C = x(4, 5, dtype="complex64")
FOURIER: dict[str, list[S]] = {
    **{name: [S(A), S(C, 3, 0, "ortho"), S(x(6, dtype="float64"), 8)] for name in ("fft", "ifft", "hfft", "irfft")},
    **{name: [S(A), S(A, 3, 0, "forward")] for name in ("rfft", "ihfft")},
    **{name: [S(C), S(C, (3, 4), (0, 1))] for name in ("fft2", "ifft2", "irfft2", "hfft2", "fftn", "ifftn", "irfftn", "hfftn")},
    **{name: [S(A), S(A, (3, 4), (0, 1))] for name in ("rfft2", "rfftn", "ihfft2", "ihfftn")},
    **{name: [S(A), S(A, 1)] for name in ("fftshift", "ifftshift")},
    "fftfreq": [S(5), S(6, 0.5)], "rfftfreq": [S(5), S(6, 0.5)],
}  # fmt: skip
MATRICES: dict[str, list[S]] = {
    "lstm_cell": [S(x(2, 3), (x(2, 4), x(2, 4)), x(16, 3), x(16, 4), x(16), x(16))],
    "gru_cell": [S(x(2, 3), x(2, 4), x(12, 3), x(12, 4), x(12), x(12))],
    "lstm": [S(x(5, 2, 3), (x(1, 2, 4), x(1, 2, 4)), [x(16, 3), x(16, 4), x(16), x(16)], True, 1, 0.0, True, False, False)],
    "gru": [S(x(5, 2, 3), x(1, 2, 4), [x(12, 3), x(12, 4), x(12), x(12)], True, 1, 0.0, True, False, False)],
    "rnn_tanh": [S(x(5, 2, 3), x(1, 5, 4), [x(4, 3), x(4, 4), x(4), x(4)], True, 1, 0.0, True, False, True)],
    "einsum": [S("ij,jk->ik", x(2, 3), x(3, 4)), S("bij,bjk->bik", x(2, 2, 3), x(2, 3, 4)), S("ii->i", x(3, 3))],
}


def _row(name: str) -> Overload:
    return Overload(name, (), "any", FUNCTION, name)


def _named(space: str, table: dict[str, list[S]]) -> dict[str, tuple[Overload, list[S]]]:
    return {f"{space}{name}": (_row(f"{space}{name}"), samples) for name, samples in sorted(table.items())}


# name → its row, and valid calls
FUNCTIONS: dict[str, Any] = {**_named("nn.functional.", TABLE), **_named("fft.", FOURIER), **_named("", MATRICES)}
