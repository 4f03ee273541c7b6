"""Operands that came with requests, once their jobs have succeeded. They are of no more use, and their claims went with
the jobs' success; what is not removed here is found by the store's sweep. They stay where a crash of Redis would take
the success back, for the jobs would run again. Redis is asked whether it would, once for many small ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

import structlog

from jobs.errors import MatmulError, StoreFull, StoreUnavailable
from jobs.formats.elements import matrix_bytes
from jobs.ledger.interface import Claimed, Ledger
from jobs.matrices.interface import MatrixStore
from jobs.redis.replicas import Mark
from jobs.requests.job_matrices import StoredOperand
from jobs.states import JobState

WAITING_BYTES = 4 << 20

log = structlog.get_logger(__name__)


class Spent(NamedTuple):
    """Operands of a job, and how often the ledger had connected when it told of the job's success."""

    job_id: str
    operands: Sequence[StoredOperand]
    connections: int

    @property
    def bytes(self) -> int:
        return sum(matrix_bytes(operand.dtype, operand.shape) for operand in self.operands)


class SpentOperands:
    """For one child. Safe to share between threads."""

    def __init__(self, ledger: Ledger, store: MatrixStore) -> None:
        self._ledger, self._store = ledger, store
        self._waiting: list[Spent] = []
        self._lock = Lock()

    def ended(self, jobs: Sequence[Claimed]) -> None:
        """Takes the operands of jobs of whose success Redis has told."""
        now = self._ledger.connections_opened
        spent = [Spent(claimed.job.id, operands, now) for claimed in jobs if (operands := _inline(claimed))]
        with self._lock:
            self._waiting += spent
            waits = self._store.FINDS_LEFTOVERS and sum(each.bytes for each in self._waiting) <= WAITING_BYTES
        if not waits:
            self.clear_up()

    def clear_up(self) -> None:
        """Removes all that wait, unless Redis holds a job's success back. For when no success is to come soon."""
        with self._lock:
            spent, self._waiting = self._waiting, []
        if not spent:
            return
        try:
            self._ledger.check_written(*(Mark(each.job_id, "finished", minimum=1) for each in spent), wait_s=0)
        except (StoreUnavailable, StoreFull) as error:
            log.info("operands of jobs that are done are kept: their end may not be on the disk", reason=error.type)
            with self._lock:
                self._waiting = spent + self._waiting
            return
        self._remove(spent)

    def _remove(self, spent: Sequence[Spent]) -> None:
        now = self._ledger.connections_opened
        certain = (each for each in spent if each.connections == now or self._has_succeeded(each.job_id))
        for operand in (operand for each in certain for operand in each.operands):
            try:
                self._store.drop(operand.id, operand.dtype, operand.shape)
            except (StoreUnavailable, StoreFull) as error:
                log.debug("an operand could not be removed", matrix=operand.id, reason=error.type)

    def _has_succeeded(self, job_id: str) -> bool:
        """For where Redis may have begun anew, without the job's success."""
        try:
            return self._ledger.get(job_id).record.state is JobState.SUCCEEDED
        except MatmulError:
            return False


def _inline(claimed: Claimed) -> Sequence[StoredOperand]:
    """The operands that came with the request and are in the store, each once: one may be both A and B."""
    found = {
        operand.matrix: StoredOperand(id=operand.matrix, dtype=operand.dtype, shape=operand.shape)
        for operand in claimed.job.record.operands
        if operand.source == "inline" and operand.matrix is not None
    }
    return [*found.values()]
