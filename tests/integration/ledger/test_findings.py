"""What a benchmark has found, on both ledgers."""

from __future__ import annotations

from jobs.benchmarks.records import BenchmarkSummary
from jobs.errors import DeviceFault
from jobs.ledger.codec import job_error
from jobs.ledger.interface import JobFilter
from jobs.models import BenchmarkOutcome, Progress
from tests.support.ledger.ledgers import Bench

FAULT = job_error(DeviceFault)


def test_findings_come_with_progress_and_outlive_the_attempt(bench: Bench) -> None:
    """In one step, from the attempt that runs the job alone; they go with the job."""
    message = bench.submit_benchmark()
    job_id, progress = message.job_id, Progress(done=1, total=2)

    def keep(attempt: int, name: str) -> bool:
        return bench.ledger.keep_findings(job_id, attempt, {name: name.encode()}, progress, {"case": name})

    assert not keep(1, "before the claim")
    assert bench.claim(message)
    assert keep(1, "first")
    assert bench.ledger.get(job_id).record.progress == progress
    event = bench.ledger.events(job_id)[-1]
    assert (event.event, event.data["found"]) == ("progress", {"case": "first"})
    assert event.data["progress"]["done"] == 1

    taken = bench.ledger.fail(job_id, 1, FAULT, max_attempts=3)
    assert taken is not None and taken.message is not None
    assert not keep(1, "late")
    assert bench.claim(taken.message)
    assert keep(2, "second")
    assert bench.ledger.findings(job_id) == {"first": b"first", "second": b"second"}

    summary = BenchmarkSummary(cases=2, measurements=2, by_status={"ok": 2}, attempts=2)
    assert bench.ledger.succeed(job_id, 2, BenchmarkOutcome(device="A CPU", summary=summary))
    record = bench.ledger.get(job_id).record
    assert (record.benchmark, record.device, record.kernel, record.timing) == (summary, "A CPU", None, None)
    assert [job.id for job in bench.all_jobs(JobFilter(kind="benchmark", q="two sizes"), limit=9)] == [job_id]
    bench.ledger.delete(job_id)
    assert bench.ledger.findings(job_id) == {}


def test_every_queue_that_had_a_job_is_known(bench: Bench) -> None:
    assert list(bench.ledger.queues()) == []
    bench.submit()
    bench.submit_benchmark()
    assert list(bench.ledger.queues()) == ["bench-a-cpu", "cpu"]
