"""Grouped products for tests: problems, operands, and what must come out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobs.formats.elements import Array
from kernels.model.groups import groups_of
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.support.kernels.products import Data, matrix
from worker.check.elements import as_float64, core


def grouped_problem(
    sizes: Sequence[int], n: int, k: int, dtype: DTypeName = "float32", *, transpose_b: bool = False
) -> Problem:
    return Problem(sum(sizes), n, k, dtype, transpose_b=transpose_b, group_sizes=tuple(sizes))


def grouped_operands(problem: Problem, rng: np.random.Generator, data: Data = "normal") -> tuple[Array, Array]:
    """A and B as they are stored."""
    one = (problem.n, problem.k) if problem.transpose_b else (problem.k, problem.n)
    a = matrix((problem.m, problem.k), problem.dtype, rng, data)
    return a, matrix((len(problem.group_sizes), *one), problem.dtype, rng, data)


def true_product(problem: Problem, a: Array, b: Array) -> Array:
    """Of each row and the matrix of its own group: in float64, and of integers modulo 2³²."""
    of_b = core(b, transposed=problem.transpose_b)
    integer = DTYPES[problem.dtype].is_integer
    c = np.zeros((problem.m, problem.n), np.int32 if integer else np.float64)
    for group in groups_of(problem):
        rows = slice(group.first_row, group.first_row + group.problem.m)
        own = a[rows], of_b[group.index]
        if integer:
            c[rows] = (own[0].astype(np.int64) @ own[1].astype(np.int64)).astype(np.int32)
        else:
            with np.errstate(all="ignore"):
                c[rows] = as_float64(own[0], problem.dtype) @ as_float64(own[1], problem.dtype)
    return c
