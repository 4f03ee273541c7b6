"""Grouped products on the CPU under sanitizers: each row times the matrix of its own group, to the last bit, and no row
of a neighbour touched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem
from tests.emulation.launches import Layout, Memory, Run, execute
from tests.emulation.programs import Emulator
from tests.support.grouped.operands import grouped_operands, grouped_problem, true_product
from tests.support.kernels.catalogue import cuda_kernel
from tests.support.kernels.products import stored
from worker.cuda.sources import kernel_program

# Rows of groups, columns, steps of k: one row, less than a tile, tiles and one row more, whole tiles, empty groups
# first, last and between, a single group, no k.
CASES: tuple[tuple[tuple[int, ...], int, int], ...] = (
    ((1,), 1, 1),
    ((3, 0, 5, 1), 70, 9),
    ((0, 0, 65, 64, 0, 130, 0), 65, 33),
    ((2, 1), 5, 0),
    ((64,) * 3, 64, 64),
)
VARIANTS: tuple[tuple[str, DTypeName, bool], ...] = (
    ("pipelined", "float32", False),
    ("pipelined", "float64", True),
    ("warp_tiled", "bfloat16", True),
    ("warp_tiled", "int8", False),
)


def spaced(elements: Array, *, is_result: bool = False) -> Memory:
    """Rows at multiples of 16 bytes, between which nobody reads or writes."""
    _, rows, columns = elements.shape
    group = 16 // elements.itemsize
    pitch = (columns // group + 2) * group
    contents = b"" if is_result else elements.tobytes()
    return Memory(elements.shape, elements.dtype, Layout(pitch, rows * pitch), contents, is_result)


def run_of(kernel: CudaKernel, config: TileConfig, problem: Problem, pair: tuple[Array, Array], order: int) -> Run:
    plan = kernel.plan(problem, config)
    a, b = spaced(pair[0][np.newaxis]), spaced(pair[1])
    c = spaced(np.empty((1, problem.m, problem.n), STORAGE_DTYPES[problem.product_dtype]), is_result=True)
    table = Memory.flat(np.array(plan.groups, np.int32))
    pitches = (each.layout.pitch for each in (a, b, c))
    sizes = (problem.m, problem.n, problem.k, *pitches, 0, b.layout.stride, 0, len(problem.group_sizes))
    return Run(plan.main, (a, b, c, table), sizes, order, problem)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: f"{v[0]}-{v[1]}-{'nt'[v[2]]}")
def test_each_row_has_its_own_matrix(variant: tuple[str, DTypeName, bool], emulator: Emulator) -> None:
    (name, dtype, transposed), rng = variant, np.random.default_rng(3)
    kernel = cuda_kernel(name)
    problems = [grouped_problem(*case, dtype, transpose_b=transposed) for case in CASES]
    config = kernel.resolve_config({}, problems[0])
    pairs = [grouped_operands(problem, rng, "integers") for problem in problems]
    runs = [run_of(kernel, config, *each, order) for order, each in enumerate(zip(problems, pairs, strict=True))]
    compiled = emulator.compile(kernel_program(kernel, config, problems[0]), name)
    for problem, pair, (found,) in zip(problems, pairs, execute(compiled, runs), strict=True):
        expected = stored(true_product(problem, *pair), problem.product_dtype)
        np.testing.assert_array_equal(found[0], expected, str(problem))


MISTAKES = (
    ("groups[middle].tile <= tile", "groups[middle].tile < tile"),  # the neighbour's matrix
    ("m = groups[group + 1].row - start.row", "m -= start.row"),  # rows of the next group are written
    ("b += group * stride_b", "b += 0"),
)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_found(emulator: Emulator, tmp_path: Path, mistake: tuple[str, str]) -> None:
    """Each in a copy of the header, which is found first."""
    kernel, problem = cuda_kernel("pipelined"), grouped_problem((64, 3, 70), 40, 20)
    config = kernel.resolve_config({}, problem)
    program = kernel_program(kernel, config, problem)
    header = next(kernel.source_path.parent.parent.glob("common/tile_groups.cuh")).read_text()
    assert header.count(mistake[0]) == 1
    (tmp_path / "tile_groups.cuh").write_text(header.replace(*mistake))
    (tmp_path / program.path.name).write_text(program.path.read_text())
    broken = emulator.compile(replace(program, path=tmp_path / program.path.name), kernel.name)
    pair = grouped_operands(problem, np.random.default_rng(5), "integers")
    ((found,),) = execute(broken, [run_of(kernel, config, problem, pair, 1)])
    assert (found[0] != true_product(problem, *pair)).any()
