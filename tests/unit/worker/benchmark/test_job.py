"""A benchmark over several attempts, on a ledger in memory and a device that is not there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from jobs.benchmarks.cases import Case, expand
from jobs.benchmarks.findings import read_findings, record_name
from jobs.benchmarks.records import AttemptInfo, Ceiling
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.errors import DeviceFault, JobFailed, StaleAttempt, StoreFull
from jobs.ledger.interface import Claimed
from jobs.models import ANONYMOUS, BenchmarkOutcome, JobError, NewJob
from kernels.model.numerics import Problem
from tests.support.ledger.memory_ledger import MemoryLedger
from tests.support.workers.simulated import H200, Behaviour, SimulatedRunner, case_run_of, record_of, spec_of
from worker.benchmark import run
from worker.benchmark.job import benchmark
from worker.benchmark.order import shuffled_runs
from worker.benchmark.summary import drift, summary, summary_of_ceilings

FOUR = {"kernels": ["naive", "shared_tiled"], "shapes": [16, 32]}


class Killed(BaseException):
    """The end of a process."""


@dataclass
class Lab:
    """A job, and a device for its attempts."""

    spec: BenchmarkSpec
    behaviour: Behaviour = field(default_factory=Behaviour)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)

    def __post_init__(self) -> None:
        job = NewJob(kind="benchmark", owner=ANONYMOUS, queue="bench-x", timeout_s=600, request=self.spec)
        self.ledger.submit(job, max_queued=9, max_queued_per_owner=9)
        self.job_id = job.id

    def attempt(self, number: int = 1, check: Callable[[], None] = lambda: None) -> BenchmarkOutcome:
        claimed = self.claim(number)
        return benchmark(claimed, self.ledger, SimulatedRunner(self.behaviour), worker=f"w{number}", check=check)

    def claim(self, number: int) -> Claimed:
        claimed = self.ledger.claim(self.job_id, number, worker="w", lease_s=60)
        assert claimed is not None
        return claimed

    def broken_attempt(self, number: int, error: BaseException) -> None:
        """Ends with the error, and the job waits for the next attempt."""
        with pytest.raises(type(error)):
            self.attempt(number)
        self.ledger.fail(self.job_id, number, JobError(type="worker_lost", detail="Lost."), max_attempts=9)

    def records(self) -> dict[str, bytes]:
        found = self.ledger.findings(self.job_id)
        return {name: text for name, text in found.items() if name.startswith(("record:", "samples:"))}


def dies_at(count: int, error: BaseException) -> Callable[[Case, int], None]:
    """At the beginning of the case of that number, from 0."""
    begun: list[str] = []

    def look(case: Case, number: int) -> None:
        begun.extend([case.id] if number == 0 else [])
        if len(begun) > count:
            raise error

    return look


def test_every_case_in_every_round_is_stored_and_published() -> None:
    lab = Lab(spec_of(**FOUR))
    outcome = lab.attempt()
    assert outcome.device == H200.name
    assert (outcome.summary.cases, outcome.summary.measurements, outcome.summary.attempts) == (4, 8, 1)
    assert outcome.summary.by_status == {"ok": 4} and outcome.summary.warnings == ()
    found = read_findings(lab.ledger.findings(lab.job_id))
    assert len(found.records) == len(found.samples) == 8
    assert [attempt.worker for attempt in found.attempts] == ["w1"]
    assert found.attempts[0].device["name"] == H200.name and found.attempts[0].environment["python"]
    news = [event.data["found"] for event in lab.ledger.events(lab.job_id) if event.data.get("found")]
    assert news[0] == {"attempt": 1, "found": 0}
    assert {(each["case"], each["round"]) for each in news[1:]} == {(r.case, r.round) for r in found.records}
    assert set(news[1]) == {"case", "round", "kernel", "m", "n", "k", "batch", "dtype", "status", "gflops"}


def test_progress_says_how_far_and_how_long() -> None:
    lab = Lab(spec_of(**FOUR))
    lab.attempt()
    told = [event.data["progress"] for event in lab.ledger.events(lab.job_id) if event.event == "progress"]
    # The attempt itself, then each of 8 measurements when it starts and when it is done.
    assert [each["done"] for each in told] == [0, *(n // 2 for n in range(1, 17))]
    assert {each["total"] for each in told[1:]} == {8}
    assert [each["eta_s"] is None for each in told[:4]] == [True, True, False, False]
    assert told[-1]["eta_s"] == 0
    assert {"shared_tiled float32 16×16×16 (tile=32)"} < {each["current"] for each in told[1:]}


def test_the_next_attempt_goes_on_where_the_last_was_lost() -> None:
    lab = Lab(spec_of(**FOUR))
    lab.behaviour.on_sample = dies_at(3, Killed())
    lab.broken_attempt(1, Killed())
    before = lab.records()
    assert len(before) == 6
    lab.behaviour.on_sample = no_trouble
    outcome = lab.attempt(2)
    after = lab.records()
    assert len(after) == 16 and {name: after[name] for name in before} == before
    assert {record.attempt for record in read_findings(after).records} == {1, 2}
    assert outcome.summary.attempts == 2 and outcome.summary.measurements == 8
    assert outcome.summary.warnings[0] == (
        "It took 2 attempts: 3 of 8 measurements were taken by those before the last."
    )
    assert read_findings(lab.ledger.findings(lab.job_id)).attempts[1].found == 3
    told = [event.data["progress"]["done"] for event in lab.ledger.events(lab.job_id) if event.event == "progress"]
    assert told == sorted(told) and told[-1] == 8


def test_a_case_that_ends_two_attempts_is_given_up_and_the_others_are_measured() -> None:
    lab = Lab(spec_of(**FOUR, timing={"rounds": 1, "warmup_ms": 0}))
    fault = DeviceFault("The device reported cudaErrorIllegalAddress.")

    def faults(case: Case, number: int) -> None:
        if case.kernel == "shared_tiled" and case.problem.n == 16:
            raise fault

    lab.behaviour.on_sample = faults
    lab.broken_attempt(1, fault)
    lab.broken_attempt(2, fault)
    summed = lab.attempt(3).summary
    assert summed.by_status == {"launch_error": 1, "ok": 3}
    records = read_findings(lab.records()).records
    assert [r.reason for r in records if r.status != "ok"] == [
        "2 attempts ended while it ran, so it is not tried again."
    ]


def test_a_case_that_was_cancelled_twice_is_measured_all_the_same() -> None:
    """Its callers ended those attempts, not the case."""
    lab = Lab(spec_of(**FOUR, timing={"rounds": 1, "warmup_ms": 0}))
    for number in (1, 2):
        lab.behaviour.on_sample = dies_at(0, StaleAttempt())
        with pytest.raises(StaleAttempt):
            lab.attempt(number)
        lab.ledger.cancel(lab.job_id)
        lab.ledger.redrive(lab.job_id)
    lab.behaviour.on_sample = no_trouble
    assert lab.attempt(3).summary.by_status == {"ok": 4}


def test_the_loss_of_the_job_ends_it_and_keeps_what_was_found() -> None:
    lab = Lab(spec_of(**FOUR))

    def check() -> None:
        if len(lab.records()) >= 4:
            raise StaleAttempt

    with pytest.raises(StaleAttempt):
        lab.attempt(check=check)
    assert len(lab.records()) == 4


def test_a_job_cancelled_unseen_keeps_nothing_more() -> None:
    lab = Lab(spec_of(**FOUR))

    def cancels(case: Case, number: int) -> None:
        if len(lab.records()) == 4 and number == 3:
            lab.ledger.cancel(lab.job_id)

    lab.behaviour.on_sample = cancels
    with pytest.raises(StaleAttempt):
        lab.attempt()
    assert len(lab.records()) == 4


class Refusing(MemoryLedger):
    """Full, for so many attempts to keep something."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self.refusals = refusals

    def keep_findings(self, *told: Any) -> bool:
        self.refusals -= 1
        if self.refusals >= 0:
            raise StoreFull
        return super().keep_findings(*told)


def test_a_full_store_is_waited_for() -> None:
    assert Lab(spec_of(), ledger=Refusing(2)).attempt().summary.by_status == {"ok": 1}


def test_a_store_that_stays_full_is_the_reason_of_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "KEEP_TIMEOUT_S", 0.1)
    with pytest.raises(JobFailed, match="The job store has no room for what is measured"):
        Lab(spec_of(), ledger=Refusing(99)).attempt()


def test_what_cannot_run_there_is_skipped_once_with_its_reason() -> None:
    lab = Lab(spec_of(kernels=["naive", "cpu_blas"], shapes=[16, 1 << 20]))
    assert lab.attempt().summary.by_status == {"skipped": 3, "ok": 1}
    skipped = [record for record in read_findings(lab.records()).records if record.status == "skipped"]
    assert len(skipped) == 3 and all(record.round == 0 and record.reason for record in skipped)


def test_a_spec_that_asks_for_nothing_this_device_can_do_fails_with_the_reason() -> None:
    lab = Lab(spec_of(kernels=[{"kernel": "naive", "configs": {"grid": {"block_x": []}}}]))
    with pytest.raises(JobFailed, match="No kernel that runs there"):
        lab.attempt()


def test_the_order_is_shuffled_by_round_and_the_same_each_time() -> None:
    spec = spec_of(kernels="ladder", shapes=[16, 32, 64], baseline="auto")
    cases = [case for case in expand(spec, H200) if case.skip is None]
    order = list(shuffled_runs(cases, 2, seed=5))
    assert order == list(shuffled_runs(cases, 2, seed=5))
    assert order != list(shuffled_runs(cases, 2, seed=6))
    rounds = [[case.id for number, case in order if number == each] for each in (0, 1)]
    assert rounds[0] != rounds[1] and set(rounds[0]) == set(rounds[1]) == {case.id for case in cases}
    sizes = [case.problem.n for _, case in order]
    changes = sum(one != two for one, two in pairwise(sizes))
    assert changes <= 5, "operands of a problem are made once in a round"


def test_drift_is_what_noise_does_not_explain() -> None:
    steady, slower = [100.0 + i % 2 for i in range(20)], [105.0 + i % 2 for i in range(20)]
    noisy = [80.0 + 2.6 * i for i in range(20)]
    one, two, three = (
        record_of(case_run_of(round_number=number), times) for number, times in enumerate((steady, slower, noisy))
    )
    assert drift(one, two) == drift(two, one) == pytest.approx(105.5 / 100.5 - 1)
    assert drift(one, three) == drift(one, one) == 0
    assert summary([one, two], []).warnings == (
        "1 case changed between rounds by more than noise explains: naive float32 32×32×32 by 5.0%. "
        "Try fresh_process: a process for each case.",
    )


def test_a_case_counts_as_the_worst_of_its_rounds() -> None:
    good = record_of(case_run_of(), [1.0] * 10)
    bad, _ = case_run_of(round_number=1).without_figures("timeout", "Too slow.")
    assert summary([good, bad], []).by_status == {"timeout": 1}


def test_contended_and_throttled_measurements_are_warned_of() -> None:
    records = [
        record_of(case_run_of(problem=Problem(n, n, n, "float32")), [1.0] * 10, contended=True, throttled=n == 1)
        for n in range(1, 6)
    ]
    assert summary(records, []).warnings == (
        "5 of 5 measurements were taken while another process used the device: naive float32 1×1×1, "
        "naive float32 2×2×2, naive float32 3×3×3 and 2 more.",
        "1 of 5 measurements was taken while heat or a power brake held the clock down: naive float32 1×1×1.",
    )


def test_attempts_on_different_devices_give_a_warning() -> None:
    attempts = [AttemptInfo(attempt=n, worker="w", started_at="", found=0, device={"uuid": f"GPU-{n}"}) for n in (1, 2)]
    assert "Its attempts ran on different devices of the same model." in summary([], attempts).warnings


def test_roofs_are_kept_and_counted() -> None:
    lab = Lab(spec_of(kind="ceilings"))
    roofs = [
        Ceiling(name="dram_copy", unit="GB/s", value=10.0),
        Ceiling(name="l2_copy", unit="GB/s", value=None, reason="Not here."),
    ]

    class Runner(SimulatedRunner):
        def ceilings(self):  # type: ignore[no-untyped-def]
            yield from roofs

    outcome = benchmark(lab.claim(1), lab.ledger, Runner(), worker="w", check=lambda: None)
    assert outcome.summary.by_status == {"ok": 1, "skipped": 1}
    assert list(read_findings(lab.ledger.findings(lab.job_id)).ceilings) == roofs
    assert summary_of_ceilings(roofs, []).measurements == 2


def no_trouble(case: Case, number: int) -> None:
    """What most samples meet."""


def test_names_are_those_that_readers_look_for() -> None:
    lab = Lab(spec_of(timing={"rounds": 1, "warmup_ms": 0}))
    lab.attempt()
    assert record_name(0, expand(lab.spec, H200)[0].id) in lab.records()
