"""Products whose tiles are cut along k (hopper_cut.cuh): exact where sums are, the same bits at every launch, also
where several launches share the device, and where one is repeated by a CUDA graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs.benchmarks.spec import DataSpec
from kernels.catalog import BY_NAME
from kernels.entries.hopper.tiles import WIDTHS
from kernels.entries.hopper.waves import cut_always, never_cut
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem
from tests.gpu.check.fused import fused
from tests.gpu.check.test_epilogue import checked, problem_of, sent
from tests.gpu.kernels.hopper.launching import (
    Put,
    check_graph,
    check_launches_at_once,
    computed,
    drawn,
    prepared,
)
from tests.support.kernels.products import matrix, operands
from worker.device.runner import Epilogue

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

KERNELS: list[tuple[str, DTypeName]] = [("hopper_bf16", "bfloat16"), ("hopper_fp16", "float16")]
EACH = pytest.mark.parametrize(("name", "dtype"), KERNELS)
TRANSPOSED_B = (False, True)
# Deep and with few tiles, in two parts and in many; an odd end of k, rows that begin anywhere; more tiles than
# clusters, which are not cut.
SHAPES = (
    (128, 256, 4096),
    (300, 300, 20_000),
    (1, 700, 3001),
    (260, 4096, 2051),
    (1030, 1025, 2100),
    (640, 1100, 777),
    (200, 333, 255),
    (2560, 2560, 512),
)
EXACT, NORMAL = DataSpec(distribution="integers"), DataSpec()
STREAMS, LAUNCHES = 4, 5
DEEP = (300, 520, 9_000)


def configs() -> list[TileConfig]:
    return [{"block_n": n, "stages": stages, "cluster": blocks} for n, stages, blocks in (*WIDTHS, (128, 6, 1))]


def cut(runner: CudaRunner, name: str, problem: Problem, asked: TileConfig = NO_CONFIG) -> Put:
    return prepared(runner, name, problem, cut_always, asked)


def uncut(runner: CudaRunner, name: str, problem: Problem, asked: TileConfig = NO_CONFIG) -> Put:
    return prepared(runner, name, problem, never_cut, asked)


@EACH
@pytest.mark.parametrize("config", configs(), ids=lambda config: "-".join(map(str, config.values())))
@pytest.mark.parametrize("transpose_b", TRANSPOSED_B)
def test_exact_sums(runner: CudaRunner, name: str, dtype: DTypeName, config: TileConfig, transpose_b: bool) -> None:
    """Of small integers: the bits of the kernel that cuts nothing."""
    for m, n, k in SHAPES:
        problem = Problem(m, n, k, dtype, transpose_b=transpose_b)
        at = drawn(runner, problem, EXACT)
        expected = computed(uncut(runner, name, problem, config), at)
        put = cut(runner, name, problem, config)
        for _ in range(2):
            assert (computed(put, at) == expected).all(), (m, n, k)


@EACH
def test_a_batch(runner: CudaRunner, name: str, dtype: DTypeName) -> None:
    problem = Problem(130, 200, 2100, dtype, 5, a_batched=True, b_batched=True)
    at = drawn(runner, problem, EXACT)
    expected = computed(uncut(runner, name, problem), at)
    assert (computed(cut(runner, name, problem), at) == expected).all()


@EACH
@pytest.mark.parametrize("shape", [(128, 512, 32_768), (1000, 1000, 4000), (260, 4096, 16_384)])
def test_every_launch_gives_the_same_bits(
    runner: CudaRunner, rng: np.random.Generator, name: str, dtype: DTypeName, shape: tuple[int, int, int]
) -> None:
    from worker.check.verify import check
    from worker.cuda.bench.operands import as_operands

    problem = Problem(*shape, dtype)
    put, at = cut(runner, name, problem), drawn(runner, problem, NORMAL)
    expected = computed(put, at)
    assert check(problem, BY_NAME[name].accuracy[dtype], as_operands(runner.compiler, problem, at), rng).passed
    for _ in range(50):
        assert (computed(put, at) == expected).all()


@EACH
def test_launches_at_once(runner: CudaRunner, name: str, dtype: DTypeName) -> None:
    """Their blocks take multiprocessors from each other, and each stream has counters of its own."""
    problem = Problem(*DEEP, dtype)
    put = cut(runner, name, problem)
    sets = [drawn(runner, problem, DataSpec(seed=seed)) for seed in range(STREAMS)]
    check_launches_at_once(put, sets, [computed(put, at) for at in sets], 20 * LAUNCHES)


@EACH
def test_a_graph_of_launches(runner: CudaRunner, name: str, dtype: DTypeName) -> None:
    """Each launch leaves the counters to the next as it found them."""
    problem = Problem(*DEEP, dtype)
    check_graph(cut(runner, name, problem), drawn(runner, problem, NORMAL), LAUNCHES)


@EACH
@pytest.mark.parametrize("activation", [None, "gelu"])
def test_what_follows_the_sums(
    runner: CudaRunner, rng: np.random.Generator, name: str, dtype: DTypeName, activation: Any
) -> None:
    """C, a bias for rows or for columns and an activation, of a product that is cut by itself."""
    size = (300, 520, 9_000)
    problem, kernel = problem_of(size, dtype), BY_NAME[name]
    assert isinstance(kernel, CudaKernel)
    plan = kernel.plan(problem, kernel.resolve_config({}, problem, runner.device.traits))
    assert plan.workspace is not None and "CUT" in plan.workspace.macros
    for of_bias in ((1, size[1]), (size[0], 1)):
        a, b = operands(problem, rng)
        c, bias = matrix(size[:2], dtype, rng), matrix(of_bias, dtype, rng)
        epilogue = Epilogue(-1.75, 0.5, sent(c), sent(bias), activation, may_fuse=True)
        with fused(runner, name, problem, (sent(a), sent(b)), epilogue) as product:
            checked(runner, name, problem, product, rng)
