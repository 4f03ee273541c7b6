"""A benchmark, from a claimed job to its outcome. Measurements are stored as they are taken; the outcome summarises
them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime

from jobs.benchmarks.cases import expand
from jobs.benchmarks.findings import attempt_name, ceiling_name, in_full
from jobs.benchmarks.records import AttemptInfo
from jobs.benchmarks.roofs import measured_roofs
from jobs.benchmarks.spec import BenchmarkKind, BenchmarkSpec
from jobs.errors import InvalidConfig, InvalidRequest, JobFailed
from jobs.ledger.interface import Claimed, Ledger
from jobs.models import BenchmarkOutcome
from worker.benchmark.case_run import Check
from worker.benchmark.in_process import InProcess
from worker.benchmark.isolated import Isolated
from worker.benchmark.order import shuffled_runs
from worker.benchmark.run import BenchmarkRun, Measurer
from worker.benchmark.summary import summary, summary_of_ceilings
from worker.benchmark.tune import tune
from worker.device.runner import Runner


def benchmark(claimed: Claimed, ledger: Ledger, runner: Runner, *, worker: str, check: Check) -> BenchmarkOutcome:
    """Runs a benchmark; when this returns, all results are among the job's findings. `check` raises StaleAttempt once
    the job is lost.

    Raises JobFailed, DeviceFault, StoreUnavailable, StaleAttempt.
    """
    spec = claimed.job.record.request
    assert isinstance(spec, BenchmarkSpec), "products go another way"
    with _measurer(spec, runner) as measurer:
        run = BenchmarkRun(claimed, spec, runner.device, ledger, measurer, check)
        attempts = _record_attempt(run, runner, worker)
        _KINDS[spec.kind](run, runner)
    if spec.kind == "ceilings":
        whole = summary_of_ceilings(run.ceilings, attempts)
    else:
        whole = summary(in_full(run.records.values(), spec.timing.rounds), attempts)
    return BenchmarkOutcome(device=runner.device.name, summary=whole)


def _measurer(spec: BenchmarkSpec, runner: Runner) -> AbstractContextManager[Measurer]:
    return nullcontext(Isolated()) if spec.fresh_process else InProcess(runner)


def _record_attempt(run: BenchmarkRun, runner: Runner, worker: str) -> tuple[AttemptInfo, ...]:
    """Stores this attempt's worker and device before the first measurement; returns all attempts so far, this one
    last.
    """
    this = AttemptInfo(
        attempt=run.claimed.attempt,
        worker=worker,
        started_at=datetime.now(UTC).isoformat(),
        found=len(run.found.records),
        device=runner.device.model_dump(mode="json"),
        environment=runner.environment(),
    )
    run.keep({attempt_name(this.attempt): this.model_dump_json()}, {"attempt": this.attempt, "found": this.found})
    return (*(each for each in run.found.attempts if each.attempt != this.attempt), this)


def _sweep(run: BenchmarkRun, _: Runner) -> None:
    """Runs a sweep. Raises JobFailed if the device can do nothing of what the spec asks for."""
    try:
        cases = expand(run.spec, run.device)
    except (InvalidRequest, InvalidConfig) as error:
        raise JobFailed(error.detail) from error
    case_runs = list(shuffled_runs(cases, run.spec.timing.rounds, run.spec.data.seed))
    run.plan(len(case_runs))
    for number, case in case_runs:
        run.measure(case, number)


def _ceilings(run: BenchmarkRun, runner: Runner) -> None:
    """Measures the ceilings. Each attempt measures all of them again, because they take seconds and belong together."""
    for ceiling in runner.ceilings():
        run.count_step()
        run.ceilings.append(ceiling)
        news = ceiling.model_dump(mode="json", include={"name", "unit", "value"})
        run.keep({ceiling_name(ceiling.name): ceiling.model_dump_json()}, news, current=ceiling.name)
    runner.device = runner.device.model_copy(update={"measured": measured_roofs(run.ceilings)})


_KINDS: dict[BenchmarkKind, Callable[[BenchmarkRun, Runner], None]] = {
    "sweep": _sweep,
    "ceilings": _ceilings,
    "tune": lambda run, _: tune(run),
}
