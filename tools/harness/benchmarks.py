"""Benchmarks as a worker would record them, with figures made up by hand: a wall between what runs and what reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobs.benchmarks.cases import Case, expand
from jobs.benchmarks.findings import attempt_name, record_name, samples_name
from jobs.benchmarks.records import AttemptInfo, BenchmarkSummary, CaseRecord, Checked, Samples, SampleStatistics
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.fleet.workers import DeviceInfo
from jobs.models import BenchmarkOutcome, Job, Progress
from kernels.model.entry.config import NO_CONFIG
from kernels.model.numerics import Problem
from kernels.published_records import Status
from tools.harness.api import Api

CPU = DeviceInfo(name="A CPU", device_class="cpu", cores=2, memory_bytes=8 << 30)
H200 = DeviceInfo(
    name="NVIDIA H200",
    device_class="gpu",
    uuid="GPU-1",
    compute_capability=(9, 0),
    multiprocessors=132,
    memory_bytes=150 << 30,
    shared_bytes_per_block=232448,
)
JITTER = (0.98, 0.99, 1.0, 1.01, 1.02)  # of the samples, over their median


def square(n: int, kernel: str = "cpu_blas") -> Case:
    """A case that is its own baseline."""
    case = Case(kernel, NO_CONFIG, Problem(n, n, n, "float32"))
    return Case(kernel, NO_CONFIG, case.problem, baseline=case.id)


def samples_us(gflops: float, flops: int) -> tuple[float, ...]:
    return tuple(flops / gflops / 1e3 * part for part in JITTER)


def case_record(case: Case, *, gflops: float = 10.0, status: Status = "ok", **changes: Any) -> CaseRecord:
    """What a worker records of the case: with those figures where it is `ok`, else without."""
    problem, figures = case.problem, {}
    if status == "ok":
        times = samples_us(gflops, problem.flops)
        figures = {
            "kernel_ms": times[2] / 1e3,
            "gflops": gflops,
            "time_us": SampleStatistics(
                min=times[0],
                q1=times[1],
                median=times[2],
                q3=times[3],
                p95=times[4],
                max=times[4],
                mean=times[2],
                stdev=times[3] - times[2],
            ),
            "rel_iqr": 0.02,
            "ci95_lo_us": times[1],
            "ci95_hi_us": times[3],
            "samples": len(times),
            "stop_reason": "precise",
            "before": Checked(mode="freivalds", passed=True, residual=1e-8, threshold=1e-6),
            "after": Checked(mode="freivalds", passed=True, residual=1e-8, threshold=1e-6),
        }
    whole = {
        "case": case.id,
        "round": 0,
        "attempt": 1,
        "kernel": case.kernel,
        "config": dict(case.config),
        "device_class": "cpu",
        "dtype": problem.dtype,
        "accuracy": case.accuracy,
        "m": problem.m,
        "n": problem.n,
        "k": problem.k,
        "baseline": case.baseline,
        "status": status,
        "reason": None if status == "ok" else "It went wrong.",
        "cache": "cold",
        "flops": problem.flops,
        "bytes_min": problem.operand_bytes + problem.product_bytes,
    }
    return CaseRecord(**(whole | figures | changes))


def findings_of(records: Sequence[CaseRecord], device: DeviceInfo = CPU) -> dict[str, bytes]:
    """The findings as the ledger keeps them: who measured, records, samples."""
    who = AttemptInfo(
        attempt=1,
        worker="played",
        started_at="2026-11-20T12:00:00+00:00",
        found=0,
        device=device.model_dump(mode="json"),
        environment={"versions": {"numpy": "2.5.2"}},
    )
    kept = {attempt_name(1): who.model_dump_json().encode()}
    for record in records:
        kept[record_name(record.round, record.case)] = record.model_dump_json().encode()
        if record.gflops:
            samples = Samples(time_us=samples_us(record.gflops, record.flops))
            kept[samples_name(record.round, record.case)] = samples.model_dump_json().encode()
    return kept


def find(api: Api, job: Job, records: Sequence[CaseRecord], total: int) -> None:
    """As a worker: keeps those records, one after another."""
    for done, record in enumerate(records, 1):
        news = record.model_dump(mode="json", include={"case", "round", "kernel", "status", "gflops"})
        progress = Progress(done=done, total=total, current=record.kernel)
        kept = findings_of([record])
        assert api.ledger.keep_findings(job.id, job.record.attempt, kept, progress, news)


def cases_of(job: Job) -> tuple[Case, ...]:
    assert isinstance(job.record.request, BenchmarkSpec)
    return expand(job.record.request, CPU)


def measure(api: Api, job_id: str, *, gflops: float = 10.0, upto: int | None = None) -> Job:
    """As a worker: claims the benchmark and measures its first cases, once each."""
    job = api.claim(job_id)
    cases = cases_of(job)
    find(api, job, [case_record(case, gflops=gflops) for case in cases[:upto]], len(cases))
    return job


def finish(api: Api, job: Job) -> None:
    """As a worker: it is done."""
    cases = cases_of(job)
    summary = BenchmarkSummary(cases=len(cases), measurements=len(cases), by_status={"ok": len(cases)})
    assert api.ledger.succeed(job.id, job.record.attempt, BenchmarkOutcome(device="A CPU", summary=summary))
