"""Every CUDA source compiles for every device it is meant for, without a GPU; what it refuses, it refuses in words."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from kernels.catalog import BY_NAME, CATALOG
from kernels.kernel import SOURCE_DIR, ConfigError, CudaKernel, TileConfig
from kernels.numerics import DTYPE_NAMES, DTypeName, Problem
from tests.support.nvrtc import CompileError, compile_program
from worker.sources import CHECK_SOURCE, Program, check_program, headers, kernel_program, turn_program

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
KERNELS = [kernel for kernel in CATALOG if isinstance(kernel, CudaKernel)]
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]


def configs(kernel: CudaKernel) -> list[TileConfig]:
    """All that the kernel takes."""
    names = [parameter.name for parameter in kernel.parameters]
    found = []
    for values in itertools.product(*(parameter.values for parameter in kernel.parameters)):
        try:
            found.append(kernel.resolve_config(dict(zip(names, values, strict=True))))
        except ConfigError:
            continue
    return found


def program(kernel: CudaKernel, dtype: DTypeName, transposes: tuple[bool, bool], config: TileConfig) -> Program:
    problem = Problem(1, 1, 1, dtype, transpose_a=transposes[0], transpose_b=transposes[1])
    return kernel_program(kernel, config, problem)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("index", range(len(KERNELS)), ids=lambda index: KERNELS[index].name)
def test_a_kernel_compiles_for_every_device(index: int, arch: str) -> None:
    kernel, turn = KERNELS[index], index + ARCHS.index(arch)
    dtype = kernel.dtypes[turn % len(kernel.dtypes)]
    assert compile_program(program(kernel, dtype, TRANSPOSES[turn % 4], kernel.resolve_config()), arch)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_kernel_compiles_for_every_type_and_transposition(kernel: CudaKernel) -> None:
    for index, dtype in enumerate(kernel.dtypes):
        for transposes in (TRANSPOSES[index % 2], TRANSPOSES[2 + index % 2]):
            binary = compile_program(program(kernel, dtype, transposes, kernel.resolve_config()), "sm_90")
            assert kernel.name.encode() in binary


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_kernel_compiles_in_every_config(kernel: CudaKernel) -> None:
    for index, config in enumerate(configs(kernel)):
        dtype = kernel.dtypes[index % len(kernel.dtypes)]
        assert compile_program(program(kernel, dtype, TRANSPOSES[index % 4], config), "sm_90")


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_the_check_compiles(dtype: DTypeName) -> None:
    for transposed, arch in ((False, "sm_75"), (True, "sm_90")):
        binary = compile_program(check_program(dtype, transposed=transposed), arch)
        assert b"sums" in binary and b"gather" in binary


@pytest.mark.parametrize("arch", ARCHS)
def test_the_transposition_compiles(arch: str) -> None:
    assert b"turn" in compile_program(turn_program(), arch)


def test_every_source_is_in_the_catalogue_and_every_entry_has_its_source() -> None:
    assert {path.stem for path in SOURCE_DIR.glob("*.cu")} == {kernel.name for kernel in KERNELS}
    assert {path.name for path in SOURCE_DIR.glob("*.cuh")} == set(headers())
    assert CHECK_SOURCE.exists()


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("naive", ("-DBLOCK_M=64", "-DBLOCK_N=32"), "a block has at most 1024 threads"),
        ("naive", ("-DBLOCK_M=1", "-DBLOCK_N=8"), "a block needs at least one warp"),
        ("shared_tiled", ("-DTILE=24",), "TILE is 8, 16 or 32"),
        ("shared_tiled", ("-DTILE=64",), "TILE is 8, 16 or 32"),
    ],
)
def test_a_tile_that_cannot_work_is_refused_in_words(name: str, options: tuple[str, ...], sentence: str) -> None:
    kernel = BY_NAME[name]
    assert isinstance(kernel, CudaKernel)
    good = program(kernel, "float32", (False, False), kernel.resolve_config())
    kept = tuple(option for option in good.options if not option.startswith(("-DBLOCK", "-DTILE")))
    with pytest.raises(CompileError, match=sentence):
        compile_program(replace(good, options=(*kept, *options)), "sm_90")


def test_an_element_type_must_be_named() -> None:
    kernel = KERNELS[0]
    good = program(kernel, "float32", (False, False), kernel.resolve_config())
    kept = tuple(option for option in good.options if "DTYPE" not in option)
    with pytest.raises(CompileError, match="define one of DTYPE_FLOAT16"):
        compile_program(replace(good, options=kept), "sm_90")


def test_the_key_of_a_compiled_kernel_changes_with_all_it_depends_on() -> None:
    kernel = KERNELS[0]
    one = program(kernel, "float32", (False, False), kernel.resolve_config())
    other_options = program(kernel, "float64", (False, False), kernel.resolve_config())
    other_source = replace(one, path=KERNELS[1].source_path)
    keys = [one.key("sm_90", "13.0"), one.key("sm_80", "13.0"), one.key("sm_90", "13.1")]
    keys += [other_options.key("sm_90", "13.0"), other_source.key("sm_90", "13.0")]
    assert len(set(keys)) == len(keys)
    assert one.key("sm_90", "13.0") == keys[0]
