"""What the ledger in this process's memory tells of all jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobs.ledger.interface import QueueDepth
from jobs.states import JobState
from tests.support.ledger.memory_keys import MemoryKeys


class MemoryFigures(MemoryKeys):
    """The part of the ledger that counts and lists."""

    def findings(self, job_id: str) -> Mapping[str, bytes]:
        with self._lock:
            return dict(self._table.findings.get(job_id, {}))

    def queues(self) -> Sequence[str]:
        with self._lock:
            return sorted(self._table.numbers)

    def dead_letters(self, *, owner: str | None = None, limit: int = 100) -> Sequence[str]:
        with self._lock:
            newest = sorted(((at, job_id) for job_id, at in self._table.dead.items()), reverse=True)
            return [job_id for _, job_id in newest if owner in (None, self._table.rows[job_id].owner)][:limit]

    def depths(self, queues: Sequence[str]) -> Mapping[str, QueueDepth]:
        with self._lock:
            return {queue: self._table.depth(queue) for queue in queues}

    def counts(self) -> Mapping[JobState, int]:
        with self._lock:
            return {state: sum(row.state is state for row in self._table.rows.values()) for state in JobState}
