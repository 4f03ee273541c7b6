"""Requeues the jobs of a worker's child process as soon as its parent sees that it died. Otherwise the sweeper does so
once the leases expire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import redis

from jobs.errors import TimeLimitExceeded, WorkerLost
from jobs.ledger.codec import job_error
from jobs.ledger.messages import MessageFormat
from jobs.ledger.redis import LUA_DIR
from jobs.ledger.unreadable import lost_attempt
from jobs.matrices.index import LUA_DIR as MATRICES_LUA_DIR
from jobs.redis.scripts import SERVER_CLOCK, RedisScripts
from jobs.states import JobState
from jobs.tracing.spans import LostAttempt


@dataclass(frozen=True, slots=True)
class TakenBack:
    """A requeued job, and the attempt that was lost."""

    job_id: str
    attempt: int
    state: JobState
    trace: str = field(default="", compare=False)
    lost: LostAttempt | None = field(default=None, compare=False)  # None where it had not begun


class EndedChildren:
    """Raises StoreUnavailable, StoreFull. `clock` is for tests (`RedisScripts`)."""

    def __init__(self, client: redis.Redis, *, prefix: str, messages: MessageFormat, clock: str = SERVER_CLOCK) -> None:
        self._messages = messages.lists, messages.template
        self._run = RedisScripts(client, prefix, LUA_DIR, clock=clock, after=MATRICES_LUA_DIR).run

    def take_back(self, worker: str, *, max_attempts: int, messages: Sequence[str] = ()) -> Sequence[TakenBack]:
        """Takes back every job that this worker runs according to the ledger: each is queued again, or failed after
        `max_attempts` runs. A job that shared its child with others gets a second run in any case. `messages` (`<job
        id>.<attempt>`) had been fetched: if a job still waits, its message is sent again. Call this only while no
        process of this worker takes jobs.
        """
        lost, late = job_error(WorkerLost), job_error(TimeLimitExceeded)
        errors = (lost.model_dump_json(), lost.type, late.model_dump_json(), late.type)
        taken: Any = self._run("child_ended", worker, max_attempts, *errors, *messages, *self._messages)
        return [
            TakenBack(job_id.decode(), int(attempt), JobState(state.decode()), last[0].decode(), lost_attempt(last))
            for job_id, attempt, state, *last in taken
        ]
