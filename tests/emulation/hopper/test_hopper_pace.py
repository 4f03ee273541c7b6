"""Clusters that are kept in step (hopper_pace.cuh): how far they go apart by the source's own arithmetic, and whole
products on the CPU under sanitizers, where no cluster ever sees another count while it waits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from kernels.catalog import BY_NAME
from kernels.entries.hopper.waves import COUNTER
from kernels.model.entry.config import TileConfig
from kernels.model.groups import tiles
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem
from tests.emulation.boxed import Case, run_of
from tests.emulation.launches import execute
from tests.emulation.programs import Emulator, compile_host_program, output_of
from tests.support.kernels.products import in_float64, operands, stored
from worker.cuda.sources import kernel_program

HERE = Path(__file__).parent
INTERVAL, MAX_LOOKS = 16, 256  # stages between two counts, and looks in one wait
# Clusters, waves, stages of a tile, and the time of the slowest for a stage where the fastest takes 1.
PACES = ((66, 2, 400, 1.05), (7, 3, 257, 3.0), (2, 5, 256, 10.0), (132, 2, 260, 1.1))
NAME, BLOCK_N = "hopper_bf16", 64
# Each with multiprocessors: one cluster; a wave that is not full, after some that are; thin tiles; a batch.
CASES = (
    Case(Problem(256, 96, 64 * 17 + 5, "bfloat16", 1, False, True), 1),
    Case(Problem(257, 65, 64 * 16, "bfloat16", 1, False, True), 2),
    Case(Problem(128, 64, 64 * 33, "bfloat16", 3, False, True, True, True), 2),
)


class Course(NamedTuple):
    """What a line of pace.cpp's says."""

    ahead: int
    ahead_without: int
    counted: int
    looks: int
    counted_alone: int
    counted_by_second: int


def test_no_cluster_is_two_intervals_ahead_of_another(tmp_path: Path) -> None:
    """Each counts as often, whatever its speed, and none looks for the others without end."""
    program = compile_host_program(HERE / "pace.cpp", tmp_path / "pace", "-DPACED")
    given = "".join(f"{' '.join(map(str, each))} {seed}\n" for seed, each in enumerate(PACES))
    found = [Course(*map(int, line.split())) for line in output_of(program, given).splitlines()]
    for (clusters, waves, stages, slowest), course in zip(PACES, found, strict=True):
        counts = waves * tiles(stages, INTERVAL)
        assert course.ahead <= 2 * INTERVAL < course.ahead_without, (clusters, slowest)
        assert course.counted == clusters * counts
        assert course.looks == MAX_LOOKS
        assert (course.counted_alone, course.counted_by_second) == (counts, 0)


def counted(case: Case) -> int:
    """By all clusters in all full waves."""
    problem = case.problem
    whole_m, whole_n = (
        size // tile + (size % tile > tile // 2) for size, tile in ((problem.m, 128), (problem.n, BLOCK_N))
    )
    return _in_full_waves(whole_m * whole_n * problem.batch, case) * tiles(tiles(problem.k, 64), INTERVAL)


def _in_full_waves(whole: int, case: Case) -> int:
    return whole // case.multiprocessors * case.multiprocessors


def test_products_and_counts(emulator: Emulator) -> None:
    """A product is right to the last bit though every wait is in vain."""
    kernel, rng = BY_NAME[NAME], np.random.default_rng(3)
    assert isinstance(kernel, CudaKernel)
    paced = replace(kernel, workspace=lambda *_: COUNTER)
    config: TileConfig = kernel.resolve_config({"block_n": BLOCK_N, "stages": 3, "cluster": 1})
    compiled = emulator.compile(kernel_program(paced, config, CASES[0].problem), NAME)
    pairs = [operands(case.problem, rng, "integers") for case in CASES]
    runs = [
        run_of(paced, config, case, pair, order) for order, (case, pair) in enumerate(zip(CASES, pairs, strict=True))
    ]
    runs = [replace(run, memories=(*run.memories[:-1], replace(run.memories[-1], is_result=True))) for run in runs]
    for case, pair, (found, word) in zip(CASES, pairs, execute(compiled, runs), strict=True):
        expected = stored(in_float64(case.problem, *pair)[0], "bfloat16")
        np.testing.assert_array_equal(found, expected.reshape(found.shape), err_msg=str(case))
        assert int(word.view(np.uint32).item()) == counted(case), case


@pytest.mark.parametrize(
    ("sizes", "is_long"),
    [
        ((30_208, 18_176, 90_000), True),
        ((65_536, 65_536, 4096), True),
        ((16_384, 16_384, 16_384), False),
        ((1024, 8192, 90_000), False),  # one wave
        ((262_144, 262_144, 1024), False),  # tiles of 16 stages
    ],
)
def test_long_products_are_kept_in_step(sizes: tuple[int, int, int], is_long: bool) -> None:
    kernel, problem = BY_NAME[NAME], Problem(*sizes, "bfloat16")
    assert isinstance(kernel, CudaKernel)
    config = kernel.resolve_config({}, problem)
    assert (kernel.plan(problem, config).workspace == COUNTER) is is_long
    assert ("-DPACED" in kernel_program(kernel, config, problem).options) is is_long


def test_products_in_groups_are_not() -> None:
    kernel, problem = BY_NAME[NAME], Problem(30_208, 18_176, 90_000, "bfloat16", group_sizes=(15_104, 15_104))
    assert isinstance(kernel, CudaKernel)
    assert kernel.plan(problem, kernel.resolve_config({}, problem)).workspace is None
