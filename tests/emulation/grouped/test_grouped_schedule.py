"""Which block computes which tile of a grouped product, by the schedule's own source and the table of its launch: each
row of each group once, and blocks of a cluster below each other or apart."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from kernels.catalog import BY_NAME
from kernels.model.groups import tiles
from kernels.model.kernel import CudaKernel
from tests.emulation.programs import compile_host_program, output_of
from tests.support.grouped.operands import grouped_problem

HERE = Path(__file__).parent
ROWS, DOWN = 128, 8
Case = tuple[tuple[int, ...], int, int]  # rows of groups, columns, clusters
CASES: list[Case] = [
    ((1,), 1, 3),
    ((0, 128, 129, 0, 256, 257, 0), 700, 2),
    ((385, 65, 3000, 5), 256, 5),
    (tuple(map(int, np.random.default_rng(5).integers(0, 600, 20))), 1500, 7),
    ((5,) * 40, 300, 66),
]


@pytest.mark.parametrize(("width", "cluster"), [(256, 2), (64, 1)])
def test_each_row_of_each_group_once(width: int, cluster: int, tmp_path: Path) -> None:
    kernel = BY_NAME["hopper_bf16"]
    assert isinstance(kernel, CudaKernel)
    config = kernel.resolve_config({"block_n": width, "cluster": cluster})
    values = {"BLOCK_M": ROWS, "BLOCK_N": width, "CLUSTER": cluster, "GROUP_M": DOWN}
    macros = ["-DGROUPED", "-DDTYPE_FLOAT32", "-DTRANSPOSE_A=0", "-DTRANSPOSE_B=0"]
    macros += [f"-D{name}={value}" for name, value in values.items()]
    program = compile_host_program(HERE / "schedule.cpp", tmp_path / "schedule", *macros)
    plans = [kernel.plan(grouped_problem(sizes, n, 64, "bfloat16"), config) for sizes, n, _ in CASES]
    lines = [
        " ".join(map(str, (n, clusters, len(sizes), *np.ravel(plan.groups))))
        for (sizes, n, clusters), plan in zip(CASES, plans, strict=True)
    ]
    texts = output_of(program, "\n".join(lines)).split("\n\n")
    for case, plan, text in zip(CASES, plans, texts, strict=False):
        found = [tuple(map(int, line.split())) for line in text.splitlines()]
        assert len(found) == plan.main.grid[0] * cluster
        check_case(case, found, width, cluster)


def check_case(case: Case, found: list[tuple[int, ...]], width: int, cluster: int) -> None:
    sizes, n, _ = case
    seen: set[tuple[int, int]] = set()  # rows, and where columns of a tile begin
    together: defaultdict[tuple[int, int], list[tuple[int, ...]]] = defaultdict(list)
    starts = np.cumsum([0, *sizes])
    for block, wave, row, column, columns, group, end, apart in found:
        assert end == starts[group + 1]
        together[block // cluster, wave].append((row, column, group, apart))
        for each in range(row, min(row + ROWS, end)):
            assert starts[group] <= each and (each, column) not in seen, case
            assert columns == min(width, n - column), case
            seen.add((each, column))
    assert len(seen) == sum(sizes) * tiles(n, width), case
    for blocks in together.values():
        (row, column, group, apart), *others = blocks
        for rank, other in enumerate(others, start=1):
            if not apart:
                assert other == (row + rank * ROWS, column, group, 0), case
            else:
                assert other[2:] == (group, 1) and other[1] == column + rank * width, case
                assert other[0] in (row, starts[group + 1]), case
