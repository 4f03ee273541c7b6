"""A worker killed in the middle of a benchmark, and what must be left of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from jobs.benchmarks.findings import read_findings
from jobs.models import Job
from jobs.states import JobState
from tests.support.workers.workers import WorkerBench, until

Killed = Literal["child", "worker"]


def kill_midway(bench: WorkerBench, job_id: str, killed: Killed, *, after: int) -> dict[str, bytes]:
    """SIGKILL once `after` findings are kept, and a worker again; what was measured before."""
    until(lambda: len(bench.measured(job_id)) >= after, timeout_s=60, what=f"the keeping of {after} findings")
    child = bench.child()
    child.suspend()  # nothing is kept between this look and the kill
    before = bench.measured(job_id)
    assert bench.ledger.get(job_id).record.state is JobState.RUNNING
    if killed == "child":
        child.kill()
    else:
        bench.stop()
        bench.start()
    return before


def assert_resumed(bench: WorkerBench, job: Job, before: Mapping[str, bytes], killed: Killed) -> None:
    """The second attempt measured what was missing, left the rest as it was, and says what it found."""
    assert (job.record.state, job.record.attempt) == (JobState.SUCCEEDED, 2), job.record.error
    after = bench.measured(job.id)
    assert {name: after[name] for name in before} == before
    found, earlier = read_findings(bench.ledger.findings(job.id)), read_findings(before)
    assert [(each.attempt, each.found) for each in found.attempts] == [(1, 0), (2, len(earlier.records))]
    workers = [attempt.worker for attempt in found.attempts]
    assert (workers[0] == workers[1]) == (killed == "child")
    first = {(each.round, each.case) for each in found.records if each.attempt == 1}
    assert first == {(each.round, each.case) for each in earlier.records}
    progress, summary = job.record.progress, job.record.benchmark
    assert progress.done == progress.total == len(found.records)
    assert summary is not None and summary.measurements == len(found.records) and summary.attempts == 2
    assert summary.warnings[0].startswith(f"It took 2 attempts: {len(first)} of {len(found.records)} measurements ")
