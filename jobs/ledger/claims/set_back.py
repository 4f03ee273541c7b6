"""Puts the ledger right after Redis' clock was set back. Times of before then lie ahead of it, by an hour perhaps. For
so long the job of a dead worker would not be taken back, and a job that ends would count as older than those before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from jobs.redis.clock import microseconds

BATCH = 1000  # jobs in one step


class SettableClock(ABC):
    """A ledger whose clock may be set."""

    @abstractmethod
    def clock_set_back(self, *, lease_s: float) -> None:
        """Brings times nearer that lie further ahead than the clock allows: leases end in `lease_s` at the latest, and
        jobs that ended have ended by now. Changes nothing if the clock was not set. Raises StoreUnavailable.
        """


class RedisSettableClock(SettableClock):
    """The same in Redis."""

    _run: Callable[..., Any]

    def clock_set_back(self, *, lease_s: float) -> None:
        while int(self._run("set_back", microseconds(lease_s), BATCH)) >= BATCH:
            pass  # lets other steps run in between
