"""Sizes of a product's matrices."""

from __future__ import annotations

from kernels.model.numerics import DTYPES, Problem

RUN_BYTES = 16  # rows that are no whole runs of so many bytes are copied for TMA, and slow for libraries


def megabytes(problem: Problem) -> tuple[float, float, float]:
    """Sizes of A, B and C."""
    own, product = (DTYPES[dtype].itemsize * 1e-6 for dtype in (problem.dtype, problem.product_dtype))
    a = problem.m * problem.k * (problem.batch if problem.a_batched else 1)
    b = problem.k * problem.n * (problem.batch if problem.b_batched else 1)
    return a * own, b * own, problem.m * problem.n * problem.batch * product
