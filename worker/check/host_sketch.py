"""The sketch of a float product in this process's memory: quick if its elements allow it, otherwise careful."""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import Array
from worker.check.careful_sketch import CarefulSketch
from worker.check.host_matrix import HostMatrix
from worker.check.quick_sketch import QuickSketch
from worker.check.sketch import Sketch

SHORTEST_IN_FLOAT32 = 512  # length of sums; for shorter ones the check's own rounding would matter


def float_sketch(
    a: HostMatrix,
    b: HostMatrix,
    c: HostMatrix,
    *,
    width: int,
    floor: float,
    common: bool,
    excluded: Array | None,
    rng: np.random.Generator,
) -> Sketch:
    """Columns are in groups of `width`. `floor` is added to operands' magnitudes, in squares. `common`: columns of B
    are scaled alike. `excluded` (batch or 1, n): columns to leave out."""
    if excluded is None:
        is_long = a.dtype != "float64" and a.shape[2] >= SHORTEST_IN_FLOAT32
        arithmetic = np.float32 if is_long else np.float64
        quick = QuickSketch(a, b, c, width, floor, common, rng, arithmetic).sketch()
        if quick is not None:
            return quick
    return CarefulSketch(a, b, c, width, floor, common, excluded, rng).sketch()
