"""Fairness between owners in each queue: what the sweeper asks of a ledger. See lua/common_fairness.lua."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any


class FairQueues(ABC):
    """A part of the ledger."""

    @abstractmethod
    def refill(self, workers: Mapping[str, int]) -> int:
        """Sets how many workers take from each of these queues, which is how many messages of one owner may wait there
        (at least one; of an open server all), and sends what may be sent now; how many messages.

        Raises StoreUnavailable."""


class RedisFairQueues(FairQueues):
    """The same in Redis."""

    _run: Callable[..., Any]
    _messages: tuple[str, str]

    def refill(self, workers: Mapping[str, int]) -> int:
        flat = [part for queue_and_count in workers.items() for part in queue_and_count]
        return int(self._run("refill", *flat, *self._messages))
