"""Kernels measured at a shape that `auto` is asked for and no table has: what is taken, and what it leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kernels.model.kernel import LibraryKernel
from kernels.model.numerics import AccuracyName, DTypeName, Problem
from kernels.selection.choose import contenders
from worker.device.runner import HostOperand
from worker.product.probe import Probes

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

NEW = Problem(1303, 1507, 2111, "float32")


@pytest.fixture(autouse=True)
def uncontended(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests in other processes may use the device meanwhile: what is measured is not the point here."""
    monkeypatch.setattr("worker.cuda.bench.watch.is_contended", lambda *_: False)


def nothing() -> None:
    """The job is still this attempt's."""


def kept_bytes() -> int:
    """Of the device, by CuPy's pool, used or not."""
    import cupy

    return int(cupy.get_default_memory_pool().total_bytes())


@pytest.mark.parametrize(
    ("problem", "accuracy"),
    [
        (NEW, "fp32"),
        (Problem(98, 75, 1302, "float32"), "fp32"),
        (Problem(5003, 411, 1111, "float32"), "tf32"),
        (Problem(2222, 1111, 3333, "bfloat16"), "bf16"),
        (Problem(41, 1003, 201, "bfloat16"), "bf16"),
        (Problem(777, 1555, 999, "float64"), "fp64"),
        (Problem(1414, 2323, 999, "int8"), "exact"),
    ],
    ids=str,
)
def test_what_is_taken_was_measured_there(runner: CudaRunner, problem: Problem, accuracy: AccuracyName) -> None:
    likely = contenders(problem, accuracy, runner.device.traits)
    if len(likely) < 2:
        pytest.skip("no table of this device leaves a doubt at that shape")
    chosen = Probes(runner).choose(problem, accuracy, nothing)
    assert f"probed here at {problem.m}×{problem.n}×{problem.k} (" in chosen.why
    assert any(chosen.kernel is one.point.kernel for one in likely) or isinstance(chosen.kernel, LibraryKernel)


def test_kept_operands_stay_and_its_own_memory_goes(runner: CudaRunner) -> None:
    elements = np.ones((300, 300), np.float32)
    probes = Probes(runner)
    first = probes.choose(NEW, "fp32", nothing)
    dtype: DTypeName = "float32"
    small = Problem(300, 300, 300, dtype)
    with runner.compute(
        small, probes.choose(small, "fp32", nothing), HostOperand(elements, "kept"), HostOperand(elements)
    ) as product:
        product.keep_operands()
    used = kept_bytes()
    again = Problem(NEW.m + 2, NEW.n, NEW.k, dtype)
    assert probes.choose(again, "fp32", nothing).kernel is not None
    assert probes.choose(NEW, "fp32", nothing) is first
    assert runner.cache.get("kept") is not None
    assert kept_bytes() <= used
