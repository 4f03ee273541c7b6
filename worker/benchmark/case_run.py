"""One run of a case (a case in a round), with everything needed to measure it, and records without figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jobs.benchmarks.cases import Case
from jobs.benchmarks.records import CaseRecord, Samples
from jobs.benchmarks.spec import BenchmarkSpec, TimingSpec
from jobs.fleet.workers import DeviceInfo
from kernels.model.numerics import Problem
from kernels.published_records import Status

Check = Callable[[], None]  # raises StaleAttempt once the job is lost; to be called at least every 50 ms
Result = tuple[CaseRecord, Samples]


def product_in_words(one: Problem | CaseRecord) -> str:
    """Element type and size."""
    batch = f"{one.batch} of " if one.batch > 1 else ""
    return f"{one.dtype} {batch}{one.m}×{one.n}×{one.k}"


@dataclass(frozen=True, slots=True)
class CaseRun:
    """What is measured, how, and where. `timing` is the spec's, unless a search asks for less."""

    case: Case
    round: int
    attempt: int
    spec: BenchmarkSpec
    timing: TimingSpec
    device: DeviceInfo

    def record(self, status: Status, reason: str | None = None, **figures: Any) -> CaseRecord:
        """The record of this run with that status."""
        case, problem = self.case, self.case.problem
        return CaseRecord(
            case=case.id,
            round=self.round,
            attempt=self.attempt,
            kernel=case.kernel,
            config=dict(case.config),
            device_class=self.device.device_class,
            dtype=problem.dtype,
            accuracy=case.accuracy,
            m=problem.m,
            n=problem.n,
            k=problem.k,
            batch=problem.batch,
            layout=self.spec.data.layout,
            baseline=case.baseline,
            status=status,
            reason=reason,
            cache=self.timing.cache,
            flops=problem.flops,
            bytes_min=problem.operand_bytes + problem.product_bytes,
            **figures,
        )

    def without_figures(self, status: Status, reason: str, **figures: Any) -> Result:
        """A record for a case that could not be measured."""
        return self.record(status, reason, **figures), Samples()
