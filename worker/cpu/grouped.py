"""Grouped products on the CPU: each group by the kernel that was chosen, into its rows of the product."""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.groups import groups_of
from kernels.model.numerics import Problem
from worker.cpu.kernels import Multiply


def multiply_grouped(kernel: Multiply, problem: Problem, a: Array, b: Array, out: Array | None = None) -> Array:
    """The product in `out`, or in a new array. Operands are as they are stored."""
    c = np.empty(problem.product_shape, STORAGE_DTYPES[problem.product_dtype]) if out is None else out
    for group in groups_of(problem):
        rows = slice(group.first_row, group.first_row + group.problem.m)
        kernel(group.problem, a[rows], b[group.index], c[rows])
    return c
