"""The kernels for Hopper without a device: what they compile to, where they are refused, how they are launched."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kernels.catalog import BY_NAME, CATALOG
from kernels.model.architectures import ARCHITECTURES, H200, H200_MULTIPROCESSORS
from kernels.model.entry.config import NO_CONFIG, ConfigError, TileConfig
from kernels.model.fused import FusedEpilogue
from kernels.model.kernel import CudaKernel
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.selection.candidates import NoKernelError, candidates
from kernels.selection.choose import choose, choose_again
from service.catalogue import view
from tests.support.kernels.catalogue import cuda_kernel
from tests.support.kernels.compiled import figures_of
from tests.support.programs import (
    B_FROM_REGISTERS,
    HOPPER,
    PROMOTED_WIDTHS,
    SCALED_WIDTHS,
    TRANSPOSES,
    of_every_width,
    promoted,
    with_b_from_registers,
    with_scales,
)
from worker.cuda.sources import kernel_program

EACH = pytest.mark.parametrize(("name", "dtype"), HOPPER)
ACROSS = pytest.mark.parametrize(("name", "dtype", "own"), B_FROM_REGISTERS)


@EACH
def test_sums_stay_in_registers_and_instructions_in_flight(name: str, dtype: DTypeName) -> None:
    """The compiler says where it had to let one matrix instruction end before the next, or moved sums to memory."""
    for figures in figures_of(of_every_width(name, dtype)):
        assert (figures.local_bytes, figures.warnings) == (0, 0)


@pytest.mark.parametrize("block_n", PROMOTED_WIDTHS)
def test_partial_sums_stay_in_registers_too(block_n: int) -> None:
    (figures,) = figures_of([promoted(block_n)])
    assert (figures.local_bytes, figures.warnings) == (0, 0)


@EACH
def test_no_other_architecture_has_these_instructions(name: str, dtype: DTypeName) -> None:
    kernel = cuda_kernel(name)
    able = [each.name for each in ARCHITECTURES.values() if kernel.unsupported_because(each.traits) is None]
    assert able == ["sm_90"]
    with pytest.raises(NoKernelError, match=rf"{name} needs compute capability 9\.0; this device has 8\.9\."):
        choose(name, NO_CONFIG, Problem(9, 9, 9, dtype), kernel.accuracy[dtype], ARCHITECTURES["sm_89"].traits)
    with pytest.raises(NoKernelError, match=r"9\.0 itself, whose instructions no other has; this device has 10\.0\."):
        choose(name, NO_CONFIG, Problem(9, 9, 9, dtype), kernel.accuracy[dtype], ARCHITECTURES["sm_100"].traits)


@EACH
def test_auto_takes_another_kernel_elsewhere(name: str, dtype: DTypeName) -> None:
    accuracy = BY_NAME[name].accuracy[dtype]
    for architecture in ARCHITECTURES.values():
        if architecture is not H200:
            found = choose("auto", NO_CONFIG, Problem(4096, 4096, 4096, dtype), accuracy, architecture.traits)
            assert not found.kernel.architecture_specific


def test_programs_of_one_architecture_are_compiled_as_such() -> None:
    for kernel in CATALOG:
        if isinstance(kernel, CudaKernel):
            program = kernel_program(kernel, kernel.resolve_config(), Problem(1, 1, 1, kernel.dtypes[0]))
            assert program.arch("sm_90") == ("sm_90a" if kernel.architecture_specific else "sm_90")


@pytest.mark.parametrize(
    ("tiles", "cluster", "multiprocessors", "launched"),
    [(1, 1, 132, 1), (1, 2, 132, 2), (500, 2, 132, 132), (500, 2, 131, 130), (500, 1, 131, 131), (3, 2, 1, 2)],
)
def test_resident_blocks_are_whole_clusters_and_no_more_than_multiprocessors(
    tiles: int, cluster: int, multiprocessors: int, launched: int
) -> None:
    launch = Launch((tiles, 1, 1), (384, 1, 1), resident=True, cluster=cluster)
    assert launch.on(multiprocessors) == (launched, 1, 1)
    assert Launch((tiles, 1, 7), (384, 1, 1)).on(multiprocessors) == (tiles, 1, 7)


@EACH
def test_every_config_fits_one_block_on_a_multiprocessor(name: str, dtype: DTypeName) -> None:
    kernel = cuda_kernel(name)
    for config in kernel.configs():
        assert kernel.misfit(config, dtype, H200.traits) is None
        launch = kernel.plan(Problem(4096, 4096, 64, dtype), config).main
        assert launch.shared_bytes == kernel.shared_bytes(config, dtype)
        assert launch.on(H200_MULTIPROCESSORS)[0] == H200_MULTIPROCESSORS


@pytest.mark.parametrize("config", [{"block_n": 256, "stages": 5}, {"block_n": 192, "stages": 6}])
def test_what_does_not_fit_is_refused_in_words(config: TileConfig) -> None:
    with pytest.raises(ValueError, match=r"stages × block_n = \d+ × \d+ must fit in shared memory\."):
        BY_NAME["hopper_bf16"].resolve_config(config)


@EACH
@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_other_operands_than_16_bit_ones_are_multiplied_along_k(
    name: str, dtype: DTypeName, transposes: tuple[bool, bool]
) -> None:
    """One binary serves all transpositions, or two where B is multiplied as it lies."""
    kernel, problem = cuda_kernel(name), Problem(70, 80, 90, dtype, 3, *transposes, b_batched=True)
    config = kernel.resolve_config()
    launched = kernel.plan(problem, config).launched
    along = transposes if DTYPES[dtype].itemsize == 2 else (False, dtype == "float8_e4m3" or transposes[1])
    assert launched == replace(problem, transpose_a=along[0], transpose_b=along[1])
    options = kernel_program(kernel, config, problem).options
    assert {f"-DTRANSPOSE_A={int(along[0])}", f"-DTRANSPOSE_B={int(along[1])}"} <= set(options)


@EACH
def test_a_box_s_rows_have_128_bytes(name: str, dtype: DTypeName) -> None:
    kernel = cuda_kernel(name)
    assert kernel.boxes is not None
    boxes = kernel.boxes(Problem(1, 1, 1, dtype), kernel.resolve_config())
    assert boxes.a[1] * DTYPES[dtype].itemsize == boxes.b[1] * DTYPES[dtype].itemsize == 128
    assert boxes.c[1] * DTYPES[DTYPES[dtype].product].itemsize == 128
    assert boxes.to_tf32 == (kernel.accuracy == {"float32": "tf32"})


@ACROSS
def test_a_b_that_lies_across_k_is_multiplied_as_it_lies(name: str, dtype: DTypeName, own: TileConfig) -> None:
    """An A that lies across k is transposed all the same. Blocks count turned tiles."""
    kernel, step = cuda_kernel(name), 128 // DTYPES[dtype].itemsize
    assert kernel.boxes is not None
    config = kernel.resolve_config({"block_n": 256, "stages": 4, "cluster": 2, **own})
    for transpose_a, transpose_b in TRANSPOSES:
        problem = Problem(129, 513, 90, dtype, 3, transpose_a, transpose_b)
        assert kernel.plan(problem, config).launched == replace(problem, transpose_a=False)
        assert kernel.boxes(problem, config).b == ((64, step) if transpose_b else (step, step))
        assert kernel.plan(problem, config).main.grid[0] == 3 * (2 * 3 if transpose_b else 1 * 5)


@ACROSS
def test_a_box_of_bytes_is_no_wider_than_what_divides_a_tile(name: str, dtype: DTypeName, own: TileConfig) -> None:
    """192 columns of bytes are no multiple of 128, but of 64."""
    kernel, itemsize = cuda_kernel(name), DTYPES[dtype].itemsize
    assert kernel.boxes is not None
    for config in kernel.configs():
        if {**config, **own} == config:
            rows, columns = kernel.boxes(Problem(1, 1, 1, dtype), config).b
            assert (rows * itemsize, config["block_m"] % columns) == (128, 0)
            assert columns * itemsize == (64 if (config["block_m"], itemsize) == (192, 1) else 128)


@ACROSS
def test_no_instruction_waits_where_an_operand_comes_from_registers(
    name: str, dtype: DTypeName, own: TileConfig
) -> None:
    for figures in figures_of(with_b_from_registers(name, dtype, own)):
        assert (figures.local_bytes, figures.warnings) == (0, 0)


def test_bytes_whose_sums_are_promoted_lie_along_k() -> None:
    """Registers do not hold both."""
    kernel, problem = cuda_kernel("hopper_fp8"), Problem(129, 513, 90, "float8_e4m3")
    assert kernel.plan(problem, kernel.resolve_config({"promote": 1})).launched == replace(problem, transpose_b=True)


@pytest.mark.parametrize("widths", SCALED_WIDTHS)
def test_block_scales_find_registers(widths: tuple[int, int]) -> None:
    (figures,) = figures_of([with_scales(*widths)])
    assert (figures.local_bytes, figures.warnings) == (0, 0)


@pytest.mark.parametrize(
    ("config", "columns", "words"),
    [
        ({"promote": 0}, 128, "Block scales are for sums that are promoted: take promote=1"),
        ({"block_n": 192}, 128, "Tiles of block_n=192 begin within a block of scales: take 64, 128 or 256."),
    ],
)
def test_configs_that_scales_do_not_go_with_are_refused(config: TileConfig, columns: int, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        cuda_kernel("hopper_fp8").resolve_config(config, Problem(9, 9, 9, "float8_e4m3", scale_columns=columns))


def test_auto_takes_tensor_cores_for_block_scales_where_there_are_some() -> None:
    """The widest tiles, at sizes that fill them; elsewhere what dequantises first."""
    for columns, width in ((128, 256), (1, 256)):
        problem = Problem(4096, 7168, 2048, "float8_e4m3", scale_columns=columns)
        choice = choose("auto", {}, problem, "fp8", H200.traits)
        assert (choice.kernel.name, choice.config["block_n"], choice.config["promote"]) == ("hopper_fp8", width, 1)
        newer = choose("auto", {}, problem, "fp8", ARCHITECTURES["sm_100"].traits)
        assert newer.kernel.name == "cublas" == choose_again(problem, "fp8", H200.traits).kernel.name
        with pytest.raises(NoKernelError, match="cublas_fp8_fast does not take operands with block scales"):
            choose("cublas_fp8_fast", {}, problem, "fp8", H200.traits)


def test_the_librarys_product_of_block_scales_is_for_these_alone() -> None:
    scaled, plain = (Problem(64, 64, 256, "float8_e4m3", scale_columns=width) for width in (128, 0))
    assert choose("cublas_fp8_blocks", {}, scaled, "fp8", H200.traits).kernel.name == "cublas_fp8_blocks"
    with pytest.raises(NoKernelError, match="takes only operands with block scales; take another kernel"):
        choose("cublas_fp8_blocks", {}, plain, "fp8", H200.traits)
    with pytest.raises(NoKernelError, match=r"needs compute capability 9\.0 itself"):
        choose("cublas_fp8_blocks", {}, scaled, "fp8", ARCHITECTURES["sm_100"].traits)
    assert "cublas_fp8_blocks" in {each.name for each in candidates(scaled, "fp8", H200.traits)}
    assert "cublas_fp8_blocks" not in {each.name for each in candidates(plain, "fp8", H200.traits)}


def test_no_box_of_16_bits_leaves_where_columns_are_rows() -> None:
    kernel, narrow = cuda_kernel("hopper_fp8"), FusedEpilogue("bfloat16")
    for promote, along_k in ((1, True), (1, False), (0, True), (0, False)):
        problem = Problem(4096, 4096, 4096, "float8_e4m3", transpose_b=along_k)
        config = kernel.resolve_config({"promote": promote}, problem)
        assert kernel.fuses(problem, config, narrow) == bool(promote or along_k)
        assert kernel.fuses(problem, config, FusedEpilogue("float32"))


def test_the_api_says_that_no_newer_device_runs_it() -> None:
    assert view(BY_NAME["hopper_bf16"], []).architecture_specific
    assert not view(BY_NAME["tensor_wmma"], []).architecture_specific


@EACH
def test_a_last_wave_that_tiles_do_not_fill_gets_more_and_narrower_ones(name: str, dtype: DTypeName) -> None:
    """256 pairs of tiles on 66 clusters are four turns, and so are 264. Where sums are promoted none are narrower;
    3,840 columns are 15 tiles, and 16 of 240 as well."""
    kernel = cuda_kernel(name)
    config = kernel.resolve_config(
        {"block_n": 256, "cluster": 2, "edge": 0} if dtype == "float32" else {"block_n": 256}
    )
    assert kernel.clocks is not None
    at = {n: kernel.clocks(Problem(n, n, 4096, dtype), config, H200_MULTIPROCESSORS) for n in (2048, 3584, 3840, 4096)}
    turns = {n: clocks / at[2048] for n, clocks in at.items()}  # 64 pairs of tiles are one turn
    narrower = {3840: 225 / 233, 4096: 256 / 264} if not config.get("promote") else {3840: 1.0, 4096: 1.0}
    assert turns[3584] == pytest.approx(3)
    assert {n: turns[n] / 4 for n in narrower} == pytest.approx(narrower)
