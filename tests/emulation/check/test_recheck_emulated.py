"""Rows and columns computed again by the GPU's kernel, in the emulation, against the host's rule: the same ratios, and
the same elements right and wrong."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.numerics import OWN_ACCURACY, AccuracyName, DTypeName, Problem
from tests.emulation.check.rechecking import Given, compiled, rechecked
from tests.emulation.programs import Compiled, Emulator
from tests.support.kernels.products import FLOAT_DATA, operands, stored
from worker.check.elementwise import worst_of, worst_of_element
from worker.check.rounding import rounding_of
from worker.cpu import blas as cpu_blas

Kind = tuple[DTypeName, DTypeName | None]
KINDS: tuple[Kind, ...] = (
    ("float16", None),
    ("float32", None),
    ("float64", None),
    ("float8_e4m3", None),
    ("bfloat16", "float32"),
)


@pytest.fixture(scope="module")
def kernels(emulator: Emulator, pool: Executor) -> Mapping[Kind, Compiled]:
    return dict(zip(KINDS, pool.map(lambda kind: compiled(emulator, *kind), KINDS), strict=True))


def given(problem: Problem, data: str, seed: int, accuracy: AccuracyName | None = None) -> Given:
    a, b = operands(problem, np.random.default_rng(seed), data)
    c = cpu_blas.multiply(problem, a, b)
    return Given(problem, a, b, c, rounding_of(problem, accuracy or OWN_ACCURACY[problem.dtype]))


def each_of(case: Given, mask: Array, *, of_columns: bool) -> Array:
    """What the host says of each element of these lines."""
    _, m, n = case.operands.c.shape
    crossed = np.arange(m if of_columns else n)
    places = [(item, other, line) if of_columns else (item, line, other) for item, line in np.argwhere(mask) for other in crossed]
    return np.array([worst_of_element(case.operands, *map(int, place), case.rounding) for place in places])


@pytest.mark.parametrize("data", FLOAT_DATA)
@pytest.mark.parametrize("kind", KINDS[:4])
def test_try(kind, data, kernels):
    case = given(Problem(40, 70, 50, kind[0], 1, True, False), data, 3)
    mask = np.zeros((1, 40), bool); mask[0, [1, 7, 39]] = True
    found = rechecked(kernels[kind], case, mask)
    expected = each_of(case, mask, of_columns=False)
    print(kind, data, found.worst, found.left, expected.max(), worst_of(case.operands, mask, np.zeros((1, 70), bool), case.rounding))
    np.testing.assert_allclose(found.settled(case), expected.max(), rtol=1e-9)
