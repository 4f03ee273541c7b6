"""A running benchmark, as used by its kinds (sweep, ceilings, tune): measures, stores results, and reports progress.
Each result is stored at once, fenced by the attempt. Results of earlier attempts are not measured again.
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
from worker.benchmark.case_run import CaseRun, Check, Result, product_in_words
from worker.device.retry import retry_until

KEEP_TIMEOUT_S = 60.0  # wait for an unavailable or full Redis: the measurement would be lost with the attempt
NO_ROOM = "The job store has no room for what is measured; delete finished jobs and retry this one."
MAX_STARTS = 2  # attempts that may die while a case runs, before the case is given up


class Measurer(Protocol):
    """Measures one run of a case, in this process or in a new one."""

    def measure(self, case_run: CaseRun, check: Check) -> Result:
        """Measures a case. Raises DeviceFault, StaleAttempt; any error of the case alone is in its record."""
        ...


@dataclass(slots=True)
class _Pace:
    """Progress, and an estimate of the remaining time at the mean pace so far."""

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

    `check` raises StaleAttempt once the job is lost. Every method that stores something raises it too. If Redis does
    not serve for a minute it raises StoreUnavailable, or JobFailed if Redis is full.
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
        """Sets the total number of measurements, including those of earlier attempts; it may be changed later."""
        self._pace.total = total

    def measure(self, case: Case, round_number: int = 0, timing: TimingSpec | None = None) -> CaseRecord:
        """The case's record in that round, stored earlier, or measured and stored now. Raises DeviceFault.

        `timing` replaces the spec's. Cases of one problem should follow one another: its operands are made once.
        """
        self.check()
        known = self.records.get((round_number, case.id))
        if known is not None:
            return known
        case_run = CaseRun(case, round_number, self.claimed.attempt, self.spec, timing or self.spec.timing, self.device)
        if case.skip is not None:
            return self._store(case_run, case_run.without_figures("skipped", case.skip))
        if (earlier := self._starts(case_run)) >= MAX_STARTS:
            reason = f"{earlier} attempts ended while it ran, so it is not tried again."
            return self._store(case_run, case_run.without_figures("launch_error", reason))
        self._mark_started(case_run)
        began_s = time.monotonic()
        result = self.measurer.measure(case_run, self.check)
        self._pace.spent_s += time.monotonic() - began_s
        self._pace.measured += 1
        return self._store(case_run, result)

    def skip(self, case: Case, reason: str) -> CaseRecord:
        """Stores a `skipped` record with the reason in a sentence, unless there is one already."""
        return self.measure(replace(case, skip=reason))

    def keep(self, findings: Mapping[str, str], news: Mapping[str, Any], current: str | None = None) -> None:
        """Stores findings of any kind, by name, and publishes `news` on the event stream. Raises StaleAttempt."""
        self.check()
        job_id, attempt = self.claimed.job.id, self.claimed.attempt
        kept = {name: text.encode() for name, text in findings.items()}
        progress = self._pace.progress(current)
        try:
            owned = retry_until(
                lambda: self.ledger.keep_findings(job_id, attempt, kept, progress, news),
                timeout_s=KEEP_TIMEOUT_S,
                check_cancelled=self.check,
            )
        except StoreFull as error:
            raise JobFailed(NO_ROOM) from error
        if not owned:
            raise StaleAttempt

    def count_step(self) -> None:
        """Counts one more finished step of the planned total."""
        self._pace.done += 1

    # ---- one case ----
    def _starts(self, case_run: CaseRun) -> int:
        """How many of the lost attempts started the case but did not record it. One that was cancelled, or given back
        by a worker that ends, says nothing about the case.
        """
        first = case_run.attempt - self.claimed.earlier_runs
        return sum(first <= attempt < case_run.attempt for attempt in self._started.get(_started_name(case_run), ()))

    def _mark_started(self, case_run: CaseRun) -> None:
        name = _started_name(case_run)
        self._started.setdefault(name, []).append(case_run.attempt)
        self.keep({name: json.dumps(self._started[name])}, {}, current=_label(case_run.case))

    def _store(self, case_run: CaseRun, result: Result) -> CaseRecord:
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
    """A label of the case for people."""
    config = " ".join(f"{name}={value}" for name, value in case.config.items())
    return f"{case.kernel} {product_in_words(case.problem)}" + (f" ({config})" if config else "")


def _news(record: CaseRecord) -> dict[str, Any]:
    """A measurement as an event for listeners."""
    names = {"case", "round", "kernel", "m", "n", "k", "batch", "dtype", "status", "gflops"}
    return record.model_dump(mode="json", include=names)
