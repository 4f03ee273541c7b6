"""The errors of a product's rows, computed from a sketch."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from jobs.formats.elements import Array
from worker.check.rounding import CONFIDENCE, Rounding
from worker.check.sketch import Sketch


@dataclass(frozen=True, slots=True)
class AllWithin:
    """Every row is within its tolerance, and no flag is set."""

    largest_within: float  # the largest of all rows' ratios


@dataclass(frozen=True, slots=True)
class RowErrors:
    """For each row, its worst element's error divided by its class's bound, or its residual divided by its tolerance,
    (batch, m). The flags are those of `Sketch`; flagged elements are left out.
    """

    worst: Array
    bad_rows: Array
    bad_columns: Array
    odd_columns: Array

    @property
    def largest_within(self) -> float | None:
        """As in `AllWithin`; None if not all rows are within their tolerance."""
        largest = float(self.worst.max(initial=0.0))
        is_flagged = self.bad_rows.any() or self.bad_columns.any() or self.odd_columns.any()
        return largest if largest <= 1.0 and not is_flagged else None


def row_errors(sketch: Sketch, rounding: Rounding) -> RowErrors:
    """Each row's worst residual divided by its tolerance."""
    return RowErrors(_ratios(sketch, rounding), sketch.bad_rows, sketch.bad_columns, sketch.odd_columns)


def _ratios(sketch: Sketch, rounding: Rounding) -> Array:
    """(batch, m)."""
    q, r = sketch.q, sketch.r
    if rounding.normwise:
        q, r = (np.broadcast_to(each.max(axis=1, keepdims=True, initial=0.0), each.shape) for each in (q, r))
    with np.errstate(all="ignore"):
        underflow = np.ldexp(rounding.underflow, -sketch.exponents)[..., np.newaxis] * sketch.unit[:, np.newaxis, :]
        squares, tolerance = np.square(sketch.difference), rounding.squared_tolerance(q, r, underflow)
        squares /= tolerance
        if not np.isfinite(squares).all():  # 0/0 counts as no difference, NaN as one
            squares = np.where(sketch.difference == 0.0, 0.0, np.nan_to_num(squares, nan=inf))
        # C itself contributes to R: an element so wrong that its square overflows must not increase its own tolerance.
        if not np.isfinite(tolerance).all():
            squares = np.where(np.isfinite(tolerance), squares, inf)
        # A row that is smaller than what is granted for underflow would pass whatever it is.
        if (drowned := (np.square(CONFIDENCE * underflow) > q) & (sketch.difference > 0.0)).any():
            squares = np.where(drowned, inf, squares)
        worst: Array = np.sqrt(squares.max(axis=-1, initial=0.0))
    return worst
