"""The direct check of products of little depth, in the emulation, against numpy."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTypeName, Problem
from tests.emulation.check.sketching import stored_memory
from tests.emulation.launches import Memory, Run, execute
from tests.emulation.programs import Compiled, Emulator
from tests.support.kernels.directs import ExpectedDirect, assert_direct, expected_direct
from tests.support.kernels.products import operands, stored
from worker.cpu import blas as cpu_blas
from worker.cuda.sources import DIRECT_SOURCE, Program, direct_program

Kind = tuple[DTypeName, tuple[bool, bool]]
KINDS: list[Kind] = [
    ("float32", (False, False)),
    ("float16", (True, False)),
    ("bfloat16", (False, True)),
    ("float64", (True, True)),
    ("float8_e4m3", (True, False)),
]
Grants = tuple[float, float, float, float]
GRANTS: Grants = (1e-7, 2e-7, 3e-7, 1e-6)
OF_FLOAT64: Grants = (4e-16, 0.0, 1e-16, 0.0)  # about what their class grants
TILE, THREADS = 64, 256
SIZES = [((1, 1, 1), 0), ((70, 65, 40), None), ((20, 131, 64), 3), ((3, 4, 0), 1)]


@pytest.fixture(scope="module")
def kernels(emulator: Emulator, pool: Executor) -> Mapping[Kind, Compiled]:
    def compiled(kind: Kind) -> Compiled:
        options = (*direct_program(*kind).options, f'-DDIRECT="{DIRECT_SOURCE}"')
        return emulator.compile(Program(Path(__file__).with_name("direct_given.cu"), options), "direct_given")

    return dict(zip(KINDS, pool.map(compiled, KINDS), strict=True))


def run_direct(
    kernel: Compiled,
    problem: Problem,
    matrices: tuple[Array, Array, Array],
    gap: int | None,
    order: int = 0,
    grants: Grants = GRANTS,
) -> tuple[Array, tuple[Array, Array, Array]]:
    memories = [stored_memory(each, gap) for each in matrices]
    items_b, (batch, m, n) = memories[1].shape[0], (problem.batch, problem.m, problem.n)
    shapes = ((batch, m), (batch, m), (items_b, n), (batch, n))
    results = [np.zeros(shape, dtype) for shape, dtype in zip(shapes, (np.float64, *3 * [np.uint8]), strict=True)]
    pitches = [each.layout.pitch for each in memories]
    strides = [each.layout.stride if each.shape[0] > 1 else 0 for each in memories]
    words = np.array(grants).view(np.int64).tolist()
    numbers = (m, n, problem.k, *pitches, *strides, items_b, batch, *words)
    arrays = [Memory.flat(result.reshape(-1), is_result=True) for result in results]
    launch = Launch((-(-m // TILE) * -(-n // TILE), 1, min(batch, 2)), (THREADS, 1, 1))
    (found,) = execute(kernel, [Run(launch, (*memories, *arrays), numbers, order, problem)])
    worst, *flags = (array.reshape(shape) for array, shape in zip(found, shapes, strict=True))
    return worst, (flags[0] != 0, flags[1] != 0, flags[2] != 0)


def expected_of(problem: Problem, a: Array, b: Array, c: Array) -> ExpectedDirect:
    return expected_direct(problem, a, b, c, GRANTS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_worst_element_of_each_row(kind: Kind, kernels: Mapping[Kind, Compiled]) -> None:
    for order, (sizes, gap) in enumerate(SIZES):
        problem = Problem(*sizes, kind[0], 1, *kind[1])
        a, b = operands(problem, np.random.default_rng(order))
        c = cpu_blas.multiply(problem, a, b)
        c[-1, -1] = stored(np.array(1.5), problem.product_dtype)
        assert_direct(
            *run_direct(kernels[kind], problem, (a, b, c), gap, order), expected=expected_of(problem, a, b, c)
        )


@pytest.mark.parametrize("kind", KINDS)
def test_batches_and_what_is_not_finite(kind: Kind, kernels: Mapping[Kind, Compiled]) -> None:
    base = Problem(66, 70, 20, kind[0], 3, *kind[1], a_batched=True)
    for problem in (replace(base, b_batched=False), replace(base, b_batched=True)):
        a, b = operands(problem, np.random.default_rng(7))
        rows, columns = a.swapaxes(1, 2) if kind[1][0] else a, b.swapaxes(-1, -2) if kind[1][1] else b
        rows[1, 65, 7], columns[..., 5, 66] = (stored(np.array(each), kind[0]) for each in (np.nan, -np.inf))
        with np.errstate(all="ignore"):
            c = cpu_blas.multiply(problem, a, b)
        odd = stored(np.array([np.inf, np.nan]), problem.product_dtype)
        c[0, 20, 69], c[1, 65, 50], c[2, 0, 66] = odd[0], odd[1], odd[1]
        expected = expected_of(problem, a, b, c)
        assert expected.bad_rows.sum() == expected.odd_columns.sum() == 1
        assert_direct(*run_direct(kernels[kind], problem, (a, b, c), None, 2), expected=expected)


def test_terms_out_of_range_grant_nothing(kernels: Mapping[Kind, Compiled]) -> None:
    """Squares that overflow would grant infinite errors."""
    problem = Problem(4, 4, 8, "float64", transpose_a=True, transpose_b=True)
    a, b = np.ones((8, 4)), np.ones((4, 8))
    a[:, 1], a[:, 2] = 2.0**600, 2.0**1023
    with np.errstate(over="ignore"):
        c = cpu_blas.multiply(problem, a, b)
    c[2] = np.finfo(np.float64).max
    c[1, 3] *= 2
    worst, flags = run_direct(kernels[KINDS[3]], problem, (a, b, c), 0)
    assert_direct(worst, flags, expected_of(problem, a, b, c))
    assert worst[0, 1] > 1e6 and np.isinf(worst[0, 2]) and worst[0, 0] == 0.0


def test_sums_of_float64_elements_are_compensated(kernels: Mapping[Kind, Compiled]) -> None:
    """By themselves they would be off by a part of what is granted, in a product that is right."""
    problem = Problem(70, 65, 40, "float64", transpose_a=True, transpose_b=True)
    a, b = operands(problem, np.random.default_rng(5))
    c = cpu_blas.multiply(problem, a, b)
    worst, flags = run_direct(kernels[KINDS[3]], problem, (a, b, c), None, grants=OF_FLOAT64)
    assert_direct(worst, flags, expected_direct(problem, a, b, c, OF_FLOAT64))
    assert 0.0 < worst.max() < 2.0
