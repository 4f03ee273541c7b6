"""Whether changes that Redis has answered are also persistent: they may be lost by a crash or a failover."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from jobs.redis.connections import Connections
from jobs.redis.replicas import Mark, ReplicaWait
from jobs.redis.written import HELD_BACK_S, WrittenQuestion


class Durability(ABC):
    """The part of a ledger that knows which changes are persistent."""

    @abstractmethod
    def check_writable(self) -> None:
        """Raises StoreUnavailable if the store takes no changes, or too few replicas follow it."""

    @abstractmethod
    def check_written(self, *marks: Mark, wait_s: float = HELD_BACK_S) -> None:
        """Raises StoreUnavailable if a change that was answered before this call would not survive a crash of the
        store, or a failover to a replica. Changes that the store holds back for the sync of its file are waited for.
        `marks`, which the changes left in their jobs, reveal a failover in between.
        """

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
    def connections_opened(self) -> int:
        return self._connections.opened

    def check_writable(self) -> None:
        self._run("written")
        if self._replicas is not None:
            self._replicas.wait()

    def check_written(self, *marks: Mark, wait_s: float = HELD_BACK_S) -> None:
        question = WrittenQuestion(wait_s)
        while (pause_s := question.pause_s(self._run("written"))) is not None:
            time.sleep(pause_s)
        if self._replicas is not None:
            self._replicas.wait(*marks)
