"""A benchmark's worker on a GPU is killed in the middle of a preset: nothing measured is lost or measured again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.benchmarks.findings import read_findings
from jobs.benchmarks.presets import PRESETS
from jobs.redis.embedded import EmbeddedServer
from tests.support.workers.killed import assert_resumed, kill_midway
from tests.support.workers.workers import WorkerBench, running_worker

SHORT = {"rounds": 1, "warmup_ms": 0, "min_samples": 3, "max_samples": 6, "min_time_s": 0, "timeout_s": 0.2}
CASES = 34 * 4  # sizes; two kernels in three configs, and cuBLAS as the baseline


@pytest.fixture(scope="module")
def bench(gpu: None, valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerBench]:
    with running_worker(valkey, tmp_path_factory.mktemp("killed"), device="gpu:0") as running:
        yield running


def test_a_killed_worker_of_a_preset_loses_no_measured_case_and_measures_none_twice(bench: WorkerBench) -> None:
    job_id = bench.submit_benchmark(timeout_s=300, **PRESETS["twenty-sizes"].fields({"timing": SHORT}))
    before = kill_midway(bench, job_id, "worker", after=80)
    job = bench.ended(job_id, timeout_s=120)
    assert_resumed(bench, job, before, "worker")
    records = read_findings(bench.measured(job_id)).records
    assert len(records) == len({each.case for each in records}) == CASES
    assert {each.status for each in records} == {"ok"} and all(each.gflops for each in records)
