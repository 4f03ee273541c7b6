"""Updates queues as workers come and go. For the sweeper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jobs.fleet.registry import WorkerRegistry
from jobs.fleet.workers import WorkerInfo
from jobs.ledger.interface import Ledger


class LiveQueues:
    """For use by one thread."""

    def __init__(self, ledger: Ledger, registry: WorkerRegistry) -> None:
        self._ledger = ledger
        self._registry = registry

    def sweep(self) -> None:
        """Tells the ledger how many workers consume each queue. Raises StoreUnavailable."""
        workers = [worker for worker in self._registry.live() if worker.serves]
        self._ledger.refill(workers_by_queue(workers, self._ledger.queues()))


def workers_by_queue(workers: Sequence[WorkerInfo], queues: Sequence[str]) -> dict[str, int]:
    """The number of workers that consume each of these queues."""
    taking = Counter(queue for worker in workers for queue in (worker.queue, worker.bench_queue))
    return {queue: taking[queue] for queue in queues}
