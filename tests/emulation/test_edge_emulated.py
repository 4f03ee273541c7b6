"""The product of a few last rows and columns, in the emulation: all that lies outside of a kernel's part, no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.edge import edge_launch
from kernels.model.numerics import DTypeName, Problem
from tests.emulation.launches import Layout, Memory, Run, execute
from tests.emulation.programs import Emulator
from tests.support.kernels.products import in_float64, operands
from worker.check.elements import core
from worker.cpu import blas as cpu_blas
from worker.cuda.sources import edge_program

DTYPES: list[DTypeName] = ["float32", "float64"]
# Rows and columns of the product and of the kernel's part, k, batch, elements between an operand's rows: rows begin at
# whole chunks or do not, are longer than a block's strip or not.
SHAPES = [
    ((33, 65), (32, 64), 70, 1, 0),
    ((129, 40), (128, 40), 700, 2, 8),
    ((20, 67), (20, 64), 3, 3, 5),
    ((5, 8), (2, 1), 1, 1, 16),
    ((72, 136), (64, 128), 33, 1, 24),
    ((9, 9), (8, 8), 0, 1, 0),
]
TRANSPOSES = [(False, False), (True, False), (False, True), (True, True)]


def spaced(elements: Array, gap: int) -> Memory:
    matrices = elements if elements.ndim == 3 else elements[None]
    pitch = matrices.shape[2] + gap
    stride = matrices.shape[1] * pitch if elements.ndim == 3 else 0
    return Memory(matrices.shape, elements.dtype, Layout(pitch, stride), matrices.tobytes())


def product_run(
    problem: Problem, inner: Problem, a: Array, b: Array, gap: int, order: int, *, narrow: bool
) -> tuple[Run, Array]:
    """And what C holds before."""
    shape = (problem.batch, problem.m, problem.n)
    before = np.full(shape, 7, STORAGE_DTYPES[problem.product_dtype])
    pitch = problem.n + 1
    c = Memory(shape, before.dtype, Layout(pitch, problem.m * pitch), before.tobytes(), True)
    memories = (spaced(a, gap), spaced(b, gap), c)
    strides = [each.layout.stride for each in memories]
    numbers = (problem.m, problem.n, problem.k, *(each.layout.pitch for each in memories), *strides)
    launch = edge_launch(problem, inner, narrow=narrow)
    launch = replace(launch, grid=(launch.grid[0], 1, min(problem.batch, 2)))
    return Run(launch, memories, (*numbers, problem.batch, inner.m, inner.n), order, problem), before


def check(problem: Problem, found: Array, a: Array, b: Array) -> None:
    expected, scale = in_float64(problem, a, b)
    roundoff = {"float32": 2**-20, "float64": 2**-49}[problem.dtype]
    assert np.all(np.abs(found - expected.reshape(found.shape)) <= roundoff * scale.reshape(found.shape))


@pytest.mark.parametrize(
    ("dtype", "transposes", "narrow"),
    [
        (dtype, transposes, (i + j) % 2 == 1)  # each of both with each element type and each way to lie
        for i, dtype in enumerate(DTYPES)
        for j, transposes in enumerate(TRANSPOSES)
    ],
)
def test_what_is_outside_and_nothing_else(
    dtype: DTypeName, transposes: tuple[bool, bool], narrow: bool, emulator: Emulator
) -> None:
    for vectors, of_these in ((1, SHAPES[:2]), (4, SHAPES[2:3]), (8, SHAPES[3:])):
        todo, runs = [], []
        for order, ((m, n), (rows, columns), k, batch, gap) in enumerate(of_these):
            problem = Problem(m, n, k, dtype, batch, *transposes, a_batched=batch > 1, b_batched=batch > 2)
            inner = replace(problem, m=rows, n=columns)
            a, b = operands(problem, np.random.default_rng(order))
            run, before = product_run(problem, inner, a, b, gap, order, narrow=narrow)
            todo.append((problem, inner, a, b, before))
            runs.append(run)
        compiled = emulator.compile(edge_program(todo[0][0], vectors, narrow=narrow), "edge")
        for (found,), (problem, inner, a, b, before) in zip(execute(compiled, runs), todo, strict=True):
            within = np.zeros(found.shape, bool)
            within[:, : inner.m, : inner.n] = True
            np.testing.assert_array_equal(found[within], before[within])
            whole = found.copy()
            whole[within] = core_of(problem, a, b)[within]
            check(problem, whole, a, b)


def core_of(problem: Problem, a: Array, b: Array) -> Array:
    """Right elements for the kernel's part, so that the whole can be checked."""
    return core(cpu_blas.multiply(problem, a, b), transposed=False).reshape(problem.batch, problem.m, problem.n)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_what_is_infinite_stays_so(transpose_b: bool, narrow: bool, emulator: Emulator) -> None:
    """Steps past a chunk's end are left out: zero times infinity would be no number."""
    problem = Problem(2, 3, 161, "float32", transpose_b=transpose_b)
    inner = replace(problem, m=1)
    a, b = np.ones((2, 161), np.float32), np.ones((3, 161) if transpose_b else (161, 3), np.float32)
    a[1, -1] = np.inf
    run, _ = product_run(problem, inner, a, b, 3, 0, narrow=narrow)
    ((found,),) = execute(emulator.compile(edge_program(problem, 1, narrow=narrow), "edge"), [run])
    np.testing.assert_array_equal(found[0, 1], np.inf)
