"""Square float32 operands of the kinds on which arithmetic made of narrower products may lose what float32 keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from jobs.matrices import Array

Pair = tuple[Array, Array]
FAR = "far apart along k"


def _normal(size: int, rng: np.random.Generator) -> Pair:
    return rng.standard_normal((size, size), np.float32), rng.standard_normal((size, size), np.float32)


def _uniform(size: int, rng: np.random.Generator) -> Pair:
    return rng.random((size, size), np.float32), rng.random((size, size), np.float32)


def _spread(binades: int) -> Callable[[int, np.random.Generator], Pair]:
    def spread(size: int, rng: np.random.Generator) -> Pair:
        a, b = _normal(size, rng)
        for each in (a, b):
            each *= np.exp2((rng.random(each.shape, np.float32) - np.float32(0.5)) * binades)
        return a, b

    return spread


def _cancelling(size: int, rng: np.random.Generator) -> Pair:
    """The second half of k takes away what the first has added, but for a thousandth."""
    a, b = _normal(size, rng)
    half = size // 2
    a[:, half : 2 * half], a[:, 2 * half :] = a[:, :half], 0.0
    b[half : 2 * half] = -b[:half] * (1 + 1e-3 * rng.standard_normal((half, size), np.float32))
    return a, b


def _far(size: int, rng: np.random.Generator) -> Pair:
    """A's columns grow as B's rows shrink, so every term matters, and none is near the largest of both its lines."""
    a, b = _normal(size, rng)
    scales = np.exp2(np.linspace(-15, 15, size)).astype(np.float32)
    return a * scales, b / scales[:, np.newaxis]


KINDS: Mapping[str, Callable[[int, np.random.Generator], Pair]] = {
    "normal": _normal,
    "uniform(0, 1)": _uniform,
    "12 binades in a row": _spread(12),
    "40 binades in a row": _spread(40),
    "cancelling halves": _cancelling,
    FAR: _far,
}


def relative_error(c: Array, true: Array) -> float:
    """In the Frobenius norm."""
    return float(np.linalg.norm(c - true) / np.linalg.norm(true))
