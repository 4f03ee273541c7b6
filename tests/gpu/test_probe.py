"""Kernels measured at a shape that no table has: what `auto` takes then, and what measuring leaves behind."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.settings import Settings
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import CudaKernel, LibraryKernel
from kernels.model.numerics import AccuracyName, Problem
from kernels.selection.choose import choose, contenders
from worker.device.operands import HostOperand
from worker.process.device_loans import DeviceLoans, DeviceWanted
from worker.product.auto import AutoChoices
from worker.product.probe import probe_for
from worker.product.shapes import AskedShape

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

NEW = Problem(1303, 1507, 2111, "float32")


@pytest.fixture(autouse=True)
def uncontended(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests in other processes may use the device meanwhile: what is measured is not the point here."""
    monkeypatch.setattr("worker.cuda.bench.watch.is_contended", lambda *_: False)


def nothing() -> None:
    """No job wants the device."""


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
def test_what_is_accepted_was_measured_there(runner: CudaRunner, problem: Problem, accuracy: AccuracyName) -> None:
    likely = contenders(problem, accuracy, runner.device.traits)
    if len(likely) < 2 or (probe := probe_for(problem, accuracy, runner.device)) is None:
        pytest.skip("no table of this device leaves a doubt at that shape")
    runner.compile_ahead(probe.products)
    asked, choices = AskedShape(problem, accuracy), AutoChoices(runner)
    choices.learn({asked.name: probe.measure(runner, nothing).text()})
    chosen = choices.choose(problem, accuracy)
    assert f"probed here at {problem.m}×{problem.n}×{problem.k} (" in chosen.why
    assert any(chosen.kernel is one.point.kernel for one in likely) or isinstance(chosen.kernel, LibraryKernel)


def test_what_is_not_compiled_is_not_taken_until_it_is(gpu_settings: Settings, tmp_path: Path) -> None:
    """Nor compiled while a product waits."""
    from worker.cuda.runner import CudaRunner

    runner = CudaRunner(gpu_settings.model_copy(update={"kernel_cache_dir": tmp_path, "compiled_kernels_dir": None}))
    choices, large = AutoChoices(runner), Problem(3001, 3003, 3005, "float32")
    best = choose("auto", NO_CONFIG, large, "fp32", runner.device.traits)
    if isinstance(best.kernel, LibraryKernel):
        pytest.skip("no table of this device prefers a kernel of ours at that shape")
    compiled = set(tmp_path.iterdir())
    assert isinstance(choices.choose(large, "fp32").kernel, LibraryKernel)
    assert set(tmp_path.iterdir()) == compiled and not runner.is_compiled(best, large)
    choices.adopt_best(AskedShape(large, "fp32"))
    assert choices.choose(large, "fp32") == best and runner.is_compiled(best, large)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("fp32_emulated", Problem(1024, 1024, 1024, "float32")),
        ("hopper_fp32", Problem(1000, 1000, 1000, "float32")),
        ("tensor_fp64", Problem(4097, 4096, 512, "float64")),
    ],
)
def test_all_that_a_launch_loads_is_compiled_before(
    gpu_settings: Settings, tmp_path: Path, name: str, problem: Problem
) -> None:
    """Passes, a fallback behind them, an edge."""
    from worker.cuda.launch import prepare
    from worker.cuda.runner import CudaRunner

    runner = CudaRunner(gpu_settings.model_copy(update={"kernel_cache_dir": tmp_path, "compiled_kernels_dir": None}))
    kernel = BY_NAME[name]
    assert isinstance(kernel, CudaKernel)
    if kernel.unsupported_because(runner.device.traits):
        pytest.skip("the device does not run it")
    choice = choose(name, NO_CONFIG, problem, kernel.accuracy[problem.dtype], runner.device.traits)
    runner.compile_ahead([(choice, problem)])
    compiled = set(tmp_path.iterdir())
    prepare(runner.compiler, kernel, choice.config, problem)
    assert set(tmp_path.iterdir()) == compiled


def test_what_is_compiled_counts_where_the_disk_takes_nothing(gpu_settings: Settings, tmp_path: Path) -> None:
    from worker.cuda.runner import CudaRunner

    (tmp_path / "no folder").touch()
    runner = CudaRunner(
        gpu_settings.model_copy(update={"kernel_cache_dir": tmp_path / "no folder", "compiled_kernels_dir": None})
    )
    problem = Problem(1024, 1024, 1024, "float32")
    choice = choose("pipelined", NO_CONFIG, problem, "fp32", runner.device.traits)
    assert not runner.is_compiled(choice, problem)
    runner.compile_ahead([(choice, problem)])
    assert runner.is_compiled(choice, problem)


def test_kept_operands_stay_and_its_own_memory_goes(runner: CudaRunner) -> None:
    elements = np.ones((300, 300), np.float32)
    first = probe_for(NEW, "fp32", runner.device)
    if first is None:
        pytest.skip("no table of this device leaves a doubt at that shape")
    first.measure(runner, nothing)
    small = Problem(300, 300, 300, "float32")
    choice = choose("cublas", NO_CONFIG, small, "fp32", runner.device.traits)
    with runner.compute(small, choice, HostOperand(elements, "kept"), HostOperand(elements)) as product:
        product.keep_operands()
    used = kept_bytes()
    assert first.measure(runner, nothing)
    assert runner.cache.get("kept") is not None
    assert kept_bytes() <= used


def test_a_job_takes_the_device_from_a_measurement(runner: CudaRunner) -> None:
    """Between two samples; its memory is free by then."""
    probe = probe_for(NEW, "fp32", runner.device)
    if probe is None:
        pytest.skip("no table of this device leaves a doubt at that shape")
    runner.compile_ahead(probe.products)
    loans, began = DeviceLoans(), Event()
    looks = []

    def check() -> None:
        looks.append(1)
        if len(looks) == 6:
            thread.start()
        while len(looks) >= 6 and not thread_counted():
            pass
        loans.check()

    def thread_counted() -> bool:
        return loans._jobs > 0

    def job() -> None:
        with loans.job():
            began.set()

    thread, used = Thread(target=job), kept_bytes()
    with pytest.raises(DeviceWanted), loans.spare():
        probe.measure(runner, check)
    assert began.wait(10.0) and len(looks) == 6
    thread.join(10.0)
    assert kept_bytes() <= used
