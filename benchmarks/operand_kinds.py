"""Float32 operands, A m×k and B k×n, of the kinds on which a product may lose accuracy.

Each kind is a function of m, n, k and a random generator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from jobs.formats.elements import Array

Pair = tuple[Array, Array]
Kind = Callable[[int, int, int, np.random.Generator], Pair]
FAR = "far apart along k"
FEW = 4  # rows or columns that differ from the others
OTHER_UNITS = 20  # binades between them and the others, up or down
UNITS_ALONG_K = 40  # binades
DOMINANT = 1e7
SECONDS_SINCE_1970 = 1.7e9


def _normal(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    return rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)


def _uniform(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    return rng.random((m, k), np.float32), rng.random((k, n), np.float32)


def _over_binades(binades: int) -> Kind:
    def binades_apart(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
        """Magnitudes spread evenly over this many binades, everywhere."""
        a, b = _normal(m, n, k, rng)
        for each in (a, b):
            each *= np.exp2((rng.random(each.shape, np.float32) - np.float32(0.5)) * binades)
        return a, b

    return binades_apart


def _cancelling(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """The second half of k cancels what the first has added, except for a thousandth."""
    a, b = _normal(m, n, k, rng)
    half = k // 2
    a[:, half : 2 * half], a[:, 2 * half :] = a[:, :half], 0.0
    b[half : 2 * half] = -b[:half] * (1 + 1e-3 * rng.standard_normal((half, n), np.float32))
    return a, b


def _far(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """A's columns grow as B's rows shrink, so every term matters, and none is close to the largest element of both its
    row and column."""
    a, b = _normal(m, n, k, rng)
    scales = np.exp2(np.linspace(-15, 15, k)).astype(np.float32)
    return a * scales, b / scales[:, np.newaxis]


def _opposed(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """Magnitudes over 20 binades, rising along each row of A and falling down each column of B."""
    a, b = _over_binades(20)(m, n, k, rng)
    rising, falling = np.argsort(np.abs(a), axis=1), np.argsort(-np.abs(b), axis=0)
    return np.take_along_axis(a, rising, axis=1), np.take_along_axis(b, falling, axis=0)


def _few(count: int, rng: np.random.Generator) -> Array:
    chosen: Array = rng.choice(count, min(FEW, count), replace=False)
    return chosen


def _units(count: int, rng: np.random.Generator) -> Array:
    """Powers of two, each at most OTHER_UNITS binades up or down, and at least half as many."""
    binades = rng.integers(OTHER_UNITS // 2, OTHER_UNITS, count, endpoint=True) * rng.choice((-1, 1), count)
    units: Array = np.exp2(binades).astype(np.float32)
    return units


def _scales_along_k(k: int, rng: np.random.Generator) -> Array:
    """D: powers of two over UNITS_ALONG_K binades."""
    half = UNITS_ALONG_K // 2
    scales: Array = np.exp2(rng.integers(-half, half, k, endpoint=True)).astype(np.float32)
    return scales


def _units_of_rows(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """A few rows of A in units other than the rest."""
    a, b = _normal(m, n, k, rng)
    rows = _few(m, rng)
    a[rows] *= _units(len(rows), rng)[:, np.newaxis]
    return a, b


def _units_of_columns(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """A few columns of B in units other than the rest."""
    b, a = _units_of_rows(n, m, k, rng)
    return np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)


def _units_of_features(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """A few columns of A in other units, while B's rows are unscaled."""
    a, b = _normal(m, n, k, rng)
    columns = _few(k, rng)
    a[:, columns] *= _units(len(columns), rng)
    return a, b


def _units_along_k(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """A·D and D⁻¹·B: the product is that of normal operands."""
    a, b = _normal(m, n, k, rng)
    scales = _scales_along_k(k, rng)
    return a * scales, b / scales[:, np.newaxis]


def _units_along_k_in_few_rows(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """D⁻¹·B, and A·D in a few rows of A alone."""
    a, b = _normal(m, n, k, rng)
    scales, rows = _scales_along_k(k, rng), _few(m, rng)
    a[rows] *= scales
    return a, b / scales[:, np.newaxis]


def _graded(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """Magnitudes fall geometrically along the rows and the columns of both operands, by 2⁻³⁰ each."""
    a, b = _normal(m, n, k, rng)
    down_a, along, along_b = (np.exp2(-np.linspace(0, 30, size)).astype(np.float32) for size in (m, k, n))
    return a * down_a[:, np.newaxis] * along, b * along[:, np.newaxis] * along_b


def _log_normal(sigma: float) -> Kind:
    def log_normal(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
        """Magnitudes exp(σ·z) with z normal, signs at random."""
        a, b = (np.exp(np.float32(sigma) * each) for each in _normal(m, n, k, rng))
        for each in (a, b):
            each *= rng.integers(0, 2, each.shape, np.int8) * np.float32(2) - np.float32(1)
        return a, b

    return log_normal


def _sparse(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """One element in a hundred is nonzero."""
    a, b = _normal(m, n, k, rng)
    for each in (a, b):
        each[rng.random(each.shape, np.float32) >= 0.01] = 0.0
    return a, b


def _activations(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """A layer of a network: activations after ReLU, half of them zero, times weights of standard deviation 1/√k."""
    a, b = _normal(m, n, k, rng)
    return np.maximum(a, 0.0), b / np.float32(max(1, k) ** 0.5)


def _embedding(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """Each row of A picks one row of B."""
    a, b = np.zeros((m, k), np.float32), _normal(m, n, k, rng)[1]
    if k:
        a[np.arange(m), rng.integers(0, k, m)] = 1.0
    return a, b


def _bias(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """Normalised features beside a column of ones, whose coefficients are large."""
    a, b = _normal(m, n, k, rng)
    a[:, :1] = 1.0
    b[:1] *= 1000.0
    return a, b


def _time_stamp(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """A column of seconds since 1970 beside normalised features; its coefficients are zero."""
    a, b = _normal(m, n, k, rng)
    a[:, :1] = SECONDS_SINCE_1970 + 1e6 * rng.random((m, min(1, k)), np.float32)
    b[:1] = 0.0
    return a, b


def _hidden(scale: float, *, columns: int = 0) -> Kind:
    def hidden(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
        """One row of A is small compared with its first element. That element meets a row of B that is `scale` times
        normal, and normal in its first `columns`."""
        a, b = _normal(m, n, k, rng)
        a[:1, 1:] *= np.float32(2.0**-16)
        a[:1, :1] = 1.0
        b[:1, columns:] *= np.float32(scale)
        return a, b

    return hidden


def _two_hidden(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """Two large elements of A; the first meets a row of zeros."""
    a, b = _normal(m, n, k, rng)
    a[:1, :1] = a[1:2, 1:2] = 2.0**20
    b[:1] = 0.0
    return a, b


def _dominant_row(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """One row of A is far larger than the others."""
    a, b = _normal(m, n, k, rng)
    a[rng.integers(0, m)] *= np.float32(DOMINANT)
    return a, b


def _dominant_column(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    """One column of B is far larger than the others."""
    a, b = _normal(m, n, k, rng)
    b[:, rng.integers(0, n)] *= np.float32(DOMINANT)
    return a, b


KINDS: Mapping[str, Kind] = {
    "normal": _normal,
    "uniform(0, 1)": _uniform,
    "12 binades in a row": _over_binades(12),
    "40 binades in a row": _over_binades(40),
    "cancelling halves": _cancelling,
    FAR: _far,
    "opposed along k": _opposed,
    "a few rows of A in other units": _units_of_rows,
    "a few columns of B in other units": _units_of_columns,
    "a few features in other units": _units_of_features,
    "units along k": _units_along_k,
    "units along k, a few rows": _units_along_k_in_few_rows,
    "graded": _graded,
    **{f"log-normal, σ = {sigma}": _log_normal(sigma) for sigma in (1, 2, 3, 5)},
    "1 % non-zero": _sparse,
    "activations and weights": _activations,
    "embedding": _embedding,
    "bias": _bias,
    "time stamp": _time_stamp,
    "a large element that meets zeros": _hidden(0.0),
    "a large element that meets tiny ones": _hidden(2.0**-40),
    "a large element that meets one column": _hidden(0.0, columns=1),
    "two large elements": _two_hidden,
    "one dominant row": _dominant_row,
    "one dominant column": _dominant_column,
}


def square(kind: str, size: int, rng: np.random.Generator) -> Pair:
    """Square operands of a kind."""
    return KINDS[kind](size, size, size, rng)
