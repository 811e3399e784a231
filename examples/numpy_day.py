"""Typical NumPy work done with flambeau, with every result checked against NumPy.

    python examples/numpy_day.py --rows 20000

Synthetic weather measurements of a few stations are generated, cleaned, described, grouped, fitted and decomposed.
"""

import argparse
import time

import numpy as np

import flambeau as fb

STATIONS = 12


def same(got, wanted, tolerance=1e-9):
    """Raises an error when flambeau and NumPy disagree, also in dtype or shape."""
    got = got.numpy() if isinstance(got, fb.Tensor) else np.asarray(got)
    wanted = np.asarray(wanted)
    assert got.shape == wanted.shape, f"shape {got.shape} is not {wanted.shape}"
    assert got.dtype == wanted.dtype, f"dtype {got.dtype} is not {wanted.dtype}"
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def synthesise(rows):
    """Columns: temperature, humidity, pressure, wind; some temperatures are missing."""
    station = fb.randint(0, STATIONS, (rows,))
    day = fb.rand(rows, dtype=fb.float64) * 365
    season = fb.cos((day - 200) * (2 * fb.pi / 365))
    temperature = 10 + 9 * season + 0.5 * station + fb.randn(rows, dtype=fb.float64)
    humidity = (70 - 1.5 * temperature + 5 * fb.randn(rows, dtype=fb.float64)).clamp(0, 100)
    pressure = 1013 + 8 * fb.randn(rows, dtype=fb.float64)
    wind = fb.empty(rows, dtype=fb.float64).exponential_(0.3)
    temperature[fb.rand(rows) < 0.01] = fb.nan
    return station, day, fb.stack([temperature, humidity, pressure, wind], dim=1)


def clean(table):
    """Missing values are found by a mask and replaced by the mean of the rest."""
    array = table.numpy().copy()
    missing = table.isnan()
    same(missing, np.isnan(array))
    filled = fb.where(missing, table.nanmean(dim=0), table)
    same(filled, np.where(np.isnan(array), np.nanmean(array, axis=0), array))
    good_rows = table[~missing.any(dim=1)]
    same(good_rows, array[~np.isnan(array).any(axis=1)])
    return filled


def describe(table):
    array = table.numpy()
    same(table.mean(axis=0), array.mean(axis=0))
    same(table.std(dim=0, correction=1), array.std(axis=0, ddof=1))
    same(table.amin(dim=0), array.min(axis=0))
    same(table.argmax(dim=0), array.argmax(axis=0))
    same(table.median(dim=0).values, np.sort(array, axis=0)[(len(array) - 1) // 2])
    levels = fb.tensor([0.05, 0.25, 0.5, 0.95], dtype=fb.float64)
    same(fb.quantile(table, levels, dim=0), np.quantile(array, levels.numpy(), axis=0))
    same(fb.corrcoef(table.T), np.corrcoef(array.T))
    same(table.cumsum(dim=0)[-1], array.cumsum(axis=0)[-1])


def order(table, station):
    array, stations = table.numpy(), station.numpy()
    by_wind = table[:, 3].argsort(descending=True, stable=True)
    same(table[by_wind[:10]], array[np.argsort(-array[:, 3], kind="stable")[:10]])
    strongest, where = table[:, 3].topk(5)
    same(strongest, np.sort(array[:, 3])[::-1][:5])
    same(table[where, 3], strongest.numpy())
    names, inverse, counts = fb.unique(station, return_inverse=True, return_counts=True)
    for got, wanted in zip(
        (names, inverse, counts), np.unique(stations, return_inverse=True, return_counts=True), strict=True
    ):
        same(got, wanted)
    edges = fb.linspace(0, 40, 21, dtype=fb.float64)
    same(fb.searchsorted(edges, table[:, 0]), np.searchsorted(edges.numpy(), array[:, 0]))


def group(table, station):
    """Means per station: sums collected by index_add, divided by counts."""
    sums = fb.zeros(STATIONS, 4, dtype=fb.float64).index_add(0, station, table)
    counts = fb.bincount(station, minlength=STATIONS)
    means = sums / counts[:, None]
    wanted = np.zeros((STATIONS, 4))
    np.add.at(wanted, station.numpy(), table.numpy())
    wanted /= np.bincount(station.numpy(), minlength=STATIONS)[:, None]
    same(means, wanted)
    warmest = fb.full((STATIONS,), -fb.inf, dtype=fb.float64).scatter_reduce(0, station, table[:, 0], reduce="amax")
    expected = np.full(STATIONS, -np.inf)
    np.maximum.at(expected, station.numpy(), table[:, 0].numpy())
    same(warmest, expected)
    return means


def fit(table, day):
    """Least squares: temperature from a yearly wave and the humidity."""
    angle = day * (2 * fb.pi / 365)
    design = fb.stack([fb.ones_like(day), fb.cos(angle), fb.sin(angle), table[:, 1]], dim=1)
    weights = fb.linalg.lstsq(design, table[:, :1]).solution
    same(weights, np.linalg.lstsq(design.numpy(), table[:, :1].numpy(), rcond=None)[0], 1e-7)
    residual = table[:, :1] - design @ weights
    return 1 - (residual.var() / table[:, 0].var()).item()


def principal_components(table):
    scaled = (table - table.mean(dim=0)) / table.std(dim=0)
    u, s, vh = fb.linalg.svd(scaled, full_matrices=False)
    same(s, np.linalg.svd(scaled.numpy(), compute_uv=False), 1e-8)
    same((u * s) @ vh, scaled.numpy(), 1e-8)
    # The same variances by another way: eigenvalues of the correlation matrix, smallest first.
    eigenvalues = fb.linalg.eigvalsh(fb.einsum("ni,nj->ij", scaled, scaled) / (len(scaled) - 1))
    same(eigenvalues.flip(0), (s**2 / (len(scaled) - 1)).numpy(), 1e-8)
    return s**2 / (s**2).sum()


def histogram(table):
    counts = fb.histc(table[:, 2], bins=20, min=980, max=1040)
    wanted = np.histogram(table[:, 2].numpy(), bins=20, range=(980, 1040))[0]
    same(counts, wanted.astype(np.float64))
    return counts


def contractions(table):
    array = table.numpy()
    weights = fb.linspace(0, 1, 4, dtype=fb.float64)
    same(fb.einsum("nc,c->n", table, weights), np.einsum("nc,c->n", array, weights.numpy()))
    same(fb.tensordot(table, table, dims=([0], [0])), np.tensordot(array, array, axes=([0], [0])))
    blocks = table[: len(table) // 5 * 5].reshape(-1, 5, 4)
    same(blocks.mT @ blocks, blocks.numpy().swapaxes(1, 2) @ blocks.numpy())


def sampling(table):
    """The same seed gives the same rows; a bootstrap estimates the error of the mean."""
    generator = fb.Generator().manual_seed(7)
    first = fb.randperm(len(table), generator=generator)[:100]
    again = fb.randperm(len(table), generator=fb.Generator().manual_seed(7))[:100]
    same(first, again.numpy())
    assert len(fb.unique(first)) == 100
    draws = fb.randint(0, len(table), (200, len(table)), generator=generator)
    means = table[:, 0][draws].mean(dim=1)
    same(means, table.numpy()[draws.numpy(), 0].mean(axis=1))
    return means.std().item()


def exchange(table):
    """Memory is shared in both directions; NumPy's functions accept tensors."""
    array = table.numpy()
    assert np.shares_memory(array, table.numpy())
    view = fb.from_numpy(array[::-2, 1:3])
    same(view, array[::-2, 1:3])
    kept = array[-1, 1]
    view[0, 0] = -1.0
    assert array[-1, 1] == table[-1, 1].item() == -1.0
    array[-1, 1] = kept
    same(np.asarray(table), array)
    same(np.from_dlpack(table), array)
    same(fb.from_dlpack(array), array)
    same(np.percentile(table, 50, axis=0), np.median(array, axis=0))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000, help="measurements to make up (default 20000)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.rows < 1000:
        parser.error("--rows must be at least 1000, or some groups may be empty")

    start = time.perf_counter()
    fb.manual_seed(args.seed)
    station, day, raw = synthesise(args.rows)
    table = clean(raw)
    describe(table)
    order(table, station)
    means = group(table, station)
    r_squared = fit(table, day)
    shares = principal_components(table)
    counts = histogram(table)
    contractions(table)
    spread = sampling(table)
    exchange(table)

    with fb.printoptions(precision=2):
        print(f"mean of temperature, humidity, pressure, wind for the first stations:\n{means[:3]}")
        print(f"variance explained by the components: {shares}")
    print(f"temperature explained by season and humidity: R^2 = {r_squared:.3f}")
    print(f"fullest pressure bin holds {int(counts.max())} of {args.rows} rows")
    print(f"bootstrap error of the mean temperature: {spread:.4f}")
    print(f"all results equal NumPy's, {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
