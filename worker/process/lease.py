"""The hold of a child on its job: renewed while it runs, given up when the ledger says so, ended when time is up.

A product in BLAS or on a GPU cannot be interrupted, so a child that must stop and does not is ended: Celery starts a
new one. A Redis that is away ends nothing. Only the ledger's answer, or the job's own time limit, does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Thread

import structlog

from jobs.errors import MatmulError, StaleAttempt, TimeLimitExceeded
from jobs.ledger.interface import Claimed, Ledger
from jobs.models import JobError
from jobs.settings import Settings
from worker.device.retry import retry_until

GRACE_S = 0.2  # what a job that was called off has, to stop by itself
LAST_WORDS_S = 2.0  # how long the end of a job over its time is told to a Redis that does not answer
EXIT_CALLED_OFF, EXIT_TIME_UP, EXIT_FAULT, EXIT_NOT_READY = 64, 65, 66, 67

log = structlog.get_logger(__name__)


def end_process(code: int) -> None:
    """Ends this process now, whatever its other threads do."""
    os._exit(code)


@dataclass(slots=True)
class _Held:
    claimed: Claimed
    ends_at: float  # time.monotonic() of the job's time limit
    renew_at: float
    lost_at: float | None = None  # when the ledger said that it is not ours any more


class LeaseKeeper:
    """One thread for all jobs of the child: those of one launch together, one launch after the other. `end` ends the
    process; tests pass their own."""

    def __init__(self, ledger: Ledger, settings: Settings, *, end: Callable[[int], None] = end_process) -> None:
        self._ledger = ledger
        self._settings = settings
        self._end = end
        self._held: Sequence[_Held] = ()
        self._changed = Condition()
        Thread(target=self._run, name="lease", daemon=True).start()

    @contextmanager
    def hold(self, claimed: Sequence[Claimed]) -> Iterator[None]:
        """Keeps the leases as long as the context lasts."""
        now = time.monotonic()
        renew_at = now + self._settings.heartbeat_s
        with self._changed:
            self._held = [_Held(each, now + each.job.timeout_s, renew_at) for each in claimed]
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._held = ()

    def check(self, claimed: Claimed | None = None) -> None:
        """Raises StaleAttempt where this job, or any of those held, is known to be lost."""
        if any(held.lost_at is not None and claimed in (None, held.claimed) for held in self._held):
            raise StaleAttempt

    def _run(self) -> None:
        while True:
            with self._changed:
                held = self._held
                if not held:
                    self._changed.wait()
                    continue
                self._changed.wait(max(0.0, _next(held) - time.monotonic()))
                if self._held is not held:
                    continue
            self._attend(held)

    def _attend(self, held: Sequence[_Held]) -> None:
        """What is due for these jobs now."""
        now = time.monotonic()
        ours = [each for each in held if each.lost_at is None]
        if not ours and now >= _next(held):
            self._end_child(held, EXIT_CALLED_OFF, "its job was called off")
        if over := [each for each in ours if now >= each.ends_at]:
            for each in over:
                self._tell_time_is_up(each)
            self._end_child(held, EXIT_TIME_UP, "its job ran out of time")
        for each in ours:
            if now >= each.renew_at:
                each.renew_at = now + self._settings.heartbeat_s
                self._renew(each)

    def _renew(self, held: _Held) -> None:
        claimed = held.claimed
        try:
            if not self._ledger.renew(claimed.job.id, claimed.attempt, lease_s=self._settings.lease_s):
                held.lost_at = time.monotonic()
        except MatmulError as error:
            log.warning("the lease could not be renewed; trying again", job=claimed.job.id, reason=error.type)

    def _tell_time_is_up(self, held: _Held) -> None:
        job = held.claimed.job
        detail = f"The job ran longer than its time limit of {job.timeout_s:g} s; make it smaller or allow it more."
        error = JobError(type=TimeLimitExceeded.type, detail=detail)
        try:
            retry_until(lambda: self._ledger.fail(job.id, held.claimed.attempt, error), timeout_s=LAST_WORDS_S)
        except MatmulError:
            log.warning("the end of a job over its time could not be recorded; the sweeper will", job=job.id)

    def _end_child(self, held: Sequence[_Held], code: int, reason: str) -> None:
        with self._changed:
            if self._held is held:  # not while the next job runs
                log.warning(f"this process ends: {reason}", job=held[0].claimed.job.id)
                self._end(code)
                self._held = ()


def _next(held: Sequence[_Held]) -> float:
    """When something is due. A launch goes on as long as one of its jobs is ours."""
    ours = [min(each.renew_at, each.ends_at) for each in held if each.lost_at is None]
    return min(ours) if ours else max(each.lost_at or 0.0 for each in held) + GRACE_S
