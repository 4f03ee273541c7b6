"""Fairness between owners in each queue: the part that the sweeper calls. See lua/common_fairness.lua."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any


class FairQueues(ABC):
    """A part of the ledger."""

    @abstractmethod
    def refill(self, workers: Mapping[str, int]) -> int:
        """Sets how many workers consume each of these queues, and so how many messages of one owner may wait there (at
        least one; without keys, all). Sends the messages that may now be sent and returns their number.

        Raises StoreUnavailable."""


class RedisFairQueues(FairQueues):
    """The same in Redis."""

    _run: Callable[..., Any]
    _messages: tuple[str, str]

    def refill(self, workers: Mapping[str, int]) -> int:
        flat = [part for queue_and_count in workers.items() for part in queue_and_count]
        return int(self._run("refill", *flat, *self._messages))
