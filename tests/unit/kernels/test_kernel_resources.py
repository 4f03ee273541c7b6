"""Every kernel compiles at every config it takes, for every architecture, and what that takes is on record.

Compiling all of it takes minutes. But each record bears a key made of source, headers, options, architectures and
compiler: a record under that key came from compiling just that. So what has no record is compiled here, and of the rest
a sample that the keys choose, another one after each change, must come out as recorded.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from kernels.model.architectures import ARCHITECTURES, H200
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPES, Problem
from kernels.resources import ConfigRecord, path_of, read, records_of
from kernels.selection.defaults import default_configs, example, main_dtype
from kernels.strict_json import DataError
from kernels.text_files import write_text
from tests.support.kernels.compiled import figures_of
from tests.support.programs import TRANSPOSES, of_every_transposition
from tools.kernels.resources import (
    KERNELS,
    CompiledCase,
    cases,
    compile_cases,
    compiled_part,
    recorded,
    stale,
    surplus,
    up_to_date,
    usage,
)
from tools.nvrtc import compile_all

SAMPLE = 8  # of all kernels: a config, element type and architecture each
EACH = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)


@cache
def compiled(kernel: str) -> list[tuple[CompiledCase, ConfigRecord]]:
    """Every case of a kernel with its record: the one on file or, where there is none, from compiling it now."""
    found = next(each for each in KERNELS if each.name == kernel)
    asked, known = list(cases(found)), recorded(found)
    known |= {record.key: record for record in compile_cases(stale(asked, known))}
    return [(case, known[case.key]) for case in asked]


@EACH
def test_every_config_compiles_for_every_architecture(kernel: CudaKernel) -> None:
    main = main_dtype(kernel)
    fitting = (config for config in kernel.configs() if kernel.misfit(config, main) is None)
    allowed = {tuple(compiled_part(kernel, config).values()) for config in fitting}
    assert allowed
    archs = {name for name, arch in ARCHITECTURES.items() if kernel.unsupported_because(arch.traits, main) is None}
    for case, record in compiled(kernel.name):
        assert record.compiled.keys() == set(case.archs)
        if case.dtype == main and set(case.archs) == archs:
            allowed.remove(tuple(record.config.values()))
    assert not allowed


def test_a_sample_comes_out_as_recorded() -> None:
    def by_key(one: tuple[CompiledCase, ConfigRecord, str]) -> bytes:
        return hashlib.sha256(f"{one[0].key} {one[2]}".encode()).digest()

    ones = [(case, record, arch) for each in KERNELS for case, record in compiled(each.name) for arch in case.archs]
    sample = sorted(ones, key=by_key)[:SAMPLE]
    again = compile_all((case.program, arch) for case, _, arch in sample)
    for (case, record, arch), found in zip(sample, again, strict=True):
        assert case.kernel.name.encode() in found.binary
        assert usage(found) == record.compiled[arch]
        assert found.static_shared_bytes <= record.static_shared_bytes


@EACH
def test_the_record_is_up_to_date(kernel: CudaKernel) -> None:
    assert up_to_date(kernel), "run `make kernel-resources`"


def test_there_is_no_record_of_a_kernel_that_is_gone(tmp_path: Path) -> None:
    assert surplus() == []
    gone, plain = path_of("gone", tmp_path), tmp_path / "naive.json"
    for path in (path_of("naive", tmp_path), gone, plain):
        write_text(path, "")
    assert surplus(tmp_path) == [gone, plain]


@EACH
def test_what_a_request_without_config_gets_spills_nothing(kernel: CudaKernel) -> None:
    """In every bucket and element type, on every architecture."""
    records = {(record.dtype, *record.config.items()): record for _, record in compiled(kernel.name)}
    spilling = [
        (default.architecture.name, default.dtype, default.bucket, dict(default.config), taken)
        for default in default_configs(kernel)
        for record in [records[default.dtype, *compiled_part(kernel, default.config).items()]]
        if (taken := record.usage[default.architecture.name]).spills
    ]
    assert not spilling


@EACH
def test_a_config_that_is_not_refused_can_be_launched(kernel: CudaKernel) -> None:
    """One block at least finds room where the shared memory it declares does; and some device has that for the main
    element type."""
    for case, record in compiled(kernel.name):
        x, y, z = kernel.plan(case.problem, case.config).main.block
        archs = [ARCHITECTURES[name] for name in case.archs]
        fitting = [arch for arch in archs if kernel.misfit(case.config, case.dtype, arch.traits) is None]
        assert fitting or case.dtype != main_dtype(kernel), f"{case} fits no device"
        for arch in fitting:
            registers = record.usage[arch.name].registers
            assert arch.resident_blocks(x * y * z, registers, record.shared_bytes) > 0, (case, arch)


@EACH
def test_accumulators_are_no_more_than_the_compiler_keeps(kernel: CudaKernel) -> None:
    """Where warpgroups hand registers over, it tells what all start with, and two of three have the sums."""
    for case, record in compiled(kernel.name):
        words = kernel.accumulators(case.config) * (DTYPES[case.dtype].accumulator_bytes // 4)
        words = words * 2 // 3 if kernel.architecture_specific else words
        assert all(taken.spills or taken.registers >= words for taken in record.usage.values()), case


@EACH
def test_declared_shared_memory_is_what_the_compiler_and_the_launch_give(kernel: CudaKernel) -> None:
    """The most that any transposition takes; never less than what a product with operands as stored takes."""
    for case, record in compiled(kernel.name):
        assert record.shared_bytes <= kernel.shared_bytes(case.config, case.dtype), case
    for dtype in {main_dtype(kernel), kernel.dtypes[-1]}:
        config = kernel.resolve_config({}, example("large", dtype), H200.traits)
        problems = [Problem(1, 1, 1, dtype, transpose_a=a, transpose_b=b) for a, b in TRANSPOSES]
        asked = [kernel.plan(problem, config).main.shared_bytes for problem in problems]
        found = figures_of(of_every_transposition(kernel, dtype))
        asked = [one.static_shared_bytes + dynamic for one, dynamic in zip(found, asked, strict=True)]
        assert max(asked) == kernel.shared_bytes(config, dtype)


def test_a_key_changes_with_what_is_compiled() -> None:
    case = next(case for case in cases(KERNELS[0]) if len(case.archs) > 1)
    others = [
        replace(case, dtype="float64"),
        replace(case, config={**case.config, "block_m": 64}),
        replace(case, archs=case.archs[:1]),
        replace(case, kernel=KERNELS[1]),
    ]
    assert len({case.key, *(other.key for other in others)}) == 5
    assert replace(case).key == case.key


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"kernel": "other", "compiler": "", "columns": [], "records": []}', "is of 'other' with columns"),
        ('{"kernel": "naive", "compiler": "", "columns": ["registers"], "records": []}', "with columns registers"),
        ('{"kernel": "naive", "compiler": ""}', "lacks 'columns'"),
    ],
)
def test_a_broken_file_is_refused(text: str, complaint: str, tmp_path: Path) -> None:
    write_text(path_of("naive", tmp_path), text)
    with pytest.raises(DataError, match=complaint):
        read(path_of("naive", tmp_path))


def test_what_was_never_compiled_has_no_records() -> None:
    assert records_of("cublas") is None
