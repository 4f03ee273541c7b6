"""Handles full stores and disks: attempts that find no room, and a Redis that cannot persist its changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from jobs.models import JobError
from jobs.redis.clock import microseconds
from jobs.redis.connections import Connections
from jobs.redis.replicas import Mark, ReplicaWait
from jobs.states import JobState


class GivesBack(ABC):
    """The part of a ledger that handles these cases."""

    @abstractmethod
    def give_back(self, job_id: str, attempt: int, error: JobError, *, timeout_s: float) -> JobState | None:
        """running → queued, at the end of the queue, with attempt + 1 but without counting a run; or → failed with
        `error`, once `timeout_s` have passed since the job was first given back after its submission or redrive.
        Returns the new state; None if the attempt no longer owns the job.
        """

    @abstractmethod
    def check_written(self, *marks: Mark) -> None:
        """Raises StoreUnavailable if a change that was answered before this call would not survive a crash of the
        store, or a failover to a replica. `marks`, which the changes left in their jobs, reveal a failover in between.
        """

    @property
    @abstractmethod
    def later_steps_tell(self) -> bool:
        """Whether a step that is sent after a change was answered, and is not refused, tells as much of this change as
        `check_written`.
        """

    @property
    @abstractmethod
    def connections_opened(self) -> int:
        """How often it connected to the store, which may have begun anew each time, without changes of before."""


class RedisGivesBack(GivesBack):
    """The same in Redis."""

    _run: Callable[..., Any]
    _messages: tuple[str, str]
    _connections: Connections
    _replicas: ReplicaWait | None

    @abstractmethod
    def _run_on(self, script: str, job_id: str, *args: str | bytes | int) -> Any: ...

    def give_back(self, job_id: str, attempt: int, error: JobError, *, timeout_s: float) -> JobState | None:
        about = error.model_dump_json(), error.type, microseconds(timeout_s)
        outcome: str = self._run_on("give_back", job_id, attempt, *about, *self._messages)[0].decode()
        return None if outcome == "stale" else JobState(outcome)

    @property
    def later_steps_tell(self) -> bool:
        return self._replicas is None or not self._replicas.waits

    @property
    def connections_opened(self) -> int:
        return self._connections.opened

    def check_written(self, *marks: Mark) -> None:
        self._run("written")
        if self._replicas is not None:
            self._replicas.wait(*marks)
