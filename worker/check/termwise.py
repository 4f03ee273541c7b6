"""Elements of float64 products, summed again term by term. Each element has an exponent of its own, that of its largest
term, so no term is lost however far apart the numbers of its row and column are.
"""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import Array
from kernels.model.accuracy import DRIFT_FACTOR
from worker.check.rounding import Rounding

LOWEST = -1100  # exponent below which all terms together are less than float64's smallest number


def ratios_of(a: Array, b: Array, given: Array, rounding: Rounding) -> Array:
    """The distances of elements from the sums of their terms, divided by the error allowed for the steps of the sum and
    the value. The row `a` and the column `b` of each, (elements, k), and `given` are finite.
    """
    (of_a, exponents_a), (of_b, exponents_b) = (np.frexp(each.astype(np.longdouble)) for each in (a, b))
    terms = of_a * of_b
    exponents = np.where(terms == 0.0, LOWEST, exponents_a + exponents_b)
    top = exponents.max(axis=1, keepdims=True, initial=LOWEST)
    terms = np.ldexp(terms, exponents - top)
    top = top[:, 0]
    sums = np.cumsum(terms, axis=1)
    true, size = terms.sum(axis=1), np.abs(terms).sum(axis=1)
    of_size, _, of_value, rest = rounding.element_factors
    drift = DRIFT_FACTOR * rounding.accumulate * np.abs(sums).sum(axis=1)
    granted = np.maximum(of_size * size, drift) + of_value * np.abs(true) + np.ldexp(np.longdouble(rest), -top)
    ratios: Array = (np.abs(np.ldexp(given.astype(np.longdouble), -top) - true) / granted).astype(np.float64)
    return ratios
