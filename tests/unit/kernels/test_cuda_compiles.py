"""CUDA sources compile for every device they are meant for, without a GPU; what they refuse, they refuse in words.

Every config of every kernel: test_kernel_resources.py. Transpositions, warnings, and what runs around a kernel are on
record, too: tests/support/kernels/compiled.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernels.catalog import BY_NAME
from kernels.model.architectures import ARCHITECTURES
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem
from kernels.model.sources import SOURCE_DIR, source_files
from tests.support.grouped.programs import of_groups, of_hopper_groups
from tests.support.kernels.catalogue import pair_dtypes
from tests.support.kernels.compiled import figures_of
from tests.support.programs import (
    FUSED,
    KERNELS,
    TRANSPOSES,
    behind_others,
    of_a_gate,
    of_cut,
    of_every_type,
    of_fused,
    of_long,
    of_pairs,
    of_the_check,
    of_the_fused_check,
    of_transposition,
)
from tools.nvrtc import CompileError, architectures, compile_program
from worker.cuda.sources import SKETCH_SOURCE, TRANSPOSE_THREADS, Program, kernel_program, sketch_program

ARCHS = tuple(ARCHITECTURES)


def program(kernel: CudaKernel, dtype: DTypeName, transposes: tuple[bool, bool], config: TileConfig) -> Program:
    problem = Problem(1, 1, 1, dtype, transpose_a=transposes[0], transpose_b=transposes[1])
    return kernel_program(kernel, config, problem)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_kernel_compiles_for_every_type_and_transposition(kernel: CudaKernel) -> None:
    assert len(figures_of(of_every_type(kernel))) == 2 * len(kernel.dtypes)


@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if pair_dtypes(kernel)], ids=lambda each: each.name)
def test_a_kernel_compiles_for_pairs_and_leaves_their_sums_in_registers(kernel: CudaKernel) -> None:
    """The pass that writes remainders of both operands along memory spills two words, once for a run of steps."""
    for figures in figures_of(of_pairs(kernel)):
        assert figures.local_bytes <= 8 and not figures.warnings


def test_this_compiler_knows_every_architecture() -> None:
    assert set(ARCHS) <= architectures()


@pytest.mark.parametrize("arch", ARCHS)
def test_the_check_of_a_product_compiles(arch: str) -> None:
    """The sketches within a block's shared memory; what reads elements back with few registers on the stack."""
    for asked, figures in zip(of_the_check(arch), figures_of(of_the_check(arch), arch), strict=True):
        assert not figures.warnings
        assert figures.static_shared_bytes <= 48 << 10
        assert figures.local_bytes <= 48 or asked.path == SKETCH_SOURCE


@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_a_sketch_on_tensor_cores_leaves_room_for_two_blocks(transposes: tuple[bool, bool]) -> None:
    """Some registers spill, as rows are read far ahead; with half as many none did, and it was slower."""
    (figures,) = figures_of([sketch_program("float32", transposes)])
    assert figures.registers <= 128 and figures.local_bytes <= 96
    assert 2 * figures.static_shared_bytes <= ARCHITECTURES["sm_90"].shared_bytes


@pytest.mark.parametrize("arch", ARCHS)
def test_the_transposition_compiles_and_leaves_room_for_four_blocks(arch: str) -> None:
    """At four chunks of 16 bytes a thread, two where elements have 2: 64 or 32 KiB on their way on a multiprocessor.
    Tiles of 8 bytes fill the shared memory of some devices with fewer blocks."""
    for figures in figures_of(of_transposition(), arch):
        assert figures.local_bytes == 0
        room = ARCHITECTURES[arch].limits(TRANSPOSE_THREADS, figures.registers, figures.static_shared_bytes)
        assert room["registers"] >= min(room["shared memory"], 4)


def test_a_gated_kernel_takes_no_more_than_without_a_gate() -> None:
    """What stands behind another kernel, and what it may need before: nothing of them is on the stack."""
    assert behind_others()
    for plain, gated in behind_others():
        own, held_back = figures_of([plain, gated])
        assert held_back.registers <= own.registers
        assert held_back.local_bytes == 0
    assert [figures.local_bytes for figures in figures_of(of_a_gate())] == [0, 0]


@pytest.mark.parametrize(("name", "dtype", "output"), FUSED)
def test_an_epilogue_in_a_kernel_leaves_its_sums_in_registers(name: str, dtype: DTypeName, output: DTypeName) -> None:
    for figures in figures_of(of_fused(name, dtype, output)):
        assert figures.local_bytes == 0
        assert not figures.warnings
    for figures in figures_of(of_the_fused_check(dtype, output)):
        assert not figures.warnings
        assert figures.static_shared_bytes <= 48 << 10


def test_groups_leave_sums_in_registers() -> None:
    for figures in figures_of(of_hopper_groups()):
        assert figures.local_bytes == 0
        assert not figures.warnings


def test_cutting_tiles_leaves_sums_in_registers() -> None:
    assert all("-DCUT" in program.options for program in of_cut())
    for figures in figures_of(of_cut()):
        assert figures.local_bytes == 0
        assert not figures.warnings


def test_keeping_step_leaves_sums_in_registers() -> None:
    assert all("-DPACED" in program.options for program in of_long())
    for figures in figures_of(of_long()):
        assert figures.local_bytes == 0
        assert not figures.warnings


@pytest.mark.parametrize("arch", ARCHS)
def test_groups_compile_everywhere(arch: str) -> None:
    assert of_groups(arch)
    for figures in figures_of(of_groups(arch), arch):
        assert not figures.warnings


def test_every_source_is_in_the_catalogue_and_every_entry_has_its_source() -> None:
    assert {path.stem for path in SOURCE_DIR.rglob("*.cu")} == {kernel.name for kernel in KERNELS}
    programs = [program(kernel, kernel.dtypes[0], (False, False), kernel.resolve_config()) for kernel in KERNELS]
    assert {path.name for path in SOURCE_DIR.rglob("*.cuh")} == {name for each in programs for name in each.headers}


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


def test_the_key_does_not_change_with_comments_or_layout(tmp_path: Path) -> None:
    source = KERNELS[0].source_path.read_text()
    keys = []
    for name, text in (("one", source), ("other", "// another\n" + source.replace("    ", "\t").replace(" * ", "*"))):
        path = tmp_path / name / "kernel.cu"
        path.parent.mkdir()
        path.write_text(text)
        keys.append(Program(path, ()).key("sm_90", "13.0"))
    changed = tmp_path / "kernel.cu"
    changed.write_text(source.replace("0;", "1;", 1))
    assert keys[0] == keys[1] != Program(changed, ()).key("sm_90", "13.0")


def test_no_two_sources_have_the_same_name() -> None:
    """An `#include` names the file alone."""
    assert len(source_files()) == sum(path.suffix in {".cu", ".cuh"} for path in SOURCE_DIR.rglob("*"))
