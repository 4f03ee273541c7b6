"""A benchmark under way: what its kinds (sweep, ceilings, tune) work with. Measures, keeps, and says how far it is.

Whatever is measured is kept at once, fenced by the attempt. What an earlier attempt kept is not measured again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from jobs.benchmarks.cases import Case
from jobs.benchmarks.findings import Findings, read_findings, record_name, samples_name
from jobs.benchmarks.records import CaseRecord, Ceiling
from jobs.benchmarks.spec import BenchmarkSpec, TimingSpec
from jobs.errors import JobFailed, StaleAttempt, StoreFull
from jobs.fleet.workers import DeviceInfo
from jobs.ledger.interface import Claimed, Ledger
from jobs.models import Progress
from worker.benchmark.case_run import CaseRun, Check, Result
from worker.device.retry import retry_until

KEEP_TIMEOUT_S = 60.0  # for a Redis that is away or full: what is measured would be lost with the attempt
NO_ROOM = "The job store has no room for what is measured; delete finished jobs and retry this one."
MAX_STARTS = 2  # attempts that may end while a case runs, before it is given up


class Measurer(Protocol):
    """Measures one run of a case: in this process, or in a fresh one."""

    def measure(self, case_run: CaseRun, check: Check) -> Result:
        """Raises DeviceFault, StaleAttempt; all that is wrong with the case alone is in its record."""
        ...


@dataclass(slots=True)
class _Pace:
    """How far it is, and how long the rest takes at the mean pace so far."""

    total: int = 0
    done: int = 0
    measured: int = 0  # of `done`, by this attempt
    spent_s: float = 0.0  # on those

    def progress(self, current: str | None) -> Progress:
        left = max(0, self.total - self.done)
        eta_s = round(self.spent_s / self.measured * left, 1) if self.measured else None
        return Progress(done=self.done, total=max(self.total, self.done), current=current, eta_s=eta_s)


@dataclass(slots=True)
class BenchmarkRun:
    """One attempt at a benchmark. For use by one thread.

    `check` raises StaleAttempt once the job is lost. Every method that keeps something raises it too, and, where Redis
    does not serve for a minute, StoreUnavailable, or JobFailed where it is full.
    """

    claimed: Claimed
    spec: BenchmarkSpec
    device: DeviceInfo
    ledger: Ledger
    measurer: Measurer
    check: Check
    records: dict[tuple[int, str], CaseRecord] = field(default_factory=dict)  # by round and case, of all attempts
    ceilings: list[Ceiling] = field(default_factory=list)  # of this attempt
    found: Findings = field(init=False)  # what earlier attempts left
    _started: dict[str, list[int]] = field(init=False)
    _pace: _Pace = field(init=False)

    def __post_init__(self) -> None:
        kept = retry_until(lambda: self.ledger.findings(self.claimed.job.id), timeout_s=KEEP_TIMEOUT_S)
        self.found = read_findings(kept)
        self.records = {(record.round, record.case): record for record in self.found.records}
        self._pace = _Pace(total=self.claimed.job.record.progress.total, done=len(self.records))
        self._started = {name: json.loads(text) for name, text in kept.items() if name.startswith("started:")}

    def plan(self, total: int) -> None:
        """Says how many measurements there are in all, those of earlier attempts included; may change on the way."""
        self._pace.total = total

    def measure(self, case: Case, round_number: int = 0, timing: TimingSpec | None = None) -> CaseRecord:
        """The case's record in that round: as it was kept before, or measured and kept now. Raises DeviceFault.

        `timing` replaces the spec's. Cases of one problem should follow one another: its operands are made once.
        """
        self.check()
        known = self.records.get((round_number, case.id))
        if known is not None:
            return known
        case_run = CaseRun(case, round_number, self.claimed.attempt, self.spec, timing or self.spec.timing, self.device)
        if case.skip is not None:
            return self._kept(case_run, case_run.without_figures("skipped", case.skip))
        if (earlier := self._starts(case_run)) >= MAX_STARTS:
            reason = f"{earlier} attempts ended while it ran, so it is not tried again."
            return self._kept(case_run, case_run.without_figures("launch_error", reason))
        self._mark_started(case_run)
        began_s = time.monotonic()
        result = self.measurer.measure(case_run, self.check)
        self._pace.spent_s += time.monotonic() - began_s
        self._pace.measured += 1
        return self._kept(case_run, result)

    def skip(self, case: Case, reason: str, round_number: int = 0) -> CaseRecord:
        """Keeps a `skipped` record with the reason in a sentence; one that is there already stays."""
        return self.measure(replace(case, skip=reason), round_number)

    def keep(self, findings: Mapping[str, str], news: Mapping[str, Any], current: str | None = None) -> None:
        """Keeps findings of any kind, by name, and tells `news` on the event stream. Raises StaleAttempt."""
        self.check()
        job_id, attempt = self.claimed.job.id, self.claimed.attempt
        kept = {name: text.encode() for name, text in findings.items()}
        progress = self._pace.progress(current)
        try:
            owned = retry_until(
                lambda: self.ledger.keep_findings(job_id, attempt, kept, progress, news),
                timeout_s=KEEP_TIMEOUT_S,
                wanted=self.check,
            )
        except StoreFull as error:
            raise JobFailed(NO_ROOM) from error
        if not owned:
            raise StaleAttempt

    def counted(self) -> None:
        """One more step is done, of those that `plan` spoke of."""
        self._pace.done += 1

    # ---- one case ----
    def _starts(self, case_run: CaseRun) -> int:
        """How many attempts before this one started the case and did not come to record it."""
        return sum(attempt != case_run.attempt for attempt in self._started.get(_started_name(case_run), ()))

    def _mark_started(self, case_run: CaseRun) -> None:
        name = _started_name(case_run)
        self._started.setdefault(name, []).append(case_run.attempt)
        self.keep({name: json.dumps(self._started[name])}, {}, current=_label(case_run.case))

    def _kept(self, case_run: CaseRun, result: Result) -> CaseRecord:
        record, samples = result
        findings = {record_name(case_run.round, record.case): record.model_dump_json()}
        if samples.time_us:
            findings[samples_name(case_run.round, record.case)] = samples.model_dump_json()
        self._pace.done += 1
        self.keep(findings, _news(record), current=_label(case_run.case))
        self.records[(case_run.round, record.case)] = record
        return record


def _started_name(case_run: CaseRun) -> str:
    return f"started:{case_run.round}:{case_run.case.id}"


def _label(case: Case) -> str:
    """What is being measured, for people."""
    p = case.problem
    config = " ".join(f"{name}={value}" for name, value in case.config.items())
    return f"{case.kernel} {p.dtype} {p.m}×{p.n}×{p.k}" + (f" ({config})" if config else "")


def _news(record: CaseRecord) -> dict[str, Any]:
    """What listeners are told of a measurement."""
    names = {"case", "round", "kernel", "m", "n", "k", "dtype", "status", "gflops"}
    return record.model_dump(mode="json", include=names)
