"""Kernels compiled ahead of need: what there is to compile, and that a worker finds it and compiles nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.catalog import CATALOG
from kernels.model.architectures import ARCHITECTURES
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import REAL_NAMES
from kernels.selection.ahead import likely_products
from tests.support.played.own_process import printed_by
from worker.cuda.ahead.programs import programs_ahead, traits_of
from worker.cuda.programs import programs_of
from worker.cuda.sources import benchmark_program, digest_program, gather_program, results_program, sketch_program

TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
KERNELS = ["naive", "shared_tiled", "hopper_fp32"]


def test_a_worker_finds_what_was_compiled_ahead_and_compiles_nothing(tmp_path: Path) -> None:
    """By the real compiler, into an empty folder; a second run finds all there. What does not compile is refused once
    the others are there."""
    printed = printed_by("tests.support.kernels.played_nvrtc", str(tmp_path), *KERNELS)
    first, again, *_, told = printed.splitlines()  # between them the compiler's log
    found = json.loads(told)
    assert found["status"] == [0, 0]
    assert first.startswith(f"sm_90: {found['asked']} of {found['asked']} programs compiled in ")
    assert again.startswith(f"sm_90: 0 of {found['asked']} programs compiled in ")
    assert found["found"] == found["compiled"] == found["asked"] >= len(KERNELS)
    assert {f"{name}.cu" for name in KERNELS} <= set(found["programs"])
    assert found["own"] == [], "what is shipped is not kept once more"
    assert found["refused"] == "broken.cu does not compile for sm_90 here; the log says why."
    assert found["has"] == [False, True, True]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_it_has_every_kernel_that_runs_there_and_every_check(arch: str) -> None:
    traits = traits_of(arch)
    programs = programs_ahead(traits)
    assert len(programs) == len(set(programs))
    ours = [kernel for kernel in CATALOG if isinstance(kernel, CudaKernel)]
    running = {one.source_path for one in ours for each in one.dtypes if one.unsupported_because(traits, each) is None}
    assert running <= {program.path for program in programs}
    checks = {sketch_program(dtype, how) for dtype in REAL_NAMES for how in TRANSPOSES}
    others = {benchmark_program(), digest_program(), results_program(), *map(gather_program, REAL_NAMES)}
    assert checks | others <= set(programs)


@pytest.mark.parametrize(("multiprocessors", "name"), [(132, "NVIDIA H200"), (114, "NVIDIA H100 PCIe"), (132, "")])
def test_it_has_all_that_any_model_of_an_architecture_is_likely_to_take(multiprocessors: int, name: str) -> None:
    """A worker between jobs compiles by its own device's name and size; it finds all of it."""
    traits = traits_of("sm_90")
    own = replace(traits, name=name, multiprocessors=multiprocessors)
    likely = {
        program
        for choice, problem in likely_products(own)
        if isinstance(choice.kernel, CudaKernel)
        for program in programs_of(choice.kernel, choice.config, problem, own)
    }
    assert likely <= set(programs_ahead(traits))


def test_an_architecture_that_nobody_measured_has_what_its_like_has() -> None:
    assert traits_of("sm_87") == replace(traits_of("sm_86"), compute_capability=(8, 7))
    assert programs_ahead(traits_of("sm_121")) == programs_ahead(traits_of("sm_120"))


@pytest.mark.parametrize(("arch", "complaint"), [("9.0", "as in sm_90"), ("sm_61", "older than sm_75")])
def test_what_is_no_architecture_is_a_sentence(arch: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        traits_of(arch)
