"""Many jobs at once, straight into the ledger: by HTTP they would take minutes."""

from __future__ import annotations

from jobs.models import ANONYMOUS, MatmulRequest, NewJob
from jobs.requests.operands import OperandRef, RandomSpec
from tools.harness.api import Api

LIMIT = 100_000


def fill(api: Api, count: int, *, kernel: str = "cpu_blas") -> list[str]:
    """Products that wait, oldest first; their ids."""
    operand = OperandRef(source="random", random=RandomSpec(shape=(2, 2), seed=1), dtype="float32", shape=(2, 2))
    request = MatmulRequest(a=operand, b=operand, kernel=kernel, accuracy="fp32")
    new = [NewJob(owner=ANONYMOUS, queue="cpu", timeout_s=60, request=request) for _ in range(count)]
    for job in new:
        api.ledger.submit(job, max_queued=LIMIT, max_queued_per_owner=LIMIT)
    return [job.id for job in new]
