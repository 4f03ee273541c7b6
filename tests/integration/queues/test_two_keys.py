"""A real worker, and a key whose jobs wait by the thousand: those of another key do not wait for them."""

from __future__ import annotations

from pathlib import Path

from jobs.models import MatmulRequest, NewJob
from jobs.redis.embedded import EmbeddedServer
from jobs.requests.operands import OperandRef, RandomSpec
from jobs.states import JobState
from tests.support.workers.workers import WorkerBench, until

FLOOD, FEW = 2000, 20


def job_of(owner: str) -> NewJob:
    """2×2 random operands, alone in its launch."""
    spec = RandomSpec(shape=(2, 2), dtype="float32")
    operand = OperandRef(source="random", random=spec, dtype="float32", shape=(2, 2))
    request = MatmulRequest(a=operand, b=operand, accuracy="fp32")
    return NewJob(owner=owner, queue="cpu", timeout_s=60, request=request)


def test_a_few_jobs_end_within_the_first_rounds_of_another_keys_thousands(
    valkey: EmbeddedServer, tmp_path: Path
) -> None:
    bench = WorkerBench(valkey, tmp_path)
    jobs = [job_of("flood") for _ in range(FLOOD)], [job_of("few") for _ in range(FEW)]
    for job in (*jobs[0], *jobs[1]):
        bench.ledger.submit(job, max_queued=10**6, max_queued_per_owner=10**6)
    last = jobs[1][-1].id
    try:
        bench.start()
        until(lambda: bench.ledger.get(last).record.state.is_terminal, timeout_s=60, what="the end of the few")
    finally:
        bench.stop()
    with bench.client:
        records = [[bench.ledger.get(job.id).record for job in each] for each in jobs]
    assert {record.state for record in records[1]} == {JobState.SUCCEEDED}
    begun = [record.started_at for record in records[1] if record.started_at]
    assert begun == sorted(begun)
    before = sum(record.started_at is not None and record.started_at < begun[-1] for record in records[0])
    assert before <= FEW + 1  # one for each of the few
