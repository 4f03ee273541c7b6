"""Which products of 16-bit operands have their tiles cut along k, and what their launches are given for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.entries.hopper.cut import Cut
from kernels.entries.hopper.waves import COUNTER, is_cut, never_cut
from kernels.model.architectures import H200, H200_MULTIPROCESSORS
from kernels.model.launch_plan import LaunchPlan
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.ahead import likely_products
from tests.support.kernels.catalogue import cuda_kernel
from worker.cuda.sources import kernel_program

NAME = "hopper_bf16"
KERNEL = cuda_kernel(NAME)
DEVICE = replace(H200.traits, multiprocessors=H200_MULTIPROCESSORS)
DEEP = Problem(300, 300, 20_000, "bfloat16")


def plan_of(problem: Problem) -> LaunchPlan:
    return KERNEL.plan(problem, KERNEL.resolve_config({}, problem, DEVICE))


@pytest.mark.parametrize("sizes", [(300, 300, 20_000), (128, 512, 32_768), (256, 4096, 16_384), (64, 64, 50_000)])
def test_deep_products_with_few_tiles_are_cut(sizes: tuple[int, int, int]) -> None:
    """With room for the sums of all parts, and a counter for each warp of each tile."""
    problem = Problem(*sizes, "bfloat16")
    config = KERNEL.resolve_config({}, problem, DEVICE)
    plan = KERNEL.plan(problem, config)
    assert plan.workspace is not None and plan.workspace.macros == ("CUT",)
    assert "-DCUT" in kernel_program(KERNEL, config, problem).options
    blocks = plan.main.on(H200_MULTIPROCESSORS)[0]
    tiles = plan.main.grid[0]
    assert 2 * tiles <= blocks <= H200_MULTIPROCESSORS
    assert plan.workspace.bytes >= blocks * config["block_m"] * config["block_n"] * 4
    assert plan.workspace.counters >= tiles * 8 and plan.workspace.zeroed_bytes == 0


@pytest.mark.parametrize(
    "problem",
    [
        Problem(4096, 4096, 4096, "bfloat16"),  # many tiles
        Problem(2048, 2048, 8192, "bfloat16"),  # a wave of them
        Problem(64, 64, 256, "bfloat16"),  # not deep
        replace(DEEP, batch=200, a_batched=True, b_batched=True),
        Problem(300, 300, 20_000, "bfloat16", group_sizes=(100, 200)),
    ],
    ids=str,
)
def test_others_are_not(problem: Problem) -> None:
    plan = plan_of(problem)
    assert plan.workspace is None and plan.main.parts == 1


@pytest.mark.parametrize(
    ("name", "dtype"), [("hopper_tf32", "float32"), ("hopper_int8", "int8"), ("hopper_fp8", "float8_e4m3")]
)
def test_operands_of_other_types_are_not(name: str, dtype: DTypeName) -> None:
    kernel, problem = cuda_kernel(name), replace(DEEP, dtype=dtype)
    config = kernel.resolve_config({}, problem, DEVICE)
    assert not is_cut(problem, config) and kernel.plan(problem, config).workspace is None


def test_one_triangle_alone_is_not() -> None:
    symmetric = Problem(300, 300, 20_000, "bfloat16", transpose_b=True, symmetric=True)
    config = KERNEL.resolve_config({}, symmetric, DEVICE)
    assert not is_cut(symmetric, config) and is_cut(replace(symmetric, symmetric=False), config)


def test_long_products_are_kept_in_step_still() -> None:
    assert plan_of(Problem(30_208, 18_176, 90_000, "bfloat16")).workspace == COUNTER


def test_cuts_are_forecast_to_gain() -> None:
    whole, clocks = never_cut(KERNEL).clocks, KERNEL.clocks
    assert whole is not None and clocks is not None
    seen = 0
    for default in KERNEL.defaults:
        for k in (512, 4096, 32_768):
            for m, n in ((64, 64), (300, 300), (1000, 1000), (256, 4096), (3000, 3000)):
                problem, config = Problem(m, n, k, "float16"), default.config
                cut, uncut = (each(problem, config, H200_MULTIPROCESSORS) for each in (clocks, whole))
                assert cut < uncut if is_cut(problem, config) else cut == uncut
                seen += is_cut(problem, config)
    assert seen > 10


def test_parts() -> None:
    """As many as there are clusters for a tile, none shorter than four stages or than there are parts."""
    assert [Cut(tiles, 66, 1000).parts for tiles in (1, 4, 33, 34, 66, 67)] == [31, 16, 2, 1, 1, 1]
    assert [Cut(2, 66, stages).parts for stages in (0, 3, 8, 99, 100, 2000)] == [1, 1, 2, 9, 10, 33]


def test_programs_of_cut_tiles_are_compiled_ahead() -> None:
    named = replace(DEVICE, name="NVIDIA H100 80GB HBM3")
    programs = [
        kernel_program(choice.kernel, choice.config, problem)
        for choice, problem in likely_products(named)
        if choice.kernel is KERNEL
    ]
    assert {"-DCUT" in program.options for program in programs} == {True, False}
