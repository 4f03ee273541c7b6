"""The parts of the ledger that are only for the sweeper: fairness between owners within a queue
(lua/common_fairness.lua), moving jobs from one queue to another, and what a clock that was set back left behind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import redis

from jobs.redis.client import translated
from jobs.redis.clock import microseconds

SET_BACK_AT_ONCE = 1000  # jobs


class FairQueues(ABC):
    """Shares each queue fairly between owners."""

    @abstractmethod
    def refill(self, workers: Mapping[str, int]) -> int:
        """Sets how many workers consume each of these queues, and so how many messages of one owner may wait there (at
        least one; without keys, all). Sends the messages that may now be sent and returns their number.

        Raises StoreUnavailable."""

    @abstractmethod
    def others_wait(self, queue: str, owners: Collection[str]) -> bool:
        """Whether jobs of other owners wait in the queue. Without keys there are none. Raises StoreUnavailable."""


class RedisFairQueues(FairQueues):
    """The same in Redis."""

    _client: redis.Redis
    _prefix: str
    _run: Callable[..., Any]
    _messages: tuple[str, str]

    def refill(self, workers: Mapping[str, int]) -> int:
        flat = [part for queue_and_count in workers.items() for part in queue_and_count]
        return int(self._run("refill", *flat, *self._messages))

    @translated()
    def others_wait(self, queue: str, owners: Collection[str]) -> bool:
        found: Any = self._client.hkeys(f"{self._prefix}window:{queue}")
        return any(owner.decode() not in owners for owner in found)


class SettableClock(ABC):
    """A ledger whose clock may be set back. Times of before then lie ahead of it, by an hour perhaps. For so long the
    job of a dead worker would not be taken back, and a job that ends would count as older than those before it."""

    @abstractmethod
    def clock_set_back(self, *, lease_s: float) -> None:
        """Brings times nearer that lie further ahead than the clock allows: leases end in `lease_s` at the latest, and
        jobs that ended have ended by now. Changes nothing if the clock was not set. Raises StoreUnavailable.
        """


class RedisSettableClock(SettableClock):
    """The same in Redis."""

    _run: Callable[..., Any]

    def clock_set_back(self, *, lease_s: float) -> None:
        while int(self._run("set_back", microseconds(lease_s), SET_BACK_AT_ONCE)) >= SET_BACK_AT_ONCE:
            pass  # lets other steps run in between


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A queued job. `request`: its JSON, as any version may have written it."""

    job_id: str
    attempt: int
    request: bytes


class Moves:
    """Moves jobs between queues. `run` runs the ledger's scripts; `messages` are the arguments with which they send
    messages. Raises StoreUnavailable.
    """

    def __init__(self, run: Callable[..., Any], messages: tuple[str, str]) -> None:
        self._run = run
        self._messages = messages

    def waiting(self, queue: str, *, after: str | None, limit: int) -> tuple[str | None, Sequence[QueuedJob]]:
        """Jobs of a queue in order, and the position to continue from; None after the last."""
        last, *found = self._run("queued", queue, "-inf" if after is None else f"({after}", limit)
        jobs = [QueuedJob(job_id.decode(), int(attempt), request) for job_id, attempt, request in found]
        return last.decode() or None, jobs

    def move(self, job: QueuedJob, *, source: str, target: str) -> bool:
        """Moves a job; False if it is no longer queued there under that attempt."""
        return bool(self._run("move", job.job_id, job.attempt, source, target, *self._messages))
