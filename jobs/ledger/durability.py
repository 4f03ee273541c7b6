"""Whether changes that Redis has answered are also persistent: they may be lost by a crash or a failover."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from jobs.redis.connections import Connections
from jobs.redis.replicas import Mark, ReplicaWait


class Durability(ABC):
    """The part of a ledger that knows which changes are persistent."""

    @abstractmethod
    def check_written(self, *marks: Mark) -> None:
        """Raises StoreUnavailable if a change that was answered before this call would not survive a crash of the
        store, or a failover to a replica. `marks`, which the changes left in their jobs, reveal a failover in between.
        """

    @property
    @abstractmethod
    def later_steps_confirm(self) -> bool:
        """Whether a later step that was answered, and not refused, confirms earlier changes as `check_written` does."""

    @property
    @abstractmethod
    def connections_opened(self) -> int:
        """How many connections to the store were opened. After each the store may lack changes made before it."""


class RedisDurability(Durability):
    """The same in Redis."""

    _run: Callable[..., Any]
    _connections: Connections
    _replicas: ReplicaWait | None

    @property
    def later_steps_confirm(self) -> bool:
        return self._replicas is None or not self._replicas.waits

    @property
    def connections_opened(self) -> int:
        return self._connections.opened

    def check_written(self, *marks: Mark) -> None:
        self._run("written")
        if self._replicas is not None:
            self._replicas.wait(*marks)
