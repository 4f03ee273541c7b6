"""Idempotency-Keys in this process's memory."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

from jobs.errors import IdempotencyKeyInUse, IdempotencyKeyReused
from jobs.ledger.interface import IdempotencyKey, Ledger
from jobs.redis.clock import microseconds
from jobs.redis.replicas import Mark
from tests.support.ledger.memory_table import Binding, JobTable


class MemoryKeys(Ledger):
    """The part of the ledger that is about keys. `clock` gives microseconds since the epoch."""

    def __init__(self, clock: Callable[[], int], idempotency_ttl_s: float) -> None:
        self._clock = clock
        self._idempotency_ttl_us = microseconds(idempotency_ttl_s)
        self._lock = RLock()
        self._table = JobTable(clock)
        self._held: dict[tuple[str, str], tuple[str, int]] = {}  # (owner, key) → its holder, until when in µs

    def hold_key(self, owner: str, key: str, *, holder: str, hold_s: float) -> str | None:
        with self._lock:
            other, until_us = self._held.get((owner, key), (holder, 0))
            if other != holder and until_us > self._clock():
                raise IdempotencyKeyInUse
            self._held[owner, key] = (holder, self._clock() + microseconds(hold_s))
            bound = self._table.binding(owner, key)
            return bound.job_id if bound else None

    def release_key(self, owner: str, key: str, *, holder: str) -> None:
        with self._lock:
            if self._held.get((owner, key), ("", 0))[0] == holder:
                del self._held[owner, key]

    def bound_job(self, owner: str, idempotency: IdempotencyKey) -> str | None:
        with self._lock:
            bound = self._table.binding(owner, idempotency.key)
            if bound and bound.fingerprint != idempotency.fingerprint:
                raise IdempotencyKeyReused
            return bound.job_id if bound else None

    def bind_key(self, owner: str, idempotency: IdempotencyKey, subject: str) -> None:
        with self._lock:
            until = self._clock() + self._idempotency_ttl_us
            self._table.bindings[owner, idempotency.key] = Binding(subject, idempotency.fingerprint, until)

    def clock_set_back(self, *, lease_s: float) -> None:
        with self._lock:
            latest_us = self._clock() + microseconds(lease_s)
            self._table.leases = {job_id: min(ends, latest_us) for job_id, ends in self._table.leases.items()}

    def check_writable(self) -> None:
        """It writes nothing."""

    def check_written(self, *marks: Mark, wait_s: float = 0.0) -> None:
        """It writes nothing."""

    @property
    def connections_opened(self) -> int:
        return 0
