"""What `make sanitize` takes through compute-sanitizer, and what it makes of each tool's end."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from kernels.catalog import BY_NAME, CATALOG
from kernels.model.kernel import CudaKernel, DeviceTraits
from tests.gpu import sanitize
from tests.gpu.sanitized_sweep import NORMAL, NOT_FINITE, cases, on_gpu
from tests.support.kernels.catalogue import pair_dtypes

H200 = DeviceTraits("gpu", (9, 0), 232_448, 132, "NVIDIA H200")
T4 = DeviceTraits("gpu", (7, 5), 64 << 10, 40, "Tesla T4")


def test_every_kernel_of_ours_is_in_the_sweep_in_each_of_its_types() -> None:
    swept = list(cases(H200, BY_NAME))
    cuda = [one for one in CATALOG if isinstance(one, CudaKernel)]
    ours = {(one.name, dtype) for one in cuda for dtype in (*one.dtypes, *pair_dtypes(one))}
    assert {(kernel.name, problem.dtype) for kernel, _, problem, _ in swept} == ours
    assert {"hopper_bf16", "hopper_fp16", "fp32_emulated"} <= {name for name, _ in ours}
    assert len(swept) < 25 * len({name for name, _ in ours}), "a tool takes its time with each launch"
    fills = {fill for kernel, _, _, fill in swept if kernel.name == "fp32_emulated"}
    assert fills == {NORMAL, NOT_FINITE}


def test_a_device_sweeps_what_it_runs() -> None:
    swept = {kernel.name for kernel, *_ in cases(T4, BY_NAME)}
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
        came_to, said = sanitize.swept("memcheck", group, seconds=0.5)
        assert came_to == verdict and ("hazard" in said) == (verdict == "found")
        assert sanitize.is_failure(group, came_to) is fail


def test_it_says_what_each_tool_came_to(
    tool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool.write_text('#!/bin/sh\n[ "$2" != racecheck ] || { echo hazard; exit 9; }\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sanitize, "traits", lambda: H200)
    monkeypatch.setattr(sys, "argv", ["sanitize", "--kernels", "tensor_fp64", "naive", "hopper_bf16"])
    assert sanitize.main() == 1
    told = capsys.readouterr().out
    for line in (
        "memcheck, 2 kernels: clean",
        "racecheck, hopper_bf16: found",
        "hazard",
        "initcheck, hopper_bf16: clean",
        "synccheck, naive: clean",
    ):
        assert line in told
