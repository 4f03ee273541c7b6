"""Checks a bench's product, by the check that every product of this service passes, or by a stricter one."""

from __future__ import annotations

import numpy as np

from jobs.benchmarks.records import Checked
from jobs.benchmarks.spec import BenchmarkSpec
from kernels.model.numerics import ACCURACY_SUM_ROUNDOFF, DTYPES, AccuracyName, Problem
from worker.check.verify import check
from worker.device.bench import Bench

CHECKS = 2  # each with fresh vectors
ROWS_OF_ZEROS = 64  # rows checked element by element
LARGEST_PRODUCT = 64  # of two integers of at most 8
# Integers up to here are exact in the accumulator's type: float32, and float64 for float64 operands.
EXACT_FLOAT32, EXACT_FLOAT64 = 2**24, 2**53


def check_product(bench: Bench, problem: Problem, accuracy: AccuracyName, spec: BenchmarkSpec) -> Checked:
    """Checks the product that the bench holds. The random vectors come from the operating system, so they are
    unpredictable. Where sums cannot be exact, `exact` is checked as `freivalds`, and the mode says so.
    """
    rng = np.random.default_rng()
    found = [check(problem, accuracy, bench.matrices(), rng) for _ in range(CHECKS)]
    residual, threshold = max(one.residual or 0.0 for one in found), found[0].threshold
    passed = all(one.passed for one in found)
    if spec.data.distribution == "zeros" and passed:
        passed = _is_zero(bench, problem, rng)
    if spec.verify == "full" and passed:
        passed = bench.largest_error_ratio() <= 1.0
    mode = spec.verify
    if mode == "exact" and sums_are_exact(problem, spec, accuracy):
        residual, threshold = bench.largest_error_ratio(), 0.0
        passed = passed and residual == 0.0
    elif mode == "exact":
        mode = "freivalds"
    return Checked(mode=mode, passed=passed, residual=residual, threshold=threshold)


def _is_zero(bench: Bench, problem: Problem, rng: np.random.Generator) -> bool:
    """Whether some whole rows are zero. Integer poison is the same everywhere, so random signs may add it up to a
    multiple of 2³², which is also the result for a product of zeros.
    """
    rows = rng.integers(0, problem.m, size=(ROWS_OF_ZEROS, 1))
    return not bench.matrices().elementwise.c.elements(0, rows, np.arange(problem.n)).any()


def sums_are_exact(problem: Problem, spec: BenchmarkSpec, accuracy: AccuracyName | None = None) -> bool:
    """Whether every sum is an integer that accumulator and product can represent; otherwise even a correct kernel must
    round.
    """
    if DTYPES[problem.dtype].is_integer or spec.data.distribution == "zeros":
        return True
    product = DTYPES[problem.product_dtype]
    exact_below = min(1.0 / product.unit_roundoff, EXACT_FLOAT64 if product.name == "float64" else EXACT_FLOAT32)
    if accuracy in ACCURACY_SUM_ROUNDOFF:
        # Truncation errs by up to one unit in the last place, rounding by half a unit: truncated sums may err twice as
        # much.
        exact_below = min(exact_below, (2.0 if accuracy == "fp8" else 1.0) / ACCURACY_SUM_ROUNDOFF[accuracy])
    return spec.data.scale == 1.0 and problem.k * LARGEST_PRODUCT <= exact_below


def why_wrong(checked: Checked) -> str:
    """The sentence for a record."""
    if (checked.residual or 0.0) <= (checked.threshold or 0.0):
        return "An element of the product is farther from the true one than rounding explains."
    return (
        f"The product did not pass its check: its residual is {checked.residual:.3g} where rounding explains "
        f"{checked.threshold:.3g}."
    )
