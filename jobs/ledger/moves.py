"""Moving jobs from one queue to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queued job. `request`: its JSON, as any version may have written it."""

    job_id: str
    attempt: int
    request: bytes


class Moves:
    """`run` runs the ledger's scripts; `messages` are the arguments with which they send messages. Raises
    StoreUnavailable.
    """

    def __init__(self, run: Callable[..., Any], messages: tuple[str, str]) -> None:
        self._run = run
        self._messages = messages

    def waiting(self, queue: str, *, after: str | None, limit: int) -> tuple[str | None, Sequence[Waiting]]:
        """Jobs of a queue in order, and the position to continue from; None after the last."""
        last, *found = self._run("queued", queue, "-inf" if after is None else f"({after}", limit)
        jobs = [Waiting(job_id.decode(), int(attempt), request) for job_id, attempt, request in found]
        return last.decode() or None, jobs

    def move(self, job: Waiting, *, source: str, target: str) -> bool:
        """Moves a job; False if it is no longer queued there under that attempt."""
        return bool(self._run("move", job.job_id, job.attempt, source, target, *self._messages))
