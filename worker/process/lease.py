"""A child's leases on its jobs: renewed while the jobs run, dropped when the ledger says so, ended at the time limit. A
product in BLAS or on a GPU cannot be interrupted, so a child that must stop but does not is killed, and Celery starts a
new one. Its other jobs are handed back first, and run again alone. An unavailable Redis ends nothing: only the ledger's
answer, or a job's own time limit, does.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Condition, RLock, Thread

import structlog

from jobs.errors import MatmulError, StaleAttempt, TimeLimitExceeded, WorkerLost
from jobs.ledger.interface import Claimed, Ledger
from jobs.models import JobError
from jobs.settings import Settings
from worker.device.retry import retry_until
from worker.tracing.launches import Launches, log_fields

GRACE_S = 0.2  # time for a cancelled job to stop by itself
GRACE_BESIDE_OTHERS_S = 0.8  # the same, where ending it would end other jobs
LAST_WORDS_S = 2.0  # how long the end of a job is told to a Redis that does not answer
EXIT_CALLED_OFF, EXIT_TIME_UP, EXIT_FAULT, EXIT_NOT_READY, EXIT_QUARANTINED = OWN_EXITS = 64, 65, 66, 67, 68

log = structlog.get_logger(__name__)


def end_process(code: int) -> None:
    """Ends this process now, whatever its other threads do."""
    os._exit(code)


@dataclass(slots=True)
class _Held:
    claimed: Claimed
    began_at: float  # time.monotonic()
    ends_at: float  # of the job's time limit
    renew_at: float
    lost_at: float | None = None  # when the ledger said that this worker no longer owns it


class Hold:
    """The jobs of one launch. `waits`: the launch has not begun, so the jobs' time limits do not run yet and none of
    them may end the process."""

    def __init__(self, claimed: Sequence[Claimed], heartbeat_s: float, *, waits: bool = False) -> None:
        now = time.monotonic()
        self.held = [_Held(each, now, now + each.job.timeout_s, now + heartbeat_s) for each in claimed]
        self.waits = waits

    @property
    def ours(self) -> list[_Held]:
        return [each for each in self.held if each.lost_at is None]

    def check(self, claimed: Claimed | None = None) -> None:
        """Raises StaleAttempt if this job, or any of those held, is known to be lost."""
        for held in self.held:
            if held.lost_at is not None and claimed in (None, held.claimed):
                raise StaleAttempt

    def next_at(self, grace_s: float) -> float:
        """When something is due next. A launch continues as long as one of its jobs is still owned."""
        if self.waits:
            return min((each.renew_at for each in self.ours), default=math.inf)
        times = [min(each.renew_at, each.ends_at) for each in self.ours]
        return min(times) if times else max(each.lost_at or 0.0 for each in self.held) + grace_s


class LeaseKeeper:
    """One thread for all jobs of the child. `end` ends the process; tests pass their own."""

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings,
        *,
        launches: Launches | None = None,
        end: Callable[[int], None] = end_process,
    ) -> None:
        self._launches = launches or Launches(None, ledger)
        self._ledger = ledger
        self._settings = settings
        self._end = end
        self._holds: list[Hold] = []  # replaced, never changed
        self._lock = RLock()  # entered by itself: a Condition calls Python for it
        self._changed = Condition(self._lock)
        Thread(target=self._run, name="lease", daemon=True).start()

    def hold(self, claimed: Sequence[Claimed], *, waits: bool = False) -> AbstractContextManager[Hold]:
        """Keeps the leases of a launch's jobs as long as the context lasts; `waits` is as in `Hold`. The thread notices
        new jobs in time by itself: waking it takes longer than a small product."""
        return _Holding(self, claimed, waits=waits)

    def begin(self, claimed: Sequence[Claimed], *, waits: bool) -> Hold:
        """Like `hold`, until `end` is called."""
        heartbeat_s = self._settings.heartbeat_s
        hold = Hold(claimed, heartbeat_s, waits=waits)
        with self._lock:
            self._holds = [*self._holds, hold]
            if not waits and any([each.job.timeout_s < heartbeat_s for each in claimed]):
                self._changed.notify()
        return hold

    def end(self, hold: Hold) -> None:
        with self._lock:
            self._holds = [each for each in self._holds if each is not hold]

    def end_child(self, code: int, reason: str) -> None:
        """Ends the process. Other jobs that it holds are handed back first: they did nothing wrong."""
        with self._lock:
            ours = [held for hold in self._holds for held in hold.ours]
        about = log_fields([held.claimed for held in ours])
        log.warning(f"this process ends: {reason}", jobs_handed_back=len(ours), **about)
        lost = JobError(type=WorkerLost.type, detail="The worker that ran the job had to end for another job's sake.")
        for held in ours:
            self._record_end(held, lost, max_attempts=self._settings.max_attempts)
        self._launches.flush()
        self._end(code)

    def _run(self) -> None:
        while True:
            with self._lock:
                self._changed.wait(self._idle_s(time.monotonic()))
                holds = self._holds
            for hold in holds:
                self._attend(hold, _grace_s(holds))

    def _idle_s(self, now: float) -> float:
        """The time until something is due. A lease taken from now on is renewed after the heartbeat's interval."""
        due = (hold.next_at(_grace_s(self._holds)) - now for hold in self._holds)
        return max(0.0, min([self._settings.heartbeat_s, *due]))

    def _attend(self, hold: Hold, grace_s: float) -> None:
        """Does what is due for these jobs now."""
        now = time.monotonic()
        ours = hold.ours
        if not hold.waits and not ours and now >= hold.next_at(grace_s):
            self._end_for(hold, EXIT_CALLED_OFF, "its job was called off")
        if over := [each for each in ours if now >= each.ends_at and not hold.waits]:
            for each in over:
                self._record_timeout(each)
            self._end_for(hold, EXIT_TIME_UP, "its job ran out of time")
        for each in ours:
            if now >= each.renew_at:
                each.renew_at = now + self._settings.heartbeat_s
                self._renew(each)

    def _renew(self, held: _Held) -> None:
        claimed, ran_s = held.claimed, time.monotonic() - held.began_at
        try:
            if not self._ledger.renew(claimed.job.id, claimed.attempt, lease_s=self._settings.lease_s, ran_s=ran_s):
                held.lost_at = time.monotonic()
        except MatmulError as error:
            about = {"job": claimed.job.id, **log_fields([claimed])}
            log.warning("the lease could not be renewed; trying again", **about, reason=error.type)

    def _record_timeout(self, held: _Held) -> None:
        timeout_s = held.claimed.job.timeout_s
        detail = f"The job ran longer than its time limit of {timeout_s:g} s; make it smaller or allow it more."
        self._record_end(held, JobError(type=TimeLimitExceeded.type, detail=detail), max_attempts=1)

    def _record_end(self, held: _Held, error: JobError, *, max_attempts: int) -> None:
        """Records the end of the attempt in the ledger."""
        job, attempt = held.claimed.job, held.claimed.attempt
        held.lost_at = time.monotonic()
        try:
            recorded = retry_until(
                lambda: self._ledger.fail(job.id, attempt, error, max_attempts=max_attempts), timeout_s=LAST_WORDS_S
            )
            if recorded is not None:
                self._launches.handed_back(held.claimed, error)
        except MatmulError:
            about = {"job": job.id, **log_fields([held.claimed])}
            log.warning("the end of an attempt could not be recorded; the sweeper will", **about)

    def _end_for(self, hold: Hold, code: int, reason: str) -> None:
        """Ends the process for these jobs, unless their launch has ended by itself meanwhile."""
        with self._lock:
            if hold not in self._holds:
                return
        self.end_child(code, reason)
        with self._lock:
            self._holds = []


class _Holding(AbstractContextManager[Hold]):
    """A generator's context would take as long as the lease itself."""

    def __init__(self, keeper: LeaseKeeper, claimed: Sequence[Claimed], *, waits: bool) -> None:
        self._keeper, self._claimed, self._waits = keeper, claimed, waits

    def __enter__(self) -> Hold:
        self._hold = self._keeper.begin(self._claimed, waits=self._waits)
        return self._hold

    def __exit__(self, *_: object) -> None:
        self._keeper.end(self._hold)


def _grace_s(holds: Sequence[Hold]) -> float:
    return GRACE_S if len(holds) == 1 else GRACE_BESIDE_OTHERS_S
