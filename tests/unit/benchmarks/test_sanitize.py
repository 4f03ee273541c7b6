"""What `make sanitize` takes through compute-sanitizer, and what it makes of each tool's end."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from benchmarks.recorded import read
from benchmarks.tables.sanitizers import sanitizers
from kernels.catalog import BY_NAME, CATALOG
from kernels.model.fused import FusedEpilogue
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.numerics import Problem
from tests.gpu.sanitize import __main__ as sanitize
from tests.gpu.sanitize.case import NORMAL, NOT_FINITE, Swept
from tests.gpu.sanitize.launches import launches, on_gpu
from tests.gpu.sanitize.waves import STAGES, form_of, has_several_tiles, stage_depth, stays
from tests.stress.asked import named, own_epilogue
from tests.stress.cases import Deck
from tests.support.kernels.catalogue import mirrored_at_any_size, pair_dtypes
from worker.cuda.programs import programs_of_choice
from worker.cuda.sources import Program, kernel_program

H200 = DeviceTraits("gpu", (9, 0), 232_448, 132, "NVIDIA H200")
T4 = DeviceTraits("gpu", (7, 5), 64 << 10, 40, "Tesla T4")
DRAWN = 6000  # products that stress draws
MULTIPROCESSORS = 132  # of the H200


@pytest.fixture(autouse=True)
def triangles() -> Iterator[None]:
    with mirrored_at_any_size():
        yield


def branches(programs: Iterable[Program]) -> dict[str, set[str]]:
    """What is compiled into each kernel: its macros, without the sizes of its tiles and how its operands lie."""
    found: dict[str, set[str]] = {}
    for program in programs:
        kernel = BY_NAME.get(program.path.stem)
        if isinstance(kernel, CudaKernel):
            sizes = {f"-D{parameter.name.upper()}" for parameter in kernel.parameters if parameter.name != "promote"}
            own = {each for each in program.options if each.partition("=")[0] not in sizes}
            found.setdefault(kernel.name, set()).update(each for each in own if "TRANSPOSE" not in each)
    return found


def swept_programs(swept: Iterable[Swept]) -> Iterator[Program]:
    for one in swept:
        yield kernel_program(one.kernel, one.config, one.problem, fused=one.fused)


def test_every_kernel_of_ours_is_in_the_sweep_in_each_of_its_types() -> None:
    swept = list(launches(H200, BY_NAME))
    cuda = [one for one in CATALOG if isinstance(one, CudaKernel)]
    ours = {(one.name, dtype) for one in cuda for dtype in (*one.dtypes, *pair_dtypes(one))}
    assert {(one.kernel.name, one.problem.dtype) for one in swept} == ours
    assert {"hopper_bf16", "hopper_fp16", "fp32_emulated", "hopper_fp64"} <= {name for name, _ in ours}
    assert len(swept) < 25 * len({name for name, _ in ours}), "a tool takes its time with each launch"
    fills = {one.fill for one in swept if one.kernel.name == "fp32_emulated"}
    assert fills == {NORMAL, NOT_FINITE}


def test_whatever_is_compiled_into_a_kernel_for_a_product_is_in_the_sweep() -> None:
    """By what stress draws: each kernel, type and option of the catalogue. What falls back has its gate, too."""
    drawn: set[Program] = set()
    for case in map(Deck(1, H200).case, range(DRAWN)):
        drawn |= programs_of_choice(named(case, H200), case.problem, H200)
        if (own := own_epilogue(case, H200)) is not None:
            drawn.add(kernel_program(own.kernel, own.config, own.problem, fused=own.fused))
    there = branches(swept_programs(launches(H200, BY_NAME)))
    for name, macros in branches(drawn).items():
        assert macros - {"-DGATED"} <= there[name], name
    gated = {name for name, macros in branches(drawn).items() if "-DGATED" in macros}
    assert gated == {kernel.fallback.kernel.name for kernel in on_gpu(H200) if kernel.fallback is not None}


def test_what_only_large_products_have_is_launched_with_small_ones() -> None:
    there = branches(swept_programs(launches(H200, BY_NAME)))
    half, hopper = {"hopper_bf16", "hopper_fp16"}, {"hopper_bf16", "hopper_fp16", "hopper_int8", "hopper_tf32"}
    assert {name for name, macros in there.items() if "-DCUT" in macros} == half | {"fp32_emulated"}
    assert {name for name, macros in there.items() if "-DPACED" in macros} == hopper | {"hopper_fp8"}
    assert {name for name, macros in there.items() if "-DTRIANGLE" in macros} == {
        kernel.name for kernel in on_gpu(H200) if kernel.triangle is not None
    }


def test_passes_of_kernels_are_launched_and_not_what_small_products_have_in_their_place() -> None:
    """With numbers that they take, and with others."""
    for kernel in on_gpu(H200):
        if kernel.passes is not None:
            swept = [one for one in launches(H200, [kernel.name]) if one.kernel.plan(one.problem, one.config).passes]
            assert {one.fill for one in swept} == {NORMAL, NOT_FINITE}, kernel.name
            lie = {(one.problem.transpose_a, one.problem.transpose_b) for one in swept}
            assert len(lie) == 4, kernel.name


def test_a_branch_that_is_not_swept_would_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that gets an epilogue of another type, say."""
    without = [one for one in launches(H200, BY_NAME) if one.fused is None]
    lost = branches(swept_programs(launches(H200, BY_NAME)))["hopper_fp8"]
    lost -= branches(swept_programs(without))["hopper_fp8"]
    assert {"-DEPILOGUE", "-DHAS_BIAS", "-DHAS_ADDEND", "-DACTIVATION_GELU", "-DOUTPUT_BFLOAT16"} <= lost


def test_epilogues_have_an_addend_or_none_both_and_each_activation() -> None:
    fused = {one.fused for one in launches(H200, ["hopper_bf16"]) if one.fused is not None}
    assert {FusedEpilogue("bfloat16"), FusedEpilogue("float32", has_bias=True)} < fused
    assert {(one.has_c, one.has_bias) for one in fused} == {(a, b) for a in (False, True) for b in (False, True)}


def resident_kernels() -> set[str]:
    """Of ours, those with a config whose blocks stay and go from tile to tile."""
    configs = ((kernel, config) for kernel in on_gpu(H200) for config in kernel.configs())
    return {
        kernel.name
        for kernel, config in configs
        if kernel.plan(Problem(512, 512, 512, kernel.dtypes[0]), config).main.resident
    }


def test_blocks_that_stay_have_several_tiles() -> None:
    """Whatever is compiled into such a kernel: a block that computes one tile shows nothing of what the next one finds.
    What cuts tiles of digits along k is never compiled in where there are many."""
    swept = [one for one in launches(H200, BY_NAME) if stays(one)]
    several = [one for one in swept if has_several_tiles(one, MULTIPROCESSORS)]
    assert {one.kernel.name for one in several} == resident_kernels()
    without = {form_of(one) for one in swept} - {form_of(one) for one in several}
    assert without == {("fp32_emulated", frozenset({"-DCUT"}), False)}


def test_several_tiles_are_deeper_than_the_ring_of_stages_and_a_stage_deep_and_have_no_depth() -> None:
    """The last of kernels that are launched then: others leave such a product to a kernel behind them."""
    several = [one for one in launches(H200, BY_NAME) if has_several_tiles(one, MULTIPROCESSORS)]
    stages: dict[str, set[int]] = {}
    for one in several:
        ring = one.config.get("stages", STAGES)
        of_tile = -(-one.problem.k // stage_depth(one))
        stages.setdefault(one.kernel.name, set()).add(min(of_tile, 2) if of_tile <= ring else ring + 1)
        assert one.problem.k <= 1024, "a tool takes its time with each stage"
    for name, found in stages.items():
        kernel = BY_NAME[name]
        assert isinstance(kernel, CudaKernel)
        assert 1 in found and max(found) > 2, name
        assert (0 in found) is (kernel.passes is None), name


def test_a_cut_along_k_is_swept_in_every_kernel_that_makes_one() -> None:
    """Blocks share out the tiles of a last wave, or all of few tiles."""
    cut = {one.kernel.name for one in launches(H200, BY_NAME) if one.plan.main.resident and one.plan.main.parts > 1}
    assert cut == {"hopper_bf16", "hopper_fp16", "hopper_fp32", "tensor_fp64", "fp32_emulated"}


def test_a_device_sweeps_what_it_runs() -> None:
    swept = {one.kernel.name for one in launches(T4, BY_NAME)}
    assert swept == {kernel.name for kernel in on_gpu(T4)} and "naive" in swept and "hopper_bf16" not in swept


def test_kernels_of_one_architecture_have_a_process_each() -> None:
    common, *own = sanitize.groups(on_gpu(H200))
    assert common.followed and "naive" in common.kernels
    assert {group.kernels for group in own} >= {("hopper_bf16",), ("hopper_fp16",), ("fp32_emulated",)}
    assert not any(group.followed for group in own)
    assert list(sanitize.groups([])) == []


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compute-sanitizer that ends as the test says, in a script."""
    path = tmp_path / "compute-sanitizer"
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(sanitize, "traits", lambda: H200)
    monkeypatch.setattr(sanitize, "compile_first", lambda _: None)
    return path


@pytest.mark.parametrize(
    ("does", "verdict", "fails"),
    [
        ("exit 0", "clean", (False, False)),
        ("echo hazard; exit 9", "found", (True, True)),
        ("exit 139", "broke off", (True, True)),
        ("sleep 60", "did not end", (False, True)),
    ],
)
def test_what_a_tool_finds_fails_and_what_it_does_not_get_through_is_told(
    tool: Path, does: str, verdict: str, fails: tuple[bool, bool]
) -> None:
    tool.write_text(f"#!/bin/sh\n{does}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    for followed, fail in zip((False, True), fails, strict=True):
        group = sanitize.Group(("naive",), followed)
        outcome = sanitize.swept("memcheck", group, seconds=0.5)
        assert outcome.verdict == verdict and ("hazard" in outcome.said) == (verdict == "found")
        assert outcome.is_failure is fail


@pytest.mark.parametrize("processes", ["1", "4"])
def test_it_says_what_each_tool_came_to(
    tool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], processes: str
) -> None:
    tool.write_text('#!/bin/sh\n[ "$2" != racecheck ] || { echo hazard; exit 9; }\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    kernels = ["--kernels", "tensor_fp64", "naive", "hopper_bf16"]
    monkeypatch.setattr(sys, "argv", ["sanitize", "--processes", processes, *kernels])
    assert sanitize.main() == 1
    told = capsys.readouterr().out
    for line in (
        "memcheck, 2 kernels: clean",
        "racecheck, hopper_bf16: found",
        "hazard",
        "initcheck, hopper_bf16: clean",
        "synccheck, naive: clean",
        "6 of 8 without a failure",
    ):
        assert line in told


def test_a_run_is_recorded(tool: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool.write_text('#!/bin/sh\n[ "$2" != racecheck ] || { echo hazard; exit 9; }\necho 12 launches\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    out = tmp_path / "h200_sanitize.json"
    monkeypatch.setattr(
        sys, "argv", ["sanitize", "--tools", "memcheck", "racecheck", "--kernels", "naive", "--out", str(out)]
    )
    assert sanitize.main() == 1
    record = read(out)
    found = [(row["tool"], row["kernels"], row["verdict"], row["launches"]) for row in record["rows"]]
    assert found == [("memcheck", ["naive"], "clean", 12), ("racecheck", ["naive"], "found", None)]
    heading, _, lines = sanitizers(out)
    assert record["device"] == H200.name and H200.name in heading
    assert "| memcheck | 1 | 12 | clean |" in lines and "| racecheck | 1 | 0 | `naive`: found |" in lines


def test_nothing_is_begun_after_the_time_for_all_of_it(
    tool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sanitize", "--for-s", "0", "--tools", "memcheck", "--kernels", "naive"])
    assert sanitize.main() == 1
    assert "memcheck, naive: not begun" in capsys.readouterr().out
