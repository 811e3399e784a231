"""A short tour of flambeau: tensors, views, complex numbers, random numbers and linear algebra, ending in a picture.

    python examples/tour.py --size 600 --steps 120

writes examples/out/tour.png and prints what it did and how long each part took.
"""

import argparse
import time
from contextlib import contextmanager
from pathlib import Path

from matplotlib.figure import Figure
from tqdm import tqdm

import flambeau as fb


@contextmanager
def timed(what):
    start = time.perf_counter()
    yield
    print(f"  {what:<58} {1e3 * (time.perf_counter() - start):8.1f} ms")


def first_steps():
    """Broadcasting, type promotion and views on small tensors, printed."""
    column, row = fb.arange(3).reshape(3, 1), fb.tensor([0.5, 1.5])
    print("int64 of shape (3, 1) + float32 of shape (2,):")
    print(column + row)
    x = fb.arange(6)
    x[::2] = -1
    print(f"arange(6) after x[::2] = -1: {x}; reversed, without a copy: {x[::-1]}")
    x[::-1][0] = 100
    print(f"writing through the reversed view reaches the original: {x}\n")


def mandelbrot(size, steps):
    """Smoothed escape times of z -> z * z + c for a grid of complex c."""
    real = fb.linspace(-2.1, 0.7, size)
    imag = fb.linspace(-1.2, 1.2, size).reshape(size, 1)
    c = fb.complex(real.expand(size, size), imag.expand(size, size))
    z = fb.zeros_like(c)
    count = fb.zeros(size, size)
    for _ in tqdm(range(steps), desc="  mandelbrot", leave=False, disable=None if size * steps > 100_000 else True):
        # Points that have left the disc stay where they are, so nothing overflows.
        inside = z.abs() <= 4
        z = fb.where(inside, z * z + c, z)
        count += inside
    radius = z.abs()
    outside = radius > 4
    count[outside] += 1 - fb.log2(fb.log(radius[outside]))
    count[~outside] = 0
    return count


def heat(size, steps):
    """A plate with a hot edge and some hot spots, cooled by explicit steps of the heat equation."""
    u = fb.zeros(size, size)
    u[0] = 1
    spots = fb.randint(size // 8, 3 * size // 4, (6, 2))
    side = size // 8
    for y, x in spots.tolist():
        u[y : y + side, x : x + side] = 1
    inner = u[1:-1, 1:-1]
    for _ in tqdm(range(steps), desc="  heat", leave=False, disable=None if size * steps > 100_000 else True):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        inner += 0.2 * (around - 4 * inner)
    return u


def cloud(points):
    """Correlated normal points and the axes of their spread, from an eigen-decomposition of the covariance."""
    mix = fb.tensor([[2.0, 0.0], [1.2, 0.5]])
    xy = fb.randn(points, 2) @ mix.T
    variances, axes = fb.linalg.eigh(fb.cov(xy.T))
    return xy, variances.sqrt() * axes


def draw(path, escape, plate, points, axes):
    # A bare Figure draws to files; it needs no screen and no global state.
    figure = Figure(figsize=(15, 5), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    left.imshow(escape.sqrt(), cmap="magma", extent=(-2.1, 0.7, -1.2, 1.2))
    left.set_title("Mandelbrot set, smoothed escape time")
    middle.imshow(plate, cmap="inferno")
    middle.set_title("Heat spreading on a plate")
    right.scatter(points[:, 0], points[:, 1], s=2, alpha=0.4)
    for x, y in axes.T.tolist():
        right.annotate("", xy=(2 * x, 2 * y), xytext=(0, 0), arrowprops={"arrowstyle": "->", "lw": 2})
    right.set_aspect("equal")
    right.set_title("Principal axes of random points")
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=500, help="pixels along each side of the images (default 500)")
    parser.add_argument("--steps", type=int, default=150, help="iterations of each simulation (default 150)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default 0)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out", help="output folder")
    args = parser.parse_args()
    if args.size < 16 or args.steps < 1:
        parser.error("--size must be at least 16 and --steps at least 1")

    fb.manual_seed(args.seed)
    print(f"flambeau {fb.__version__}, {fb.get_num_threads()} thread(s)\n")
    first_steps()

    print("drawing:")
    with timed(f"Mandelbrot set, {args.size} x {args.size}, complex64, {args.steps} steps"):
        escape = mandelbrot(args.size, args.steps)
    with timed(f"heat equation, {args.size} x {args.size}, float32, {4 * args.steps} steps"):
        plate = heat(args.size, 4 * args.steps)
    with timed("2000 random points, covariance and eigenvectors"):
        points, axes = cloud(2000)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "tour.png"
    with timed("plot by matplotlib, straight from the tensors"):
        draw(path, escape, plate, points, axes)
    print(f"\nwrote {path}")


if __name__ == "__main__":
    main()
