"""The tensor-core kernel without a device: what it compiles for and with, and which device gets which config."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.catalog import BY_NAME
from kernels.model.architectures import ARCHITECTURES
from kernels.model.buckets import BucketName
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.candidates import NoKernelError
from kernels.selection.choose import choose
from kernels.selection.defaults import example
from tests.support.kernels.compiled import figures_of
from tests.support.programs import TRANSPOSES, WMMA_BUCKETS, of_wmma
from tools.nvrtc import CompileError, compile_program
from worker.cuda.sources import Program, kernel_program

KERNEL = BY_NAME["tensor_wmma"]
REPORTED: TileConfig = {"block_m": 64, "block_n": 128, "block_k": 16, "warp_m": 16, "warp_n": 16, "stages": 3}


def program(dtype: DTypeName, config: TileConfig, transposes: tuple[bool, bool] = (False, False)) -> Program:
    assert isinstance(KERNEL, CudaKernel)
    return kernel_program(KERNEL, config, Problem(1, 1, 1, dtype, 1, *transposes))


@pytest.mark.parametrize("bucket", WMMA_BUCKETS)
@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_sums_and_fragments_stay_in_registers(bucket: BucketName, transposes: tuple[bool, bool]) -> None:
    (figures,) = figures_of([of_wmma(bucket, transposes)])
    assert figures.local_bytes == 0
    assert figures.registers <= 255


def test_the_report_s_arrangement_is_among_the_configs() -> None:
    """Blocks of 1,024 threads, a fragment a warp."""
    assert REPORTED in list(KERNEL.configs())
    assert isinstance(KERNEL, CudaKernel)
    assert KERNEL.plan(Problem(64, 128, 16, "float16"), REPORTED).main.block == (1024, 1, 1)


def test_bfloat16_needs_a_newer_device_than_float16() -> None:
    turing = ARCHITECTURES["sm_75"].traits
    assert choose("tensor_wmma", NO_CONFIG, Problem(9, 9, 9, "float16"), "tf32", turing).kernel is KERNEL
    with pytest.raises(NoKernelError, match=r"tensor_wmma for bfloat16 needs compute capability 8\.0; .* has 7\.5\."):
        choose("tensor_wmma", NO_CONFIG, Problem(9, 9, 9, "bfloat16"), "bf16", turing)


def test_the_deepest_tile_goes_where_its_shared_memory_is() -> None:
    large = example("large", "float16")
    found = {arch: KERNEL.resolve_config(NO_CONFIG, large, ARCHITECTURES[arch].traits) for arch in ARCHITECTURES}
    assert [found[arch]["block_k"] for arch in ("sm_80", "sm_90", "sm_100")] == [64, 64, 64]
    assert [found[arch]["block_k"] for arch in ("sm_75", "sm_86", "sm_89", "sm_120")] == [32, 32, 32, 32]


@pytest.mark.parametrize(
    ("old", "new", "arch", "sentence"),
    [
        ("-DDTYPE_BFLOAT16", "-DDTYPE_BFLOAT16", "sm_75", "tensor cores take bfloat16 from compute capability 8.0 on"),
        ("-DDTYPE_BFLOAT16", "-DDTYPE_FLOAT32", "sm_90", "tensor cores are given 16-bit floats here"),
        ("-DWARP_M=64", "-DWARP_M=24", "sm_90", "a warp's tile is a whole number of 16×16 fragments"),
        ("-DWARP_M=64", "-DWARP_M=256", "sm_90", "the block's tile is a whole number of warp tiles"),
        ("-DBLOCK_K=32", "-DBLOCK_K=24", "sm_90", "the tile's depth is a whole number of fragments"),
        ("-DSTAGES=3", "-DSTAGES=1", "sm_90", "a pipeline has a tile to multiply and at least one on its way"),
    ],
)
def test_what_cannot_work_is_refused_in_words(old: str, new: str, arch: str, sentence: str) -> None:
    good = program("bfloat16", KERNEL.resolve_config())
    assert old in good.options
    bad = replace(good, options=tuple(new if option == old else option for option in good.options))
    with pytest.raises(CompileError, match=sentence):
        compile_program(bad, arch)
