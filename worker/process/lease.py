"""The hold of a child on its job: renewed while it runs, given up when the ledger says so, ended when time is up.

A product in BLAS or on a GPU cannot be interrupted, so a child that must stop and does not is ended: Celery starts a
new one. A Redis that is away ends nothing. Only the ledger's answer, or the job's own time limit, does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
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
    """One thread for all jobs of the child, one after the other. `end` ends the process; tests pass their own."""

    def __init__(self, ledger: Ledger, settings: Settings, *, end: Callable[[int], None] = end_process) -> None:
        self._ledger = ledger
        self._settings = settings
        self._end = end
        self._held: _Held | None = None
        self._changed = Condition()
        Thread(target=self._run, name="lease", daemon=True).start()

    @contextmanager
    def hold(self, claimed: Claimed) -> Iterator[None]:
        """Keeps the lease as long as the context lasts."""
        now = time.monotonic()
        with self._changed:
            self._held = _Held(claimed, now + claimed.job.timeout_s, now + self._settings.heartbeat_s)
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._held = None

    def check(self) -> None:
        """Raises StaleAttempt where the job held is known to be lost."""
        held = self._held
        if held is not None and held.lost_at is not None:
            raise StaleAttempt

    def _run(self) -> None:
        while True:
            with self._changed:
                held = self._held
                if held is None:
                    self._changed.wait()
                    continue
                self._changed.wait(max(0.0, _next(held) - time.monotonic()))
                if self._held is not held:
                    continue
            self._attend(held)

    def _attend(self, held: _Held) -> None:
        """What is due for this job now."""
        now = time.monotonic()
        if held.lost_at is not None:
            if now >= held.lost_at + GRACE_S:
                self._end_child(held, EXIT_CALLED_OFF, "its job was called off")
        elif now >= held.ends_at:
            self._tell_time_is_up(held)
            self._end_child(held, EXIT_TIME_UP, "its job ran out of time")
        elif now >= held.renew_at:
            held.renew_at = now + self._settings.heartbeat_s
            self._renew(held)

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

    def _end_child(self, held: _Held, code: int, reason: str) -> None:
        with self._changed:
            if self._held is held:  # not while the next job runs
                log.warning(f"this process ends: {reason}", job=held.claimed.job.id)
                self._end(code)
                self._held = None


def _next(held: _Held) -> float:
    if held.lost_at is not None:
        return held.lost_at + GRACE_S
    return min(held.renew_at, held.ends_at)
