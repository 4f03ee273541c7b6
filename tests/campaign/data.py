"""Operands of a campaign: of every element type, on which the check has an easy or a hard time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.operand_kinds import KINDS
from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.numerics import ACCURACY_RANGE, DTYPES, AccuracyName, DTypeName, Problem
from tests.campaign.hard import HARD, Pair
from tests.support.kernels.products import stored

# Of faults; clean products have those of KINDS too, and these that follow.
COMMON = ("normal", "uniform(0, 1)", "log-normal, σ = 3", "one dominant row", "one dominant column", "1 % non-zero")
OVERFLOW = "overflow in one column"
OWN = ("constant", OVERFLOW, "every other sign", "ramp")
EXTREME = ("near the largest", "near the smallest", "NaN and infinity")
FAULTY_FLOATS = (*COMMON, "constant", *HARD)
CLEAN_FLOATS = (*KINDS, *OWN, *EXTREME, *HARD)
INTEGERS = ("whole range", "small", "extremes")
LARGEST_FACTOR: dict[DTypeName, float] = {"float16": 2.0**8, "float8_e4m3": 2.0**4}  # of a dominant line, else 1e7


def operands(problem: Problem, data: str, rng: np.random.Generator, accuracy: AccuracyName) -> tuple[Array, Array]:
    """A and B as they are stored, before transposition; within the range of the class."""
    items = [_item(problem, data, rng) for _ in range(problem.batch if problem.a_batched or problem.b_batched else 1)]
    if DTYPES[problem.dtype].is_complex:
        more = [_item(problem, data, rng) for _ in items]
        items = [(_complex(x, u), _complex(y, v)) for (x, y), (u, v) in zip(items, more, strict=True)]
    a = [item[0].T if problem.transpose_a else item[0] for item in items]
    b = [item[1].T if problem.transpose_b else item[1] for item in items]
    limit = ACCURACY_RANGE[accuracy][1] if accuracy in ACCURACY_RANGE else None
    return _stored(a, problem.dtype, problem.a_batched, limit), _stored(b, problem.dtype, problem.b_batched, limit)


def _complex(real: Array, imaginary: Array) -> Array:
    """Without a product, in which NaN and infinity would spread."""
    made = np.empty(real.shape, np.complex128)
    made.real, made.imag = real, imaginary
    return made


def _stored(matrices: Sequence[Array], dtype: DTypeName, batched: bool, limit: float | None) -> Array:
    values = np.ascontiguousarray(np.stack(matrices) if batched else matrices[0])
    if limit is not None:
        values = np.clip(values, -limit, limit)
    with np.errstate(all="ignore"):
        return stored(values, dtype)


def _item(problem: Problem, data: str, rng: np.random.Generator) -> tuple[Array, Array]:
    m, n, k, dtype = problem.m, problem.n, problem.k, DTYPES[problem.dtype].real
    if DTYPES[dtype].is_integer:
        return _integers((m, k), data, dtype, rng), _integers((k, n), data, dtype, rng)
    with np.errstate(all="ignore"):
        if data not in KINDS:
            return _OWN[data](m, n, k, dtype, rng)
        a, b = (each.astype(np.float64) for each in KINDS[data](m, n, k, rng))
        if dtype == "float64":  # all bits of it
            a, b = (each * (1.0 + 2.0**-30 * rng.standard_normal(each.shape)) for each in (a, b))
        return _within(a, dtype), _within(b, dtype)


def _within(values: Array, dtype: DTypeName) -> Array:
    """Types of narrow range: lines that are far larger than the others are brought within it, in steps of 2."""
    if dtype not in LARGEST_FACTOR or not values.size:
        return values
    magnitude = np.abs(values)
    usual, factor = float(np.median(magnitude)) or 1.0, LARGEST_FACTOR[dtype]
    return np.clip(values, -usual * factor, usual * factor)


def _integers(shape: tuple[int, int], data: str, dtype: DTypeName, rng: np.random.Generator) -> Array:
    limits = np.iinfo(STORAGE_DTYPES[dtype])
    if data == "extremes":
        return rng.choice(np.array([limits.min, limits.max, -1, 1]), shape)
    low, high = (-8, 8) if data == "small" else (limits.min, limits.max)
    return rng.integers(low, high, size=shape, dtype=np.int64, endpoint=True)


def _normal(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    return rng.standard_normal((m, k)), rng.standard_normal((k, n))


def _constant(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator) -> Pair:
    """Rounds the same way at every step."""
    low, high = rng.uniform(0.1, 2.0, 2)
    return np.full((m, k), low), np.full((k, n), high)


def _overflow(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator) -> Pair:
    """A column of B so large that its elements of C are beyond the product's type; only 8-bit floats cannot."""
    a, b = _normal(m, n, k, rng)
    a[np.abs(a) < 0.1] = 0.1
    column = rng.integers(0, n)
    b[:, column] = np.sign(a[rng.integers(0, m)]) * 0.9 * DTYPES[dtype].largest
    return a, b


def _signs(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator) -> Pair:
    """Partial sums of alternate terms grow, those in the order of k do not."""
    a, b = _normal(m, n, k, rng)
    a[:] = a[:, :1]
    b[:] = np.where(np.arange(k) % 2, 1.0, -1.0)[:, np.newaxis]
    return a, b


def _ramp(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator) -> Pair:
    """Partial sums rise and fall again."""
    line = np.linspace(-1.0, 1.0, k)
    return np.broadcast_to(line, (m, k)) * 1.0, np.ones((k, n))


def _scaled(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator, power: float) -> Pair:
    a, b = _normal(m, n, k, rng)
    scale = DTYPES[dtype].largest ** power
    return a * scale, b * scale


def _largest(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator) -> Pair:
    """Terms as large as the product's type ends: some elements overflow, on the way or in the end."""
    return _scaled(m, n, k, dtype, rng, 0.5 if dtype != "float8_e4m3" else 0.7)


def _smallest(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator) -> Pair:
    """Terms below the normal range of the product's type."""
    return _scaled(m, n, k, dtype, rng, -0.5)


def _special(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator) -> Pair:
    """A few NaN and infinities."""
    a, b = _normal(m, n, k, rng)
    for each in (a, b):
        for _ in range(rng.integers(1, 3) if each.size else 0):
            each.flat[rng.integers(each.size)] = rng.choice((np.nan, np.inf, -np.inf))
    return a, b


_OWN: Mapping[str, Callable[[int, int, int, DTypeName, np.random.Generator], Pair]] = {
    "constant": _constant,
    OVERFLOW: _overflow,
    "every other sign": _signs,
    "ramp": _ramp,
    "near the largest": _largest,
    "near the smallest": _smallest,
    "NaN and infinity": _special,
    **HARD,
}
