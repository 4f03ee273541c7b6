"""The end of an attempt that found no room for its product: nothing was wrong with the job, so it waits again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from jobs.models import JobError
from jobs.states import JobState


class GivesBack(ABC):
    """The part of the ledger that does so."""

    @abstractmethod
    def give_back(self, job_id: str, attempt: int, error: JobError, *, patience_s: float) -> JobState | None:
        """running → queued, behind all others, with attempt + 1, and without a run counted; or → failed, with `error`,
        once `patience_s` have passed since the job was first given back after its submission or redrive.

        Its state then; None where the attempt no longer owns the job.
        """


def state_after(reply: Sequence[Any]) -> JobState | None:
    """What lua/give_back.lua replies."""
    outcome: str = reply[0].decode()
    return None if outcome == "stale" else JobState(outcome)
