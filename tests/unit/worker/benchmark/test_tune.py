"""The `tune` kind on a ledger in memory, with a measurer that computes times instead of taking them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.benchmarks.records import CaseRecord, Samples
from jobs.benchmarks.spec import BenchmarkSpec, TimingSpec
from jobs.errors import JobFailed
from jobs.fleet.workers import DeviceInfo
from jobs.ledger.interface import Claimed
from jobs.models import ANONYMOUS, NewJob
from kernels.catalog import BY_NAME
from kernels.resources import records_of
from tests.support.ledger.ledgers import Bench, memory_bench
from worker.benchmark.case_run import CaseRun, Check, Result
from worker.benchmark.run import BenchmarkRun
from worker.benchmark.search import FINALISTS, halving_rounds
from worker.benchmark.tune import HALVING_SAMPLES, halving_timing, tune

RECORDED = json.loads((Path(__file__).parents[2] / "data" / "h200_catalogue.json").read_text())
H200 = DeviceInfo.model_validate(RECORDED["device"])
CPU = DeviceInfo(name="A CPU", device_class="cpu")


class Interrupted(Exception):
    """The worker is gone."""


class Computed:
    """Takes no time: larger tiles are faster, those of 16 steps of k do not compile."""

    def __init__(self, lasts: int = 10**6) -> None:
        self.case_runs: list[CaseRun] = []
        self.lasts = lasts

    def measure(self, case_run: CaseRun, check: Check) -> Result:
        if len(self.case_runs) == self.lasts:
            raise Interrupted
        self.case_runs.append(case_run)
        if case_run.case.config.get("block_k") == 16:
            return case_run.without_figures("compile_error", "It does not compile.")
        kernel_ms = 1 / (1 + sum(case_run.case.config.values()))
        return case_run.record("ok", kernel_ms=kernel_ms, samples=case_run.timing.max_samples), Samples()

    def seen(self) -> list[tuple[int, str]]:
        return [(case_run.round, case_run.case.id) for case_run in self.case_runs]


def claimed(bench: Bench, **spec: Any) -> Claimed:
    request = BenchmarkSpec.model_validate({"kind": "tune", "shapes": [512]} | spec)
    job = NewJob(kind="benchmark", owner=ANONYMOUS, queue="bench-a-gpu", timeout_s=600.0, request=request)
    _, message = bench.ledger.submit(job, max_queued=10, max_queued_per_owner=10)
    assert message is not None
    found = bench.ledger.claim(message.job_id, message.attempt, worker="worker", lease_s=6.0)
    assert found is not None
    return found


def tuned(
    bench: Bench, job: Claimed, measurer: Computed, device: DeviceInfo = H200
) -> dict[tuple[int, str], CaseRecord]:
    spec = job.job.record.request
    assert isinstance(spec, BenchmarkSpec)
    run = BenchmarkRun(job, spec, device, bench.ledger, measurer, lambda: None)
    tune(run)
    progress = bench.ledger.get(job.job.id).record.progress
    assert progress.done == progress.total == len(run.records)
    return run.records


def test_finalists_and_baseline_are_timed_together_in_full() -> None:
    bench, measurer = memory_bench(), Computed()
    records = tuned(bench, claimed(bench, kernels=["vectorized", "shared_tiled"]), measurer)
    full = {(record.round, record.kernel) for record in records.values() if record.round < 2}
    assert full == {(n, kernel) for n in (0, 1) for kernel in ("vectorized", "shared_tiled", "cublas")}
    of_vectorized = {r.case: r for r in records.values() if r.kernel == "vectorized" and r.round < 2}
    assert len(of_vectorized) == FINALISTS
    assert max(sum(r.config.values()) for r in records.values() if r.status == "ok" and r.kernel == "vectorized") in {
        sum(r.config.values()) for r in of_vectorized.values()
    }
    assert all(case_run.timing == TimingSpec() for case_run in measurer.case_runs if case_run.round < 2)
    assert {case_run.case.kernel for case_run in measurer.case_runs if case_run.round >= 2} == {"vectorized"}


def test_configs_that_fail_are_records_and_leave_the_race() -> None:
    bench = memory_bench()
    records = tuned(bench, claimed(bench, kernels=["vectorized"]), Computed())
    failed = [record for record in records.values() if record.status == "compile_error"]
    assert failed and {(record.round, record.config["block_k"]) for record in failed} == {(2, 16)}


def test_heats_take_few_samples_and_more_in_each() -> None:
    bench, measurer = memory_bench(), Computed()
    tuned(bench, claimed(bench, kernels=["naive"]), measurer)
    samples = {case_run.round: case_run.timing.max_samples for case_run in measurer.case_runs if case_run.round >= 2}
    assert samples == {2 + number: HALVING_SAMPLES << number for number in range(len(halving_rounds(24)))}
    short = halving_timing(TimingSpec(max_samples=12), 3)
    assert (short.min_samples, short.max_samples, short.min_time_s) == (12, 12, 0.0)


def test_another_attempt_measures_nothing_again() -> None:
    bench = memory_bench()
    whole = Computed()
    tuned(bench, claimed(bench, kernels=["naive", "vectorized"]), whole)
    job, first, second = claimed(bench, kernels=["naive", "vectorized"]), Computed(lasts=30), Computed()
    with pytest.raises(Interrupted):
        tuned(bench, job, first)
    kept = dict(bench.ledger.findings(job.job.id))
    tuned(bench, job, second)
    assert first.seen() + second.seen() == whole.seen()
    records = {name: text for name, text in kept.items() if name.startswith("record:")}
    assert len(records) == 30
    assert records.items() <= bench.ledger.findings(job.job.id).items()


def test_spilling_configs_are_skipped_with_the_reason() -> None:
    table = records_of("register_tiled")
    assert table is not None
    bench = memory_bench()
    records = tuned(bench, claimed(bench, kernels=["register_tiled"]), Computed())
    skipped = [record for record in records.values() if record.status == "skipped"]
    assert skipped and all("for sm_90 it spills" in (record.reason or "") for record in skipped)
    for record in records.values():
        if record.kernel == "register_tiled":
            found = table.find(record.config, "float32")
            assert found is not None
            assert found.usage["sm_90"].spills == (record.status == "skipped")


def test_exhaustive_times_all_in_full_and_says_what_the_budget_left_out() -> None:
    bench, measurer = memory_bench(), Computed()
    records = tuned(
        bench, claimed(bench, kernels=["register_tiled"], tune={"strategy": "exhaustive", "budget": 80}), measurer
    )
    configs = len(list(BY_NAME["register_tiled"].configs()))
    left_out = [record for record in records.values() if record.status == "skipped"]
    assert len(left_out) == configs - 80
    assert all("budget of 80 configs" in (record.reason or "") for record in left_out)
    assert len(measurer.case_runs) == 2 * (80 + 1)


def test_named_configs_are_the_whole_space() -> None:
    bench, measurer = memory_bench(), Computed()
    tuned(bench, claimed(bench, kernels=[{"kernel": "shared_tiled", "configs": [{"tile": 8}, {"tile": 16}]}]), measurer)
    assert {case_run.case.config.get("tile") for case_run in measurer.case_runs} == {8, 16, None}


def test_a_library_has_nothing_to_search_for() -> None:
    bench, measurer = memory_bench(), Computed()
    tuned(bench, claimed(bench, kernels="ladder"), measurer, CPU)
    assert [(case_run.case.kernel, case_run.round) for case_run in measurer.case_runs] == [
        ("cpu_blas", 0),
        ("cpu_blas", 1),
    ]


def test_nothing_to_do_there_is_said_in_a_sentence() -> None:
    bench = memory_bench()
    nothing = BenchmarkSpec(kind="tune", shapes=(512,)).model_copy(update={"shapes": ()})
    run = BenchmarkRun(claimed(bench), nothing, H200, bench.ledger, Computed(), lambda: None)
    with pytest.raises(JobFailed, match="No kernel that runs there"):
        tune(run)
