"""What a benchmark has found, on both ledgers."""

from __future__ import annotations

from typing import Any

from jobs.benchmarks.records import BenchmarkSummary
from jobs.errors import DeviceFault
from jobs.ledger.codec import job_error
from jobs.ledger.interface import JobFilter
from jobs.ledger.redis import RedisLedger
from jobs.models import ANONYMOUS, BenchmarkOutcome, Progress
from jobs.redis.embedded import EmbeddedServer
from tests.support.ledger.ledgers import Bench, Clock, redis_ledger

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


def test_what_a_pinned_benchmark_is_charged_is_no_product_to_delete(valkey: EmbeddedServer, key_prefix: str) -> None:
    """Else it would be given back twice, and its owner could keep more than the bound."""
    with valkey.client() as client:
        bench = Bench(redis_ledger(client, key_prefix), Clock())
        ledger, message = bench.ledger, bench.submit_benchmark()
        assert isinstance(ledger, RedisLedger) and bench.claim(message)
        job_id = message.job_id
        assert ledger.keep_findings(job_id, 1, {"record:1": b"{}" * 50}, Progress(done=2, total=2), {})
        assert bench.succeed(message)

        def charged() -> dict[bytes, Any]:
            found: Any = client.hgetall(f"{key_prefix}matrices:bytes")
            return dict(found)

        assert ledger.scripts.run("pin", job_id, ANONYMOUS, 9, 4000, 4000) == [b"pinned"]
        pinned = charged()
        assert pinned == {b"all": b"100", b"of:anonymous": b"100"}
        assert not ledger.drop_product(job_id, 1, owner=ANONYMOUS)
        assert charged() == pinned
        assert ledger.scripts.run("unpin", job_id, ANONYMOUS) == [b"unpinned"]
        assert charged() == {}
