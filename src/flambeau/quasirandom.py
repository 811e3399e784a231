"""Numbers that fill a cube more evenly than random ones: Sobol sequences."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, Self

import numpy as np

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = ["SobolEngine"]
__dir__ = __all__.copy


def _table() -> tuple[np.ndarray, np.ndarray]:
    """Primitive polynomials and first direction numbers of each dimension, by Joe and Kuo (2008): the table in SciPy.

    Reading it does not import SciPy, which takes longer than computing the points.
    """
    found = importlib.util.find_spec("scipy")
    folders = found.submodule_search_locations if found else None
    if not folders:
        raise ImportError("SobolEngine: the direction numbers of Sobol sequences come with SciPy: pip install scipy")
    with np.load(Path(folders[0], "stats", "_sobol_direction_numbers.npz")) as table:
        return table["poly"], table["vinit"]


def _directions(dimension: int, bits: int) -> np.ndarray:
    """(dimension, bits): which bits of a point each bit of its number flips, as an integer."""
    polynomials, first = (part[:dimension].astype(np.int64) for part in _table())
    m = np.zeros((dimension, bits), np.int64)
    m[:, : first.shape[1]] = first
    m[0] = 1  # the first dimension has no polynomial: it counts in binary
    degrees = np.log2(polynomials).astype(np.int64)
    for s in range(1, int(degrees.max()) + 1):
        rows = np.flatnonzero(degrees == s)
        for j in range(s, bits):
            value = m[rows, j - s] ^ (m[rows, j - s] << s)
            for k in range(1, s):
                value ^= ((polynomials[rows] >> (s - k)) & 1) * (m[rows, j - k] << k)
            m[rows, j] = value
    return m << np.arange(bits - 1, -1, -1)


class SobolEngine:
    """A Sobol sequence: points of the unit cube that leave no large holes, however many are drawn.

    The sequence is PyTorch's; scrambling draws from this library's generator, so scrambled points are others. Powers
    of two of points are balanced best (`draw_base2`). Needs SciPy, for its table of direction numbers.

    Args:
        dimension: of the cube, 1 to 21201.
        scramble: mix the digits at random, in a way that keeps the points even; integrals are then estimated without
            bias.
        seed: of the scrambling; the default generator is used when not given.

    Example:
        >>> engine = fb.quasirandom.SobolEngine(dimension=2)
        >>> engine.draw(4)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500],
                [0.2500, 0.7500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not isinstance(dimension, int) or not 1 <= dimension <= self.MAXDIM:
            raise ArgumentError(f"SobolEngine: dimension must be an integer from 1 to {self.MAXDIM}, got {dimension!r}")
        self.dimension, self.scramble, self.seed = dimension, bool(scramble), seed
        self.num_generated = 0
        self.sobolstate = fb.from_numpy(_directions(dimension, self.MAXBIT))
        self.shift = fb.zeros(dimension, dtype=fb.int64)
        if self.scramble:
            self._scramble()

    def _scramble(self) -> None:
        """Multiplies the binary digits of each dimension by a random lower triangular matrix and flips some at random."""
        generator = None if self.seed is None else fb.Generator().manual_seed(self.seed)
        size = self.MAXBIT
        powers = 2 ** fb.arange(size - 1, -1, -1)  # the first digit is the highest bit
        self.shift = (fb.randint(2, (self.dimension, size), generator=generator) * powers).sum(1)
        matrix = fb.randint(2, (self.dimension, size, size), generator=generator).to(fb.float32).tril(-1) + fb.eye(size, dtype=fb.float32)
        digits = ((self.sobolstate.unsqueeze(1) // powers.unsqueeze(1)) % 2).to(fb.float32)  # (dimension, digit, direction)
        mixed = (matrix @ digits).to(fb.int64) % 2
        self.sobolstate = (mixed * powers.unsqueeze(1)).sum(1)

    def _points(self, first: int, n: int) -> Tensor:
        """Points first … first + n - 1 as integers: each is the exclusive or of the directions of its Gray code's bits."""
        number = fb.arange(first, first + n)
        code = number ^ (number >> 1)
        points = self.shift.expand(n, -1).clone()
        for bit in range((first + n - 1).bit_length()):
            points ^= (code >> bit & 1).unsqueeze(1) * self.sobolstate[:, bit]
        return points

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next points of the sequence.

        Args:
            n: how many.
            out: a tensor to write them to.
            dtype: of the result; the default dtype when not given.

        Returns:
            (n, dimension), in [0, 1).
        """
        if not isinstance(n, int) or n < 0:
            raise ArgumentError(f"SobolEngine.draw: n must be an integer and not negative, got {n!r}")
        if self.num_generated + n > 2**self.MAXBIT:
            raise ArgumentError(
                f"SobolEngine.draw: the sequence has 2**{self.MAXBIT} points, of which {self.num_generated} are drawn; got n={n}"
            )
        dtype = dtype or fb.get_default_dtype()
        if not isinstance(dtype, fb.dtype) or not dtype.is_floating_point:
            raise fb.errors.DTypeError(f"SobolEngine.draw: expected a floating point dtype, got {dtype!r}")
        result = (self._points(self.num_generated, n).to(fb.float64) / 2**self.MAXBIT).to(dtype)
        self.num_generated += n
        if out is None:
            return result
        return out.resize_(result.shape).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2ᵐ points; together with those drawn before they must again be a power of two.

        Args:
            m: the logarithm of their number.
            out: a tensor to write them to.
            dtype: of the result; the default dtype when not given.
        """
        if not isinstance(m, int) or not 0 <= m <= self.MAXBIT:
            raise ArgumentError(f"SobolEngine.draw_base2: m must be an integer from 0 to {self.MAXBIT}, got {m!r}")
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ArgumentError(
                f"SobolEngine.draw_base2: {self.num_generated} points were drawn and {n} more make {total}, which is no power of "
                "two; use reset() first, or draw(n)"
            )
        return self.draw(n, out=out, dtype=dtype)

    def reset(self) -> Self:
        """Begins the sequence anew; the scrambling stays."""
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> Self:
        """Skips the next points.

        Args:
            n: how many.
        """
        if not isinstance(n, int) or n < 0:
            raise ArgumentError(f"SobolEngine.fast_forward: n must be an integer and not negative, got {n!r}")
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        text = f"dimension={self.dimension}"
        if self.scramble:
            text += ", scramble=True"
        if self.seed is not None:
            text += f", seed={self.seed}"
        return f"SobolEngine({text})"
