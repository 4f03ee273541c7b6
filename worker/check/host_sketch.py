"""The sketch of a float product in this process's memory: quick if its elements allow it, otherwise careful."""

from __future__ import annotations

import numpy as np

from worker.check.careful_sketch import CarefulSketch
from worker.check.quick_sketch import QuickSketch
from worker.check.sketch import Sketch, SketchInput

SHORTEST_IN_FLOAT32 = 512  # length of sums; for shorter ones the check's own rounding would matter


def float_sketch(source: SketchInput) -> Sketch:
    """Sketches the product."""
    if source.excluded is None:
        is_long = source.a.dtype != "float64" and source.a.shape[2] >= SHORTEST_IN_FLOAT32
        quick = QuickSketch(source, np.float32 if is_long else np.float64).sketch()
        if quick is not None:
            return quick
    return CarefulSketch(source).sketch()
