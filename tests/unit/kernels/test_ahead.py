"""Kernels that are compiled ahead of time."""

from __future__ import annotations

import pytest

from kernels.catalog import BY_NAME
from kernels.model.architectures import H200
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.numerics import Problem
from kernels.selection import ahead
from kernels.selection.ahead import likely_products
from kernels.selection.choose import choose
from kernels.selection.tuned import TABLES
from tests.support.kernels.tuned import GPU, entry, row, table
from worker.cuda.programs import programs_of


def test_it_has_what_the_table_s_own_shapes_take() -> None:
    device = DeviceTraits("gpu", (9, 0), H200.traits.shared_bytes_per_block, 132, "NVIDIA H200")
    known = {(one.kernel.name, tuple(one.config.items())) for one, _ in likely_products(device)}
    shapes = [one for held in TABLES if held.device == device.name for one in held.entries]
    taken = [choose("auto", {}, one.problem, one.accuracy, device) for one in shapes]
    ours = {(one.kernel.name, tuple(one.config.items())) for one in taken if isinstance(one.kernel, CudaKernel)}
    assert len(ours) > 20 and ours <= known


def test_what_is_slow_is_not_in_it_but_every_default_is() -> None:
    fast, slow = row("shared_tiled", 100.0, {"tile": 8}), row("shared_tiled_privatized", 50.0, {"tile": 8})
    found = list(likely_products(GPU, [table(entries=[entry(512, rows=[fast, slow])])]))
    named = {one.kernel.name for one, _ in found}
    assert {"naive", "pipelined", "hopper_fp32", "fp32_emulated"} <= named
    first, problem = found[0]
    assert (first.kernel.name, first.config, problem.m) == ("shared_tiled", {"tile": 8}, 512)
    assert found[1][0].kernel.name != "shared_tiled_privatized"


def test_a_kernel_that_may_fall_back_brings_what_multiplies_in_its_place() -> None:
    """With its gate, its transposition and the copies that it may need; alone, where it always multiplies."""
    kernel = BY_NAME["fp32_emulated"]
    assert isinstance(kernel, CudaKernel)

    def sources(k: int) -> dict[str, bool]:
        problem = Problem(1024, 1024, k, "float32")
        programs = programs_of(kernel, kernel.resolve_config(NO_CONFIG, problem, GPU), problem, GPU)
        return {program.path.name: "-DGATED" in program.options for program in programs}

    gated = {"hopper_fp32.cu": True, "transpose.cu": True, "copy_rows.cu": True}
    assert sources(1024) == gated | {"fp32_emulated.cu": False}
    assert sources(63) == {"hopper_fp32.cu": False, "transpose.cu": False}


def test_a_process_chooses_once_before_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each class of its device's table, near shapes all over it; without a table there is nothing to choose from."""
    asked: list[tuple[Problem, str]] = []
    monkeypatch.setattr(ahead, "choose_from", lambda _, problem, accuracy, device: asked.append((problem, accuracy)))
    device = DeviceTraits("gpu", (9, 0), H200.traits.shared_bytes_per_block, 132, "NVIDIA H200")
    held = next(one for one in TABLES if one.device == device.name).entries
    assert ahead.warm_up(device) == len(asked) < 200
    assert {(problem.dtype, accuracy) for problem, accuracy in asked} == {(one.dtype, one.accuracy) for one in held}
    assert not {problem for problem, _ in asked} & {one.problem for one in held}
    assert ahead.warm_up(DeviceTraits("cpu")) == 0
