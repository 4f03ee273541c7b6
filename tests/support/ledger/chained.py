"""Steps in the lives of jobs whose operands are the products of other jobs."""

from __future__ import annotations

from typing import Any

from jobs.errors import DeviceFault
from jobs.ledger.acceptance import Acceptance
from jobs.ledger.codec import job_error
from jobs.ledger.interface import Success
from jobs.ledger.messages import JobMessage
from jobs.models import MatmulRequest
from jobs.requests.job_matrices import JobMatrices
from tests.support.ledger.ledgers import Bench, new_job, outcome

PRODUCT = b"p" * 300
SMALL = JobMatrices(product_bytes=len(PRODUCT), ttl_s=60)


def submit(bench: Bench, a: str | None = None, b: str | None = None, **options: Any) -> JobMessage:
    _, message = bench.ledger.submit(new_job(a=a, b=b, **options), max_queued=999, max_queued_per_owner=999)
    assert message is not None
    return message


def succeed(bench: Bench, job_id: str, product: bytes | None = None) -> Acceptance:
    attempt = bench.ledger.get(job_id).record.attempt
    assert bench.ledger.claim(job_id, attempt, worker="worker", lease_s=6)
    return bench.ledger.succeed_all([Success(job_id, attempt, outcome(), product)])[0]


def fail(bench: Bench, job_id: str) -> None:
    attempt = bench.ledger.get(job_id).record.attempt
    assert bench.ledger.claim(job_id, attempt, worker="worker", lease_s=6)
    bench.ledger.fail(job_id, attempt, job_error(DeviceFault))


def error(bench: Bench, job_id: str) -> tuple[str, str]:
    found = bench.ledger.get(job_id).record.error
    assert found is not None and bench.state(job_id) == "failed"
    return found.type, found.detail


def operand(bench: Bench, job_id: str, name: str = "a") -> str | None:
    request = bench.ledger.get(job_id).record.request
    assert isinstance(request, MatmulRequest)
    return str(matrix) if (matrix := getattr(request, name).matrix) else None


def messages(bench: Bench) -> int:
    """In the broker's list; of the ledger in memory, jobs that have a place in the queue."""
    if bench.clock.client is None:
        return bench.ledger.depths(["cpu"])["cpu"].waiting
    found: Any = bench.clock.client.llen(f"{bench.clock.prefix}broker:cpu")
    return int(found)
