"""Which cluster of `fp32_emulated` multiplies which steps of which tile, by the source's own arithmetic
(emulated_schedule.cuh): each once, on the device that a launch is planned for, on larger and on smaller ones. The sums
of the parts have room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from kernels.entries.fp32_emulated import DEPTH, FP32_EMULATED, LINES, SUM_BYTES, sums_bytes
from kernels.model.groups import tiles
from kernels.model.kernel import CudaKernel
from kernels.model.launch_plan import LaunchPlan
from kernels.model.numerics import Problem
from tests.emulation.programs import compile_host_program, output_of

HERE = Path(__file__).parent
USUAL = 132
MULTIPROCESSORS = (144, USUAL, 114, 16)
PART_BYTES = LINES * LINES * SUM_BYTES


class Part(NamedTuple):
    block: int
    row: int
    column: int
    item: int
    tile: int
    first: int
    end: int


class Case(NamedTuple):
    problem: Problem
    multiprocessors: int


def some_cases() -> Iterator[Case]:
    rng = np.random.default_rng(3)
    shapes = [(1024, 1024, 4096), (860, 220, 9874), (65, 64, 2049), (2134, 218, 11460), (300, 300, 20_000)]
    sizes = np.exp(rng.uniform(np.log(64), np.log(9000), (60, 3))).astype(int).tolist()
    for m, n, k in (*shapes, *sizes):
        yield from (Case(Problem(m, n, k, "float32", batch), count) for count in MULTIPROCESSORS for batch in (1, 3))


CASES = list(some_cases())


def plan_of(case: Case, cluster: int) -> LaunchPlan:
    kernel = FP32_EMULATED[0]
    assert isinstance(kernel, CudaKernel)
    return kernel.plan(case.problem, kernel.resolve_config({"cluster": cluster}))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, bool], Path]:
    """By blocks of a cluster, and whether tiles may be cut."""
    folder = tmp_path_factory.mktemp("schedule")
    return {
        (cluster, cut): compile_host_program(
            HERE / "emulated_schedule.cpp", folder / f"{cluster}{cut}", f"-DCLUSTER={cluster}", *["-DCUT"] * cut
        )
        for cluster in (1, 2)
        for cut in (False, True)
    }


def parts_of(program: Path, cases: list[tuple[Case, int]]) -> list[list[Part]]:
    lines = "".join(
        f"{case.problem.m} {case.problem.n} {case.problem.batch} {tiles(case.problem.k, DEPTH)} {clusters}\n"
        for case, clusters in cases
    )
    texts = output_of(program, lines).split("\n\n")[: len(cases)]
    return [[Part(*map(int, line.split())) for line in text.splitlines() if line] for text in texts]


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
def test_every_step_of_every_tile_is_multiplied_once(
    programs: dict[tuple[int, bool], Path], cluster: int, cut: bool
) -> None:
    plans = {case: plan_of(case, cluster) for case in CASES}
    asked = [
        (case, plan.main.on(case.multiprocessors)[0] // cluster)
        for case, plan in plans.items()
        if plan.workspace is not None and (plan.workspace.macros == ("CUT",)) is cut
    ]
    assert len(asked) > 50
    for (case, clusters), parts in zip(asked, parts_of(programs[cluster, cut], asked), strict=True):
        problem, places = case.problem, defaultdict(list)
        for part in parts:
            places[part.item, part.row, part.column].append(part)
        down, across = tiles(problem.m, LINES * cluster) * cluster, tiles(problem.n, LINES)
        assert set(places) == {
            (item, row * LINES, column * LINES)
            for item in range(problem.batch)
            for row in range(down)
            for column in range(across)
        }, case
        for found in places.values():
            found.sort(key=lambda part: part.first)
            assert [part.first for part in found] == [0, *(part.end for part in found[:-1])], case
            assert found[-1].end == tiles(problem.k, DEPTH), case
        if len(parts) > down * across * problem.batch:  # then the counters and sums of a tile are its own
            assert len({part.block for part in parts}) == len(parts), case
            assert {part.tile for part in parts} == set(range(down // cluster * across * problem.batch)), case
            assert len(parts) <= clusters * cluster, case
            room = sums_bytes(case.problem, {"cluster": cluster})
            assert len(parts) * PART_BYTES <= room, case
            assert case.multiprocessors < USUAL or len(parts) * PART_BYTES == room, case
