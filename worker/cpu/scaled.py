"""A product of 8-bit operands with block scales by numpy's BLAS: 128 steps of k at a time, whose sums are multiplied by
both scales and added up in float32."""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import Problem
from kernels.model.scales import SCALE_DEPTH, SCALED_DTYPE
from worker.check.elements import core, widen
from worker.device.scaled import ScaledOperand, scales_by_stage

BLOCK = 1024  # rows and columns at a time: temporaries stay small


def multiply_scaled(problem: Problem, a: ScaledOperand, b: ScaledOperand, out: Array | None = None) -> Array:
    """The product in `out`, or in a new array."""
    c = np.empty(problem.product_shape, np.float32) if out is None else out
    of_c = core(c, transposed=False)
    of_a, of_b = (
        (
            core(each.elements, transposed=transposed),
            scales_by_stage(each, along_rows=along_rows, transposed=transposed, is_repeated=True),
        )
        for each, transposed, along_rows in ((a, problem.transpose_a, True), (b, problem.transpose_b, False))
    )
    for item in range(problem.batch):
        for row in range(0, problem.m, BLOCK):
            for column in range(0, problem.n, BLOCK):
                at = slice(row, row + BLOCK), slice(column, column + BLOCK)
                _block(of_a, of_b, item, at, of_c[item][at])
    return c


def _block(a: tuple[Array, Array], b: tuple[Array, Array], item: int, at: tuple[slice, slice], c: Array) -> None:
    (of_a, scales_a), (of_b, scales_b) = ((each[item % len(each)] for each in pair) for pair in (a, b))
    rows, columns = at
    c[...] = 0
    for stage, start in enumerate(range(0, of_a.shape[1], SCALE_DEPTH)):
        depth = slice(start, start + SCALE_DEPTH)
        sums = widen(of_a[rows, depth], SCALED_DTYPE) @ widen(of_b[depth, columns], SCALED_DTYPE)
        with np.errstate(over="ignore", invalid="ignore"):
            sums *= scales_a[stage, rows, np.newaxis] * scales_b[stage, columns]
            c += sums
