"""The check of a product as a test asks for it, and products with a fault in them."""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import Array
from jobs.models import Verification
from kernels.model.numerics import DTYPES, AccuracyName, Problem
from worker.check.verify import check
from worker.device.runner import host_operands

BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def checked(
    problem: Problem, a: Array, b: Array, c: Array, rng: np.random.Generator, accuracy: AccuracyName | None = None
) -> Verification:
    return check(problem, accuracy or DTYPES[problem.dtype].accuracy, host_operands(problem, a, b, c), rng)


def flipped(c: Array, bit: int, place: tuple[int, ...]) -> Array:
    """C with one bit of one element turned over."""
    wrong = c.copy()
    words = wrong.view(BITS[c.itemsize])
    words[place] ^= words.dtype.type(1 << bit)
    return wrong
