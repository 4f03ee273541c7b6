"""Fairness between owners in each queue: the part that the sweeper calls. See lua/common_fairness.lua."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any

import redis

from jobs.redis.client import translated


class FairQueues(ABC):
    """A part of the ledger."""

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
