"""The CPU as a bench: its operands, its clock, its checks, and what it notices of others."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from jobs.benchmarks.spec import DataSpec
from jobs.errors import KernelUnavailable, OutOfDeviceMemory
from jobs.settings import Settings
from kernels.model.numerics import DTYPE_NAMES, DTYPES, DTypeName, Problem
from tests.support.workers.simulated import case_run_of, spec_of
from worker.benchmark.check import check_product, sums_are_exact
from worker.check.elements import as_exact
from worker.cpu import usage as cpu_use
from worker.cpu.bench import CpuBench
from worker.cpu.bench_operands import operand
from worker.cpu.runner import CpuRunner
from worker.cpu.usage import ProcessorTimes, last_cache_bytes
from worker.device.bench import Bench


def multiplied(bench: Bench) -> Bench:
    bench.prepare(case_run_of(kernel="cpu_blas", config={}).case).sample(1, "warm")
    return bench


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("distribution", ["normal", "uniform", "integers", "zeros"])
def test_products_are_right_and_poisoned_ones_are_not(dtype: DTypeName, distribution: str) -> None:
    data = DataSpec.model_validate({"distribution": distribution, "seed": 3})
    problem = Problem(40, 30, 50, dtype)
    bench = CpuBench(problem, data)
    for mode in ("freivalds", "full", "exact"):
        spec = spec_of(verify="full" if mode == "exact" and distribution in ("normal", "uniform") else mode, data=data)
        bench.poison()
        assert not check_product(bench, problem, DTYPES[dtype].accuracy, spec).passed
        multiplied(bench)
        assert check_product(bench, problem, DTYPES[dtype].accuracy, spec).passed
    errors = bench.errors_vs_float64()
    assert (errors is None) == DTYPES[dtype].is_integer
    assert errors is None or errors.frobenius <= errors.worst_row <= 20 * DTYPES[dtype].unit_roundoff


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_every_product_of_a_batch_is_looked_at(dtype: DTypeName) -> None:
    bench = CpuBench(Problem(40, 30, 50, dtype, 3, a_batched=True, b_batched=True), DataSpec())
    multiplied(bench)
    assert bench.c.shape == (3, 40, 30) and not np.array_equal(bench.a[0], bench.a[1])
    assert check_product(bench, bench.problem, DTYPES[dtype].accuracy, spec_of(verify="full")).passed
    errors = bench.errors_vs_float64()
    assert (errors is None) == DTYPES[dtype].is_integer
    assert errors is None or errors.frobenius <= errors.worst_row <= 20 * DTYPES[dtype].unit_roundoff
    bench.c[2, 7, 9] = bench.c[2, 8, 9] + 1
    assert bench.largest_error_ratio() > 1
    assert not check_product(bench, bench.problem, DTYPES[dtype].accuracy, spec_of(verify="full")).passed


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_one_wrong_element_is_more_than_rounding_explains(dtype: DTypeName) -> None:
    bench = CpuBench(Problem(40, 30, 50, dtype), DataSpec())
    multiplied(bench)
    assert bench.largest_error_ratio() <= 1
    bench.c[7, 9] = bench.c[8, 9] + 1
    assert bench.largest_error_ratio() > 1


def test_operands_follow_from_the_seed() -> None:
    shape = (20, 20)
    one, same = operand(DataSpec(seed=1), "float32", shape, 0), operand(DataSpec(seed=1), "float32", shape, 0)
    other, b = operand(DataSpec(seed=2), "float32", shape, 0), operand(DataSpec(seed=1), "float32", shape, 1)
    assert np.array_equal(one, same) and not np.array_equal(one, other) and not np.array_equal(one, b)
    assert abs(one.mean()) < 0.2 and 0.8 < one.std() < 1.2


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_elements_are_scaled_within_their_type(dtype: DTypeName) -> None:
    data = DataSpec(distribution="integers", seed=1)
    plain = as_exact(operand(data, dtype, (9, 9), 0), dtype)
    scaled = as_exact(operand(data.model_copy(update={"scale": 32.0}), dtype, (9, 9), 0), dtype)
    assert np.abs(plain).max() <= 8 * 2**0.5
    np.testing.assert_array_equal(scaled, np.clip(plain * 32, -128, 127) if dtype == "int8" else plain * 32)


def test_when_sums_are_exact() -> None:
    spec = spec_of(verify="exact", data={"distribution": "integers"})
    assert sums_are_exact(Problem(1, 1, 2**18, "float32"), spec)
    assert not sums_are_exact(Problem(1, 1, 2**18 + 1, "float32"), spec)
    assert sums_are_exact(Problem(1, 1, 32, "float16"), spec) and not sums_are_exact(Problem(1, 1, 33, "float16"), spec)
    assert sums_are_exact(Problem(1, 1, 2**19, "int8"), spec)
    for k, is_exact in ((128, True), (129, False)):
        problem = Problem(1, 1, k, "float8_e4m3")
        assert sums_are_exact(problem, spec, "fp8") == is_exact and sums_are_exact(problem, spec, "fp32")


def test_cold_caches_are_written_over_before_each_launch_and_that_is_not_timed() -> None:
    bench = CpuBench(Problem(8, 8, 8, "float32"), DataSpec())
    flushed: list[float] = []
    bench.flush = lambda: flushed.append(time.sleep(0.1) or 0.0)  # type: ignore[method-assign, func-returns-value]
    prepared = bench.prepare(case_run_of(kernel="cpu_blas", config={}).case)
    assert prepared.sample(3, "cold").time_us < 80_000 and len(flushed) == 3
    prepared.sample(3, "warm")
    assert len(flushed) == 3


def test_a_kernel_of_a_gpu_is_not_measured_as_if_it_ran_here() -> None:
    with pytest.raises(KernelUnavailable, match="naive runs on a GPU"):
        CpuBench(Problem(4, 4, 4, "float32"), DataSpec()).prepare(case_run_of().case)


def test_what_has_no_room_is_refused_before_it_is_made() -> None:
    problem = Problem(2_000_000, 2_000_000, 1, "float32")
    with pytest.raises(OutOfDeviceMemory), CpuRunner(Settings(cpu_threads=1)).bench(problem, DataSpec()):
        pass


def test_others_use_of_the_cores_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    before = ProcessorTimes(at_s=10.0, busy_s=100.0, own_s=5.0)
    assert before.others_share(ProcessorTimes(at_s=12.0, busy_s=105.0, own_s=9.0)) == pytest.approx(1 / 8)
    assert before.others_share(ProcessorTimes(at_s=12.0, busy_s=104.0, own_s=9.0)) == 0
    assert before.others_share(ProcessorTimes(at_s=10.1, busy_s=105.0, own_s=5.0)) == 0, "too short to tell"
    assert before.others_share(ProcessorTimes(at_s=12.0, busy_s=None, own_s=9.0)) == 0


def test_the_host_s_own_words_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = ProcessorTimes.now()
    assert now.busy_s is None or now.busy_s > 0
    (tmp_path / "stat").write_text("cpu  100 0 200 5000 300 0 50 10 70 0\ncpu0 1 2 3\n")
    for index, size in enumerate(("32K", "1024K", "2M", "odd")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(f"{size}\n")
    monkeypatch.setattr(cpu_use, "PROCESSOR_TIMES", tmp_path / "stat")
    monkeypatch.setattr(cpu_use, "CACHES", tmp_path)
    monkeypatch.setattr("os.sysconf", lambda _: 100)
    assert ProcessorTimes.now().busy_s == 3.6
    assert last_cache_bytes() == 2 << 20
    monkeypatch.setattr(cpu_use, "CACHES", tmp_path / "none")
    monkeypatch.setattr(cpu_use, "PROCESSOR_TIMES", tmp_path / "none")
    assert last_cache_bytes() == 64 << 20 and ProcessorTimes.now().busy_s is None


def test_a_lost_row_shows_in_the_worst_row_and_hardly_in_the_norm() -> None:
    bench = CpuBench(Problem(120, 90, 70, "float32"), DataSpec())
    multiplied(bench)
    bench.c[33] = 0.0
    errors = bench.errors_vs_float64()
    assert errors is not None and errors.worst_row == 1.0 and 0.05 < errors.frobenius < 0.2
