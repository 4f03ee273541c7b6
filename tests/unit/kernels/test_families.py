"""Families, and what the compiler made of kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels.assembly import DIRECTORY, assembly_of, path_of, read
from kernels.catalog import BY_NAME, KERNEL_NAMES
from kernels.families import FAMILIES, FAMILY_OF, neighbours, rung_before
from kernels.model.architectures import H200
from kernels.model.kernel import CudaKernel
from kernels.strict_json import DataError
from kernels.text_files import write_text
from tools.kernels.assembly import is_current, main
from tools.kernels.resources import KERNELS

MAX_BYTES = 200_000


def test_every_kernel_is_in_one_family() -> None:
    names = [name for family in FAMILIES for name in family.names]
    assert sorted(names) == sorted(KERNEL_NAMES) and len(FAMILY_OF) == len(names)
    assert "others" not in {family.name for family in FAMILIES}, "a kernel of this project has a family that is named"


def test_the_ladder_is_in_the_catalogue_s_order() -> None:
    (ladder,) = (family.names for family in FAMILIES if family.steps)
    assert list(ladder) == [name for name in KERNEL_NAMES if name in ladder]
    assert all(isinstance(BY_NAME[name], CudaKernel) for name in ladder)
    assert rung_before("naive") == "naive_uncoalesced" and rung_before(ladder[0]) is None
    assert rung_before("hopper_fp16") is None and neighbours("hopper_fp16")[0] == "hopper_bf16"


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "limits"),
    [
        (1024, 32, 0, ("threads", "registers")),
        (256, 255, 0, ("registers",)),
        (128, 32, 100 << 10, ("shared memory",)),
        (32, 16, 0, ("shared memory", "blocks")),  # without shared memory as many as there may be
    ],
)
def test_what_limits_occupancy(threads: int, registers: int, shared: int, limits: tuple[str, ...]) -> None:
    assert set(H200.limited_by(threads, registers, shared)) == set(limits)
    assert H200.resident_blocks(threads, registers, shared) == min(H200.limits(threads, registers, shared).values())


def test_assembly_is_recorded_of_every_kernel_and_small() -> None:
    assert {path.name.partition(".")[0] for path in DIRECTORY.iterdir()} == {kernel.name for kernel in KERNELS}
    assert sum(path.stat().st_size for path in DIRECTORY.iterdir()) <= MAX_BYTES
    assert not [kernel.name for kernel in KERNELS if not is_current(kernel)], "run `make assembly`"
    assert main(["--check"]) == 0


def test_instructions_are_counted_by_what_they_do() -> None:
    tiled, vectorized = assembly_of("register_tiled"), assembly_of("vectorized")
    assert tiled is not None and vectorized is not None and assembly_of("cublas") is None
    assert vectorized.instructions("sass")["LDS.128"] > 0 == tiled.instructions("sass")["LDS.128"]
    assert vectorized.instructions("ptx")["ld.shared.v4"] > 0
    assert tiled.instructions("sass")["FFMA"] >= 64


def test_a_record_that_breaks_the_schema_is_refused(tmp_path: Path) -> None:
    path = path_of("naive", tmp_path)
    write_text(path, '{"kernel": "naive", "more": 1}')
    with pytest.raises(DataError):
        read(path)
