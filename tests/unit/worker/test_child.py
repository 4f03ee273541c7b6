"""What a child makes of readiness, of patience, and of a job that was lost while it computed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from jobs.errors import OutOfDeviceMemory, StoreFull, StoreUnavailable
from jobs.matrices.interface import MatrixStore
from jobs.models import MatmulRequest
from jobs.requests.operands import OperandRef, RandomSpec
from jobs.settings import Settings
from kernels.catalog import BY_NAME, CATALOG
from kernels.model.architectures import ARCHITECTURES
from kernels.model.numerics import DTYPE_NAMES, Problem
from kernels.selection.candidates import Choice
from kernels.selection.choose import choose
from worker.cpu import device as cpu_device
from worker.cpu import free_memory
from worker.cpu.runner import CpuRunner
from worker.device import retry
from worker.device.operands import HostOperand
from worker.device.retry import retry_until
from worker.device.runner import Product
from worker.process import readiness
from worker.process.main import main, prepare_environment
from worker.process.readiness import NotReady, prove, small_products
from worker.product import operands

RNG = np.random.default_rng(0)


def test_a_cpu_that_multiplies_right_is_ready() -> None:
    runner = CpuRunner(Settings(cpu_threads=1))
    assert runner.kernels == ("cpu_blas", "cpu_float64", "cpu_exact")
    assert prove(runner, RNG) == 2 * (len(DTYPE_NAMES) + 4 + 5)
    assert runner.device.name and runner.device.cores == 1


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_there_are_small_products_for_whatever_a_device_runs(arch: str) -> None:
    traits, offered = ARCHITECTURES[arch].traits, [each for each in CATALOG if each.device_class == "gpu"]
    for kernel in offered:
        for dtype in (each for each in kernel.dtypes if not kernel.unsupported_because(traits, each)):
            products = small_products(kernel, dtype, traits)
            assert [(choice.kernel, problem.dtype) for choice, problem in products] == 2 * [(kernel, dtype)]


def test_a_kernel_of_block_scales_is_proved_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = replace(BY_NAME["cpu_blas"], needs_scales=True, accuracy={"float8_e4m3": "fp32"})
    monkeypatch.setattr(readiness, "BY_NAME", {"cpu_blas": kernel})
    monkeypatch.setattr(CpuRunner, "kernels", ("cpu_blas",))
    assert prove(CpuRunner(Settings(cpu_threads=1)), RNG) == 2
    with pytest.raises(NotReady, match="cpu_blas multiplies float8_e4m3 wrongly"):
        prove(WithoutScales(Settings(cpu_threads=1)), RNG)


class WithoutScales(CpuRunner):
    """It multiplies the elements alone."""

    @contextmanager
    def compute(self, problem: Problem, choice: Choice, *operands: Any, **more: Any) -> Iterator[Product]:
        with super().compute(
            replace(problem, scale_columns=0), choice, *(each.stored for each in operands), **more
        ) as product:
            yield product


class WrongInOneElement(CpuRunner):
    """Its int8 products of more than 100 rows are off by one in the last element."""

    @contextmanager
    def compute(self, problem: Problem, choice: Choice, *operands: Any, **more: Any) -> Iterator[Product]:
        with super().compute(problem, choice, *operands, **more) as product:
            if problem.dtype == "int8" and problem.m > 100:
                product._c[-1, -1] += 1  # type: ignore[attr-defined]  # it is in this process's memory
            yield product


def test_a_device_with_a_wrong_product_is_not_ready() -> None:
    with pytest.raises(NotReady, match="cpu_blas multiplies int8 wrongly"):
        prove(WrongInOneElement(Settings(cpu_threads=1)), RNG)


def test_a_product_that_memory_has_no_room_for_is_refused_before_it_is_computed() -> None:
    a, b = np.ones((2_000_000, 1), np.float32), np.ones((1, 2_000_000), np.float32)
    problem = Problem(2_000_000, 2_000_000, 1, "float32")
    runner = CpuRunner(Settings(cpu_threads=1))
    choice = choose("cpu_blas", {}, problem, "fp32", runner.device.traits)
    with (
        pytest.raises(OutOfDeviceMemory, match="bytes of memory"),
        runner.compute(problem, choice, HostOperand(a), HostOperand(b)),
    ):
        pass


def test_random_operands_are_made_only_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_memory, "available_bytes", lambda: 1)
    monkeypatch.setattr(operands, "generate", lambda *_: pytest.fail("it was made"))
    spec = RandomSpec(shape=(4000, 4000), dtype="float32")
    ref = OperandRef(source="random", random=spec, dtype="float32", shape=spec.shape)
    with pytest.raises(OutOfDeviceMemory, match="A random operand needs"), ExitStack() as opened:
        operands.operand(ref, None, cast(MatrixStore, None), opened)


def test_a_container_s_limits_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = cpu_device.available_bytes()
    monkeypatch.setattr(cpu_device, "CGROUP", tmp_path)
    assert free is None or free > 0
    (tmp_path / "memory.max").write_text("1000000")
    (tmp_path / "memory.stat").write_text("anon 200000\nfile 500000\nshmem 100000\n")
    (tmp_path / "cpu.max").write_text("50000 100000")
    assert cpu_device.available_bytes() == 700_000
    assert cpu_device.usable_cores() == 1
    (tmp_path / "memory.max").write_text("max")
    (tmp_path / "cpu.max").write_text("max 100000")
    unlimited = cpu_device.available_bytes()
    assert unlimited is None or unlimited > 700_000


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """After so long by its clock: each pause is twice the one before, and none ends too late."""
    slept: list[float] = []
    monkeypatch.setattr(retry, "time", SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append))

    def away() -> None:
        raise StoreUnavailable

    with pytest.raises(StoreUnavailable):
        retry_until(away, timeout_s=0.4)
    assert slept == [0.05, 0.1, 0.2]


def test_patience_is_rewarded() -> None:
    refusals = [StoreUnavailable(), StoreFull()]

    def at_last() -> int:
        if refusals:
            raise refusals.pop()
        return 7

    assert retry_until(at_last, timeout_s=5.0) == 7


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("batches", [(0, 0), (4, 0), (0, 4), (4, 4)])
def test_the_problem_is_what_was_asked_for(transpose_a: bool, transpose_b: bool, batches: tuple[int, int]) -> None:
    a = (7, 5) if transpose_a else (5, 7)
    b = (6, 7) if transpose_b else (7, 6)
    shapes = [(batch, *shape) if batch else shape for batch, shape in zip(batches, (a, b), strict=True)]
    refs = [OperandRef(source="matrix", matrix="x", dtype="int8", shape=shape) for shape in shapes]
    request = MatmulRequest(a=refs[0], b=refs[1], accuracy="exact", transpose_a=transpose_a, transpose_b=transpose_b)
    batched = batches[0] > 0, batches[1] > 0
    expected = Problem(5, 6, 7, "int8", max(1, *batches), transpose_a, transpose_b, *batched)
    assert request.problem == expected


@pytest.mark.parametrize("device", ["tpu", "gpu", "gpu:", "gpu:-1", "cpu:0", "gpu:0x1"])
def test_an_unknown_device_is_refused_in_words(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--device", device])
    assert "it must be cpu or gpu:<index>" in capsys.readouterr().err


def test_nothing_lowers_or_forbids_tf32_behind_a_kernel_s_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set to 0 the variable would take TF32 from `cublas_tf32`; set to 1 it would lower `cublas`."""
    for name in ("MATMUL_DEVICE", "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    prepare_environment("gpu:1")
    assert (os.environ["MATMUL_DEVICE"], os.environ["CUDA_VISIBLE_DEVICES"]) == ("gpu:1", "1")
    assert "NVIDIA_TF32_OVERRIDE" not in os.environ
