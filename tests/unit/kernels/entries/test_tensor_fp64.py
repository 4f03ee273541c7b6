"""The tensor-core kernel for float64 without a device: registers, instructions, and which device gets which config."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.catalog import BY_NAME
from kernels.model.architectures import ARCHITECTURES, H200, H200_MULTIPROCESSORS
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem
from kernels.selection.candidates import NoKernelError
from kernels.selection.choose import choose
from kernels.selection.defaults import example
from tests.support.kernels.compiled import figures_of
from tests.support.programs import TRANSPOSES, of_float64
from tools.nvrtc import CompileError, compile_program
from worker.cuda.sources import Program, kernel_program

KERNEL = BY_NAME["tensor_fp64"]
H200_TRAITS = replace(H200.traits, multiprocessors=H200_MULTIPROCESSORS)


def program(config: TileConfig, transposes: tuple[bool, bool] = (False, False)) -> Program:
    assert isinstance(KERNEL, CudaKernel)
    return kernel_program(KERNEL, config, Problem(1, 1, 1, "float64", 1, *transposes))


@pytest.mark.parametrize("resident", [0, 1])
@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_sums_and_slabs_stay_in_registers(transposes: tuple[bool, bool], resident: int) -> None:
    (figures,) = figures_of([of_float64(transposes, resident)])
    assert figures.local_bytes == 0


def test_it_multiplies_float64_on_devices_that_have_the_instruction() -> None:
    problem = Problem(9, 9, 9, "float64")
    assert choose("tensor_fp64", NO_CONFIG, problem, "fp64", ARCHITECTURES["sm_80"].traits).kernel is KERNEL
    with pytest.raises(NoKernelError, match=r"tensor_fp64 needs compute capability 8\.0; this device has 7\.5\."):
        choose("tensor_fp64", NO_CONFIG, problem, "fp64", ARCHITECTURES["sm_75"].traits)


@pytest.mark.parametrize(
    ("n", "block", "edge", "resident"),
    [
        (1024, 64, 0, 0),
        (1025, 128, 0, 1),
        (2047, 128, 0, 0),
        (2048, 128, 0, 0),
        (2304, 128, 0, 1),
        (3000, 128, 0, 1),
        (4096, 128, 0, 0),
        (4097, 128, 8, 0),
    ],
)
def test_blocks_stay_where_a_last_wave_would_be_mostly_empty(n: int, block: int, edge: int, resident: int) -> None:
    """As was seen on an H200."""
    config = KERNEL.resolve_config(NO_CONFIG, Problem(n, n, n, "float64"), H200_TRAITS)
    assert (config["block_m"], config["block_n"]) == (block, block)
    assert (config["edge"], config["resident"]) == (edge, resident)


def test_blocks_do_not_stay_where_k_is_short() -> None:
    for k, resident in ((511, 0), (512, 1)):
        assert KERNEL.resolve_config(NO_CONFIG, Problem(2304, 2304, k, "float64"), H200_TRAITS)["resident"] == resident


def test_the_largest_tile_goes_where_its_shared_memory_is() -> None:
    large = example("large", "float64")
    columns = {
        name: KERNEL.resolve_config(NO_CONFIG, large, ARCHITECTURES[name].traits)["block_n"]
        for name in ARCHITECTURES
        if name != "sm_75"
    }
    assert columns == {"sm_80": 128, "sm_90": 128, "sm_100": 128, "sm_86": 64, "sm_89": 64, "sm_120": 64}


@pytest.mark.parametrize(
    ("old", "new", "arch", "sentence"),
    [
        ("-DDTYPE_FLOAT64", "-DDTYPE_FLOAT64", "sm_75", "tensor cores take float64 from compute capability 8.0 on"),
        ("-DDTYPE_FLOAT64", "-DDTYPE_FLOAT32", "sm_90", "these tensor cores are given float64"),
        ("-DWARP_M=64", "-DWARP_M=24", "sm_90", "a warp's tile is a whole number of 16×16 squares"),
        ("-DWARP_M=64", "-DWARP_M=256", "sm_90", "the block's tile is a whole number of warp tiles"),
        ("-DSTEP=8", "-DSTEP=4", "sm_90", "an instruction takes 8 or 16 steps of k"),
        ("-DSTEP=8", "-DSTEP=16", "sm_90", "slabs take turns in sets of registers"),
        ("-DAHEAD=2", "-DAHEAD=5", "sm_90", "what is read ahead is of this step or the next"),
        ("-DSTAGES=4", "-DSTAGES=1", "sm_90", "a pipeline has a tile to multiply and at least one on its way"),
    ],
)
def test_what_cannot_work_is_refused_in_words(old: str, new: str, arch: str, sentence: str) -> None:
    good = program(KERNEL.resolve_config())
    assert old in good.options
    bad = replace(good, options=tuple(new if option == old else option for option in good.options))
    with pytest.raises(CompileError, match=sentence):
        compile_program(bad, arch)
