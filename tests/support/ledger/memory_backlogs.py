"""Whose job is next: the twin of `lua/common_fairness.lua`, which counts what that one keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from jobs.ledger.codec import JobRow
from jobs.models import ANONYMOUS

ELSEWHERE_US = 300_000_000  # as in lua/claim.lua


@dataclass
class Backlogs(ABC):
    """The part of the table that is about them."""

    clock: Callable[[], int]
    places: dict[str, int] = field(default_factory=dict, kw_only=True)  # job id → its number when it was queued
    sent_at: dict[str, int] = field(default_factory=dict, kw_only=True)  # job id → when it left the backlog, µs
    wrong_on: dict[str, list[str]] = field(default_factory=dict, kw_only=True)  # job id → workers, the last one last
    workers: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int), kw_only=True)  # by queue

    @abstractmethod
    def waiting(self, queue: str) -> list[JobRow]: ...

    @abstractmethod
    def next_number(self, queue: str) -> int: ...

    def backlog(self, queue: str, owner: str) -> list[JobRow]:
        return [row for row in self.waiting(queue) if row.owner == owner and row.number < 0]

    def sent(self, queue: str, owner: str) -> int:
        return sum(row.owner == owner and row.number > 0 for row in self.waiting(queue))

    def window(self, queue: str) -> int:
        return max(1, self.workers[queue])

    def number_of(self, row: JobRow) -> int:
        """Of a job that comes into its queue."""
        number = self.places[row.id] = self.next_number(row.queue)
        if row.owner == ANONYMOUS or not (sent := self.sent(row.queue, row.owner)):
            return number
        may_be_sent = sent < self.window(row.queue) and not self.backlog(row.queue, row.owner)
        return number if may_be_sent else -number

    def send_following(self, gone: Sequence[JobRow]) -> None:
        """After these left their queue."""
        for queue, owner in dict.fromkeys((row.queue, row.owner) for row in gone if row.number):
            self.send_next(queue, owner)

    def send_next(self, queue: str, owner: str) -> int:
        backlog, free = self.backlog(queue, owner), self.window(queue) - self.sent(queue, owner)
        for row in backlog[: max(0, free)]:
            row.number = row.first = self.next_number(queue)
            row.published_us = self.sent_at[row.id] = self.clock()
        return min(len(backlog), max(0, free))

    def refill(self, workers: Mapping[str, int]) -> int:
        self.workers.update(workers)
        owners = [(queue, row.owner) for queue in workers for row in self.waiting(queue)]
        return sum(self.send_next(*each) for each in dict.fromkeys(owners))

    def others_wait(self, queue: str, owners: Collection[str]) -> bool:
        return any(row.owner not in {ANONYMOUS, *owners} and row.number > 0 for row in self.waiting(queue))

    def made_wrong(self, row: JobRow, worker: str) -> None:
        others = [other for other in self.wrong_on.get(row.id, []) if other != worker]
        self.wrong_on[row.id] = [*others, worker]

    def is_for_others(self, row: JobRow, worker: str) -> bool:
        wrong_on, workers = self.wrong_on.get(row.id, []), self.workers[row.queue]
        if worker not in wrong_on or self.clock() - row.queued_us > ELSEWHERE_US:
            return False
        return workers > len(wrong_on) or (wrong_on[-1] == worker and workers > 1)

    def place(self, row: JobRow) -> int:
        """From 1; of a job in a backlog at most, if nobody sends more."""
        waiting = self.waiting(row.queue)
        if row.number > 0:
            return waiting.index(row) + 1
        before = self.backlog(row.queue, row.owner).index(row)
        owners = {other.owner for other in waiting if other.number > 0}
        return min((self.window(row.queue) + before + 1) * len(owners), len(waiting))
