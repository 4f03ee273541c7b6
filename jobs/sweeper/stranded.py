"""Moves jobs from the queue of a device class without live workers. For the sweeper."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import structlog
from pydantic import ValidationError

from jobs.fleet.workers import WorkerInfo
from jobs.ledger.queues import Moves, QueuedJob
from jobs.models import MatmulRequest
from jobs.queue import QUEUES
from jobs.stored import read_known
from kernels.selection.demands import may_serve

AUTO = "auto"
BATCH = 100  # jobs examined in one sweep, per queue

log = structlog.get_logger(__name__)


class StrandedJobs:
    """Moves `auto` jobs to a queue whose live workers have a kernel of the same accuracy class. Jobs that name a kernel
    wait for a worker that has it. `workers`: those that are live.

    For use by one thread. Raises StoreUnavailable.
    """

    def __init__(
        self,
        moves: Moves,
        workers: Callable[[], Sequence[WorkerInfo]],
        *,
        after_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._moves = moves
        self._workers = workers
        self._after_s = after_s
        self._clock = clock
        self._gone_since: dict[str, float] = {}
        self._seen: dict[str, str] = {}  # by queue, the position up to which its jobs were examined

    def sweep(self) -> int:
        """Continues where the last sweep ended; returns how many jobs it moved."""
        live = [worker for worker in self._workers() if worker.serves]
        served = {worker.queue for worker in live}
        moved = 0
        for queue in QUEUES:
            if queue in served:
                self._gone_since.pop(queue, None)
            elif self._clock() - self._gone_since.setdefault(queue, self._clock()) >= self._after_s:
                moved += self._empty(queue, live)
        return moved

    def _empty(self, queue: str, live: Sequence[WorkerInfo]) -> int:
        last, jobs = self._moves.waiting(queue, after=self._seen.pop(queue, None), limit=BATCH)
        if last is not None and len(jobs) == BATCH:
            self._seen[queue] = last
        targets = [(job, _queue_for(job, live)) for job in jobs]
        moved = [job for job, target in targets if target and self._moves.move(job, source=queue, target=target)]
        if moved:
            log.warning("jobs go to another queue, for no worker of theirs is left", queue=queue, jobs=len(moved))
        return len(moved)


def _queue_for(job: QueuedJob, live: Sequence[WorkerInfo]) -> str | None:
    """The queue of a live worker that may compute the job; None if there is none, or the job names a kernel."""
    try:
        request = read_known(MatmulRequest, job.request)
    except ValidationError:
        return None
    if request.kernel != AUTO:
        return None
    kernels = may_serve(request)
    return next((worker.queue for worker in live if worker.runs_one_of(kernels, request.a.dtype)), None)
