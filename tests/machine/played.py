"""What a state machine has played, counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from jobs.models import Job
from tests.support.ledger.lives import is_waiting


@dataclass
class Played:
    """What was done, over any number of lives. Calls and cancels are counted by whether they changed anything."""

    lives: int = 0
    left_to_others: int = 0  # jobs that a worker did not get, because it had made them wrong
    looks: int = 0  # at all that must hold: before the first step of a life, and after each
    calls: Counter[tuple[str, bool]] = field(default_factory=Counter)  # by verb
    cancels: Counter[tuple[str, bool]] = field(default_factory=Counter)  # by the state of the job before

    @property
    def steps(self) -> int:
        return self.looks - self.lives

    def add(self, other: Played) -> None:
        self.lives, self.looks = self.lives + other.lives, self.looks + other.looks
        self.left_to_others += other.left_to_others
        self.calls.update(other.calls)
        self.cancels.update(other.cancels)


def has_effect(result: Any) -> bool:
    """Whether a ledger's answer says so; that of a question says whether there was something."""
    if isinstance(result, tuple) and result and isinstance(result[0], type):
        return False  # an error, and its detail
    return bool(result) and not (isinstance(result, tuple) and "already_cancelled" in result)


def state_of(job: Job | None) -> str:
    if job is None:
        return "unknown"
    return "waits for another job" if is_waiting(job) else job.record.state.value
