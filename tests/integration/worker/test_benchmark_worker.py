"""Benchmarks through a real worker process: findings, progress, and what is left when they or it are ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from jobs.benchmarks.findings import read_findings
from jobs.models import Job
from jobs.queue import bench_queue
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from tests.support.local import children_of
from tests.support.workers.killed import Killed, assert_resumed, kill_midway
from tests.support.workers.workers import WorkerBench, is_dead, running_worker, until

TIMING = {"warmup_ms": 0, "min_samples": 6, "max_samples": 12, "min_time_s": 0, "rounds": 2, "cache": "warm"}
SIZES, DTYPES = (16, 32, 48), ("float32", "int8")
SWEEP: dict[str, Any] = {"kernels": ["cpu_blas"], "shapes": SIZES, "dtypes": DTYPES, "timing": TIMING}
# Ten cases of about a fifth of a second, whatever the machine: nothing but the timeout ends their sampling.
SLOW = {"shapes": [{"start": 8, "stop": 80, "step": 8}], "dtypes": ["float32"]}
SLOW_TIMING = TIMING | {"rounds": 1, "min_samples": 1, "max_samples": 5000, "precision": 1e-9, "cache": "cold"}


@pytest.fixture(scope="module")
def bench(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerBench]:
    """One worker for this file."""
    with running_worker(valkey, tmp_path_factory.mktemp("benchmarks")) as running:
        yield running


def slow_sweep(bench: WorkerBench, **options: Any) -> str:
    """A sweep that a test can interrupt; its id once some cases are measured."""
    timing = SLOW_TIMING | {"timeout_s": 0.2}
    job_id = bench.submit_benchmark(**(SWEEP | SLOW | {"timing": timing} | options))
    until(lambda: len(bench.measured(job_id)) >= 4, timeout_s=60, what="the measuring of some cases")
    return job_id


def progress(job: Job) -> tuple[int, int]:
    return job.record.progress.done, job.record.progress.total


def test_the_worker_says_which_queue_benchmarks_go_to(bench: WorkerBench) -> None:
    worker = bench.live()[0]
    assert worker.queue == "cpu" and worker.bench_queue == bench_queue(worker.device.name)


def test_a_sweep_from_end_to_end(bench: WorkerBench) -> None:
    job = bench.ended(bench.submit_benchmark(**SWEEP))
    assert job.record.state is JobState.SUCCEEDED, job.record.error
    summary = job.record.benchmark
    assert summary is not None and (summary.cases, summary.measurements, summary.attempts) == (6, 12, 1)
    assert summary.by_status == {"ok": 6}
    assert progress(job) == (12, 12) and job.record.device == bench.live()[0].device.name
    found = read_findings(bench.ledger.findings(job.id))
    assert {(r.m, r.dtype, r.round) for r in found.records} == {
        (n, dtype, number) for n in SIZES for dtype in DTYPES for number in (0, 1)
    }
    for record in found.records:
        assert record.gflops is not None and record.kernel_ms is not None and record.gflops > 0
        assert record.gflops == pytest.approx(record.flops / record.kernel_ms / 1e6)
        assert len(found.samples[record.round, record.case].time_us) == record.samples >= 6
        assert record.before is not None and record.before.passed and record.after is not None and record.after.passed
    assert [attempt.device["name"] for attempt in found.attempts] == [job.record.device]
    events = [event for event in bench.ledger.events(job.id) if event.event == "progress" and event.data["found"]]
    assert len(events) == 13 and events[-1].data["found"]["status"] == "ok"


def test_what_cannot_run_there_is_skipped_and_the_rest_is_measured(bench: WorkerBench) -> None:
    job = bench.ended(bench.submit_benchmark(**(SWEEP | {"kernels": ["cpu_blas", "naive"], "shapes": [16, 1 << 20]})))
    assert job.record.benchmark is not None and job.record.benchmark.by_status == {"skipped": 6, "ok": 2}
    skipped = [r for r in read_findings(bench.measured(job.id)).records if r.status == "skipped"]
    reasons = " ".join(sorted({str(record.reason) for record in skipped}))
    assert "bytes of memory" in reasons and "naive" in reasons


@pytest.mark.parametrize("killed", ["child", "worker"])
def test_a_kill_loses_no_measured_case_and_none_is_measured_again(bench: WorkerBench, killed: Killed) -> None:
    job_id = slow_sweep(bench)
    before = kill_midway(bench, job_id, killed, after=4)
    job = bench.ended(job_id)
    assert_resumed(bench, job, before, killed)
    assert len(bench.measured(job_id)) == 20 and progress(job) == (10, 10)


def test_a_cancelled_benchmark_keeps_what_was_measured(bench: WorkerBench) -> None:
    job_id = slow_sweep(bench)
    bench.ledger.cancel(job_id)
    kept = bench.measured(job_id)
    assert len(kept) >= 4
    bench.still_works()
    assert bench.measured(job_id) == kept
    assert bench.ledger.get(job_id).record.state is JobState.CANCELLED


def test_a_benchmark_over_its_time_fails_and_keeps_what_was_measured(bench: WorkerBench) -> None:
    timing = SLOW_TIMING | {"timeout_s": 0.2, "rounds": 20}
    job = bench.ended(bench.submit_benchmark(**(SWEEP | SLOW | {"timing": timing}), timeout_s=5.0))
    assert job.record.state is JobState.FAILED
    assert job.record.error is not None and job.record.error.type == "time_limit_exceeded"
    assert 2 <= len(bench.measured(job.id)) < 400
    bench.still_works()


def test_each_case_in_a_process_of_its_own(bench: WorkerBench) -> None:
    spec = SWEEP | {"shapes": [16], "dtypes": ["float32"], "fresh_process": True}
    job = bench.ended(bench.submit_benchmark(**spec))
    assert job.record.benchmark is not None and job.record.benchmark.by_status == {"ok": 1}, bench.log()
    records = read_findings(bench.measured(job.id)).records
    assert [record.round for record in records] == [0, 1] and all(record.gflops for record in records)


def test_a_fresh_process_ends_with_the_child_that_asked(bench: WorkerBench) -> None:
    timing = SLOW_TIMING | {"warmup_ms": 10_000, "timeout_s": 600}  # it would live for more than a minute
    spec = SWEEP | SLOW | {"fresh_process": True, "timing": timing}
    job_id = bench.submit_benchmark(**spec)
    child = bench.child()
    fresh: list[psutil.Process] = []

    def look() -> bool:
        fresh[:] = children_of(child.pid, "worker.process.isolated_case")
        return bool(fresh)

    until(look, timeout_s=60, what="the start of a fresh process")
    os.kill(child.pid, signal.SIGKILL)
    until(lambda: all(is_dead(each) for each in fresh), timeout_s=50, what="the end of it")
    bench.ledger.cancel(job_id)
    bench.still_works()


def test_the_roofs_of_the_cpu(bench: WorkerBench) -> None:
    job = bench.ended(bench.submit_benchmark(kind="ceilings"))
    assert job.record.state is JobState.SUCCEEDED, job.record.error
    roofs = {roof.name: roof for roof in read_findings(bench.ledger.findings(job.id)).ceilings}
    assert set(roofs) == {"dram_copy", "dram_add", "gemm_float32", "gemm_float64"}
    assert all(roof.value and roof.value > 0.1 and roof.note for roof in roofs.values())
    single, double = roofs["gemm_float32"].value, roofs["gemm_float64"].value
    (live,) = bench.registry.live()
    until(lambda: bench.registry.live()[0].device.measured.gflops.get("float32") == single, timeout_s=60, what="a beat")
    assert bench.registry.roofs(live.device).gflops["float64"] == double
