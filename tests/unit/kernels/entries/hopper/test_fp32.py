"""`hopper_fp32` without a device: registers, room on a multiprocessor, how it is launched."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from kernels.catalog import BY_NAME
from kernels.entries.hopper.fp32 import HOPPER_FP32
from kernels.model.architectures import ARCHITECTURES, H200, H200_MULTIPROCESSORS
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.numerics import Problem
from kernels.selection.candidates import NoKernelError
from kernels.selection.choose import choose
from tests.support.kernels.compiled import figures_of
from tests.support.programs import on_cuda_cores
from worker.cuda.sources import kernel_program

(KERNEL,) = HOPPER_FP32
CONFIGS = list(KERNEL.configs())
LARGE = Problem(4096, 4096, 4096, "float32")


def test_sums_and_operands_stay_in_registers() -> None:
    for figures in figures_of(on_cuda_cores()):
        assert (figures.local_bytes, figures.warnings) == (0, 0)
        assert figures.registers <= 255


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_as_many_blocks_find_room_as_are_launched(config: TileConfig) -> None:
    launch = KERNEL.plan(LARGE, config).main
    threads, _, _ = launch.block
    assert launch.on(H200_MULTIPROCESSORS)[0] == launch.each * H200_MULTIPROCESSORS
    assert threads * launch.each == 256
    assert H200.resident_blocks(threads, 255, launch.shared_bytes) == launch.each
    assert KERNEL.misfit(config, "float32", H200.traits) is None


def test_a_few_tiles_are_cut_among_all_blocks() -> None:
    config = KERNEL.resolve_config()
    for (m, n, k), blocks in (((1, 1, 1), 1), ((1, 1, 1280), 10), ((1025, 1025, 1025), 264), ((300, 300, 40), 9)):
        assert KERNEL.plan(Problem(m, n, k, "float32"), config).main.on(H200_MULTIPROCESSORS)[0] == blocks


def test_the_workspace_has_room_for_every_block_s_pieces() -> None:
    """Of fewer pieces than there are blocks and tiles."""
    assert KERNEL.workspace is not None
    for config in CONFIGS:
        tile_bytes = config["block_m"] * config["block_n"] * 4
        for problem in (LARGE, Problem(1, 1, 1, "float32"), Problem(1025, 1025, 1025, "float32")):
            need, launch = KERNEL.workspace(problem, config), KERNEL.plan(problem, config).main
            assert need is not None
            for multiprocessors in (1, H200_MULTIPROCESSORS, 144):
                blocks = launch.on(multiprocessors)[0]
                assert need.bytes >= (blocks + min(blocks, launch.grid[0])) * tile_bytes


@pytest.mark.parametrize("transposes", list(itertools.product((False, True), repeat=2)))
def test_operands_come_with_rows_of_k(transposes: tuple[bool, bool]) -> None:
    """One binary serves all transpositions."""
    problem, config = Problem(70, 80, 90, "float32", 3, *transposes, b_batched=True), KERNEL.resolve_config()
    assert KERNEL.plan(problem, config).launched == replace(problem, transpose_a=True, transpose_b=False)
    options = kernel_program(KERNEL, config, problem).options
    assert {"-DTRANSPOSE_A=1", "-DTRANSPOSE_B=0"} <= set(options)


@pytest.mark.parametrize("config", [{"block_m": 256, "block_n": 256}, {"block_m": 128, "block_n": 128, "stages": 4}])
def test_what_does_not_fit_is_refused_in_words(config: TileConfig) -> None:
    with pytest.raises(
        ValueError, match=r"one side may be 256\.|must leave room for eight warps on a multiprocessor\."
    ):
        KERNEL.resolve_config(config)


def test_other_architectures_take_another_kernel() -> None:
    able = [each.name for each in ARCHITECTURES.values() if KERNEL.unsupported_because(each.traits) is None]
    assert able == ["sm_90"]
    with pytest.raises(NoKernelError, match=r"hopper_fp32 needs compute capability 9\.0; this device has 8\.9\."):
        choose(
            "hopper_fp32", NO_CONFIG, LARGE, BY_NAME["hopper_fp32"].accuracy["float32"], ARCHITECTURES["sm_89"].traits
        )


@pytest.mark.parametrize(
    ("size", "transpose_a", "columns"),
    [(512, False, 128), (1025, False, 256), (4096, False, 256), (4096, True, 128), (5000, False, 128)],
)
def test_tiles_are_as_wide_as_was_fastest(size: int, transpose_a: bool, columns: int) -> None:
    """Too few tiles leave multiprocessors idle; an A that is transposed before favours blocks alone on theirs."""
    problem = Problem(size, size, size, "float32", 1, transpose_a)
    assert KERNEL.resolve_config(problem=problem, device=H200.traits)["block_n"] == columns
