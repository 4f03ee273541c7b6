"""Interpolation between shapes, by ordinary kriging (Krige 1951, Matheron 1963).

Weights are best where values at two shapes are the more alike the nearer they are, so shapes close together count as
one, and trends go on. How much values vary is estimated from them (as in Sacks and others, "Design and Analysis of
Computer Experiments", 1989).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from kernels.selection.distance import Place
from kernels.selection.tuned import Floats

NOISE = 0.15  # of a value at one shape, in what values at far shapes differ by: the library's own jumps, mostly
USUAL, PRIOR = 0.3, 4.0  # of logarithms far apart: standard deviation, and how many values it counts as
Shapes = tuple[int, ...]  # numbers of shapes


class Kriging:
    """Values at one place, from values at some of these shapes. Kernels that were measured at the same shapes share
    their weights."""

    def __init__(self, places: Sequence[Place], here: Place, reach: float) -> None:
        """`reach`: doublings within which values are alike."""
        at = np.array([*places, here])
        apart = np.sqrt(((at[:, np.newaxis] - at) ** 2).sum(axis=-1)) * (sqrt(3) / reach)
        self._alike: Floats = (1 + apart) * np.exp(-apart)  # Matérn's, smooth once
        self._known: dict[Shapes, _Weights] = {}

    def value(self, shapes: Shapes, values: Sequence[float]) -> float:
        """The value here."""
        return float(self._weights(shapes).weights @ np.array(values))

    def variance(self, shapes: Shapes, values: Sequence[float]) -> float:
        """Of that. The variance of values is the likelihood's maximum, as if PRIOR more had had the variance USUAL²."""
        known, given = self._weights(shapes), np.array(values)
        of_values = (float(given @ known.form @ given) + PRIOR * USUAL**2) / (len(values) - 1 + PRIOR)
        return of_values * known.share

    def _weights(self, shapes: Shapes) -> _Weights:
        if (known := self._known.get(shapes)) is None:
            known = self._known[shapes] = self._solved(shapes)
        return known

    def _solved(self, shapes: Shapes) -> _Weights:
        count, at = len(shapes), np.array((*shapes, len(self._alike) - 1))
        system, right = self._alike[at[:, np.newaxis], at], self._alike[-1, at]
        system.flat[:: count + 2] += NOISE**2
        system[count] = system[:, count] = right[count] = 1.0
        system[count, count] = 0.0
        inverse: Floats = np.asarray(np.linalg.inv(system), np.float64)
        found: Floats = inverse @ right
        return _Weights(found[:count], max(1 - float(found @ right), 0.0) + NOISE**2, inverse[:count, :count])


class _Weights(NamedTuple):
    """`weights` of shapes, 1 in all; `share`: the variance of the interpolated value over that of values at shapes far
    apart; `form`: the quadratic form that gives the latter."""

    weights: Floats
    share: float
    form: Floats
