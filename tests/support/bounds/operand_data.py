"""Operands on which roundings add up, cancel, underflow or overflow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES

Pair = tuple[Array, Array]


def operand_pairs(m: int, k: int, n: int, dtype: str, rng: np.random.Generator) -> Iterator[tuple[str, Array, Array]]:
    """By name, (m, k) and (k, n) of float32 or float64. An even k."""

    def normal() -> Pair:
        return rng.standard_normal((m, k)), rng.standard_normal((k, n))

    def scaled(low: int, high: int) -> Pair:
        a, b = normal()
        return np.ldexp(a, rng.integers(low, high, a.shape)), np.ldexp(b, rng.integers(low, high, b.shape))

    u, least = DTYPES[dtype].unit_roundoff, 2.0**-149 if dtype == "float32" else 2.0**-1074  # type: ignore[index]
    huge = 120 if dtype == "float32" else 1000
    a, b = normal()
    yield "normal", a, b
    yield "of one sign", np.abs(a), np.abs(b)
    yield "constant", np.full((m, k), 1 / 3), np.full((k, n), 0.7)
    yield "absorbed", np.where(np.arange(k) == 0, 1.0, u) * np.ones((m, 1)), np.ones((k, n))
    yield (
        "whole numbers",
        rng.integers(-8, 9, (m, k)).astype(np.float64),
        rng.integers(-8, 9, (k, n)).astype(np.float64),
    )
    halves = np.concatenate([b[: k // 2], b[: k // 2]])
    yield "cancelling", np.concatenate([a[:, : k // 2], -a[:, : k // 2] * (1 + 2.0**-20)], axis=1), halves
    yield "vanishing", np.concatenate([a[:, : k // 2], -a[:, : k // 2]], axis=1), halves
    yield "sparse", np.where(rng.random((m, k)) < 0.8, 0.0, a), np.where(rng.random((k, n)) < 0.8, 0.0, b)
    yield "rows apart", np.ldexp(a, -20 * np.arange(m)[:, np.newaxis]), b
    yield "graded", *scaled(-30, 30)
    yield "far apart", *scaled(-huge, huge)
    yield "subnormal", a * least * 256, b
    yield "products that underflow", np.ldexp(a, -huge), np.ldexp(b, 10 - huge // 4)
    yield "huge", np.ldexp(a, huge + 4), np.ldexp(b, 4)
    yield "sums that overflow", np.ldexp(np.abs(a) + 1, huge), np.ldexp(np.abs(b) + 1, 6)
    yield "zeros", np.zeros((m, k)), b
