"""Square float32 operands on which arithmetic made of narrower products may lose single rows, columns or elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from jobs.formats.elements import Array

Pair = tuple[Array, Array]
Make = Callable[[int, np.random.Generator], Pair]


def _normal(size: int, rng: np.random.Generator) -> Pair:
    return rng.standard_normal((size, size), np.float32), rng.standard_normal((size, size), np.float32)


def _below_one(power: int, partner: float, beside: float | None = None) -> Make:
    """A row that is small but for its first element, which meets `partner` in all columns but one."""

    def make(size: int, rng: np.random.Generator) -> Pair:
        a, b = _normal(size, rng)
        a[0] *= np.float32(2.0**-power)
        a[0, 0], b[0] = 1.0, partner
        if beside is not None:
            b[0, 3] = beside
        return a, b

    return make


def _two_large(size: int, rng: np.random.Generator) -> Pair:
    a, b = _normal(size, rng)
    a[0, 0] = a[1, 1] = 2.0**20
    b[0] = 0.0
    return a, b


def _units(binades: float, rows: int | None = None, columns: int | None = None) -> Make:
    """A·D and D⁻¹·B, in all rows and columns or in the first few."""

    def make(size: int, rng: np.random.Generator) -> Pair:
        a, b = _normal(size, rng)
        scales = np.exp2(rng.uniform(-binades / 2, binades / 2, size)).astype(np.float32)
        a[:rows] *= scales
        b[:, :columns] /= scales[:, np.newaxis]
        return a, b

    return make


def _log_normal(sigma: float) -> Make:
    def make(size: int, rng: np.random.Generator) -> Pair:
        a, b = _normal(size, rng)
        for each in (a, b):
            sizes = np.exp(np.float32(sigma) * rng.standard_normal(each.shape, np.float32))
            np.copysign(sizes, each, out=each)
        return a, b

    return make


def _graded(size: int, rng: np.random.Generator) -> Pair:
    """Elements fall by 20 binades along k, in both operands."""
    a, b = _normal(size, rng)
    scales = np.exp2(np.linspace(0, -20, size)).astype(np.float32)
    return a * scales, b * scales[:, np.newaxis]


def _half_zeros(size: int, rng: np.random.Generator) -> Pair:
    a, b = _normal(size, rng)
    return np.maximum(a, 0), b


def _zeros_meet_zeros(size: int, rng: np.random.Generator) -> Pair:
    a, b = _normal(size, rng)
    return np.maximum(a, 0), np.maximum(b, 0)


def _sparse(size: int, rng: np.random.Generator) -> Pair:
    a, b = _normal(size, rng)
    return a * (rng.random(a.shape, np.float32) < 0.01), b * (rng.random(b.shape, np.float32) < 0.01)


def _dominant(size: int, rng: np.random.Generator) -> Pair:
    """A row and a column of the product that are far larger than all others."""
    a, b = _normal(size, rng)
    a[5] *= np.float32(1e8)
    b[:, 7] *= np.float32(1e8)
    return a, b


def _large_column(size: int, rng: np.random.Generator) -> Pair:
    """A column of A that meets a row of zeros: a time stamp whose coefficient is zero."""
    a, b = _normal(size, rng)
    a[:, 7] *= 30
    b[7] = 0.0
    return a, b


def _outliers(size: int, rng: np.random.Generator) -> Pair:
    """Elements of one size, one in each row and column eight times larger."""
    a, b = _normal(size, rng)
    for each in (a, b):
        np.copysign(rng.random(each.shape, np.float32) / 5 + np.float32(0.9), each, out=each)
    a[np.arange(size), rng.integers(0, size, size)] *= 8
    b[rng.integers(0, size, size), np.arange(size)] *= 8
    return a, b


def _bytes(size: int, rng: np.random.Generator) -> Pair:
    return rng.integers(0, 256, (size, size)).astype(np.float32), _normal(size, rng)[1]


# Here the norm of a column is that of one element, which may be next to nothing by chance: the worst of many such
# quotients says little of who made them. Errors are relative to |A|·|B|.
DOMINANT = "a dominant row and a dominant column"
ON_DIGITS: Mapping[str, Make] = {
    "a row 16 binades below an element that meets zeros": _below_one(16, 0.0),
    "a row 20 binades below an element that meets zeros": _below_one(20, 0.0),
    "a row 16 binades below an element that meets next to nothing": _below_one(16, 2.0**-30),
    "a row 16 binades below an element that meets one column": _below_one(16, 0.0, 1.0),
    "two large elements": _two_large,
    "few rows scaled along k": _units(40, rows=3, columns=0),
    "all a little scaled along k": _units(6),
    "half zeros": _half_zeros,
    DOMINANT: _dominant,
    "a large column that meets zeros": _large_column,
    "outliers": _outliers,
    "bytes": _bytes,
    "log-normal, 0.8": _log_normal(0.8),
}
IN_FLOAT32: Mapping[str, Make] = {
    "scaled along k": _units(40),
    "graded": _graded,
    "zeros meet zeros": _zeros_meet_zeros,
    "sparse": _sparse,
    "log-normal, 2": _log_normal(2),
    "log-normal, 3": _log_normal(3),
    "log-normal, 5": _log_normal(5),
}
ADVERSARIAL: Mapping[str, Make] = {
    **ON_DIGITS,
    **IN_FLOAT32,
    "few rows and columns scaled along k": _units(40, rows=3, columns=5),
}


def worst_errors(c: Array, true: Array, of: Array | None = None) -> tuple[float, float]:
    """Of a row and of a column, relative to its norm in `of`, by default in the true product."""
    off, found = c - true, []
    for axis in (1, 0):
        size = np.linalg.norm(true if of is None else of, axis=axis)
        found.append(float((np.linalg.norm(off, axis=axis) / np.where(size > 0, size, 1)).max()))
    return found[0], found[1]


def worst_of_class(a: Array, b: Array, c: Array, true: Array) -> float:
    """The largest part of its bound in the class of fp32 that an element is off by: 4·√k·2^-24·(|A|·|B|), and the
    rounding of the product itself."""
    sizes = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    bound = 4 * np.sqrt(a.shape[1]) * 2.0**-24 * sizes + 2.0**-24 * np.abs(true) + 2.0**-149
    return float((np.abs(c - true) / bound).max())
