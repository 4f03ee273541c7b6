"""All elements of a small product against their sums in float64, at once.

This is the rule of `worker/check/elementwise.py` for the usual case: every number is finite, and every element is
within its bound. The few passes below then give the general way's number, which takes four times as many passes for
each matrix of a batch. Whatever is unusual goes the general way.
"""

from __future__ import annotations

import numpy as np

from worker.check.elements import widen
from worker.check.elementwise import Operands
from worker.check.host_matrix import HostMatrix
from worker.check.rounding import Rounding

MAX_ELEMENTS = 1 << 19  # of a matrix: in float64 the passes stay in a processor's caches
NO_ROOT = np.zeros((1, 1, 1))  # operands enter as they are


def worst_within(operands: Operands, rounding: Rounding) -> float | None:
    """The largest error of any element, divided by the error that rounding explains, at most 1. None where that is not
    so, or takes more than a look at finite numbers."""
    matrices = [each for each in (operands.a, operands.b, operands.c) if type(each) is HostMatrix]
    if len(matrices) < 3:  # others are not simply an array
        return None
    if operands.added is not None or rounding.normwise or rounding.operand or rounding.is_float64:
        return None
    if max(each.array.size for each in matrices) > MAX_ELEMENTS:
        return None
    with np.errstate(all="ignore"):
        of_a, of_b, given = (widen(each.array, each.dtype).astype(np.float64) for each in matrices)
        off = of_a @ of_b
        value = np.abs(off)
        size = np.abs(of_a, out=of_a) @ np.abs(of_b, out=of_b)
        np.abs(np.subtract(given, off, out=off), out=off)
        off /= rounding.element_bound(size, NO_ROOT, value)
        worst = float(off.max(initial=0.0))
    return worst if worst <= 1.0 else None  # not so for NaN, which whatever is not finite gives
