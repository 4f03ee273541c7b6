"""The sweeper: requeues jobs whose message or worker is lost, and removes what has expired. Every API process has one;
a lock in Redis lets one of them work. If two work at once all the same, because the lock expired under a stopped
process, nothing breaks: each step is a compare-and-set in the ledger.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event

import redis
import structlog

from jobs.errors import MatmulError, StoreUnavailable
from jobs.fleet.registry import WorkerRegistry
from jobs.ledger.interface import Ledger
from jobs.ledger.messages import JobMessage
from jobs.models import new_id
from jobs.queue import waiting_messages
from jobs.redis.client import cause_of
from jobs.redis.scripts import LOCK_SCRIPTS, SERVER_CLOCK, RedisScripts
from jobs.settings import Settings
from jobs.sweeper.live_queues import LiveQueues
from jobs.tracing.request_trace import log_fields
from jobs.tracing.spans import Tracing

LOCK_S = 3.0  # how long a silent holder keeps the lock
HOUSEKEEPING_EVERY_S = 5.0  # removing expired data is less urgent
BACK_OFF_MAX_S = 2.0
CLOCK_STEP_S = 1.0  # more than an answer of Redis may take
BATCH = 100

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep did."""

    republished: int = 0  # jobs whose message was gone
    recovered: int = 0  # jobs whose worker was gone: queued again, or finally failed
    expired: int = 0  # records past their time
    matrices: int = 0  # matrices past theirs


class Sweeper:
    """One process's sweeper. For use by one thread.

    `sweep_matrices` is a store's `sweep`, and says how many it removed. `give_up_refused` fails jobs that no live
    worker understands. `move_stranded` moves jobs to another queue. `keep_history` records samples.
    """

    def __init__(
        self,
        ledger: Ledger,
        client: redis.Redis,
        settings: Settings,
        *,
        sweep_matrices: Callable[[], int],
        give_up_refused: Callable[[], int] = lambda: 0,
        move_stranded: Callable[[], object] = lambda: None,
        keep_history: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        redis_clock: str = SERVER_CLOCK,
        tracing: Tracing | None = None,
    ) -> None:
        self._ledger = ledger
        self._tracing = tracing
        self._client = client
        self._settings = settings
        self._sweep_matrices = sweep_matrices
        self._give_up_refused = give_up_refused
        self._move_stranded = move_stranded
        self._keep_history = keep_history
        self._clock = clock
        self._run = RedisScripts(client, settings.key_prefix, LOCK_SCRIPTS, clock=redis_clock).run
        self._registry = WorkerRegistry(client, prefix=settings.key_prefix, clock=redis_clock)
        self._queues = LiveQueues(ledger, self._registry)
        self._token = new_id("sweeper")
        self._suspects: frozenset[JobMessage] = frozenset()
        self._leases_count_from_s: float | None = None  # None: this process does not know what happened before
        self._redis_ahead_s = 0.0  # of this process's clock, when it was looked at last
        self._housekeeping_at_s = 0.0

    # ---- the loop ----
    def run_forever(self, stop: Event) -> None:
        """Sweeps until `stop` is set, then releases the lock. Survives any outage of Redis."""
        failures = 0
        while not stop.wait(self._pause_s(failures)):
            try:
                self.sweep_once()
                failures = 0
            except MatmulError as error:
                failures += 1
                log.warning(
                    "a sweep failed", error=error.type, reason=str(error), cause=cause_of(error), failures=failures
                )
            except Exception:
                failures += 1
                log.exception("a sweep broke off", failures=failures)
        self._let_go()

    def _pause_s(self, failures: int) -> float:
        return min(float(self._settings.sweep_s * 2 ** min(failures, 10)), max(BACK_OFF_MAX_S, self._settings.sweep_s))

    def sweep_once(self) -> Swept | None:
        """One sweep; None where another process holds the lock. Raises StoreUnavailable, StoreFull."""
        try:
            if not self._hold_lock():
                self._forget()
                return None
            return self._sweep()
        except StoreUnavailable:
            self._forget()
            raise

    def _forget(self) -> None:
        """Discards earlier observations, which prove nothing after a gap."""
        self._suspects = frozenset()
        self._leases_count_from_s = None

    # ---- the lock ----
    def _hold_lock(self) -> bool:
        """Takes or renews the lock. If Redis' clock was changed in between, no lease counts as expired because of that:
        each gets a moment to be renewed.
        """
        redis_us = int(self._run("hold_lock", "sweeper", self._token, round(LOCK_S * 1000)))
        if not redis_us:
            return False
        ahead_s = redis_us / 1e6 - self._clock()
        if abs(ahead_s - self._redis_ahead_s) > CLOCK_STEP_S:
            self._forget()
        self._redis_ahead_s = ahead_s
        return True

    def _let_go(self) -> None:
        try:
            self._run("release_lock", "sweeper", self._token)
        except StoreUnavailable:
            log.info("the sweeper's lock runs out by itself")

    # ---- one sweep ----
    def _sweep(self) -> Swept:
        """One sweep. Jobs are requeued first, so that clean-up does not delay them."""
        recovered = self._take_back_expired()
        while self._ledger.settle_dependents():
            pass  # lets other steps run in between
        self._queues.sweep()
        self._move_stranded()
        republished = self._republish_lost()
        self._keep_history()
        if self._clock() < self._housekeeping_at_s:
            return Swept(republished, recovered)
        self._housekeeping_at_s = self._clock() + HOUSEKEEPING_EVERY_S
        self._give_up_refused()
        expired = len(self._ledger.expire(job_ttl_s=self._settings.job_ttl_s, limit=BATCH))
        stored, in_records = self._sweep_matrices(), self._ledger.expire_matrices(limit=BATCH)
        matrices = stored + in_records
        if BATCH in (expired, stored, in_records):  # a full batch means that there is more
            self._housekeeping_at_s = self._clock()
        return Swept(republished, recovered, expired, matrices)

    def _take_back_expired(self) -> int:
        """Takes back jobs of silent workers. After an outage of Redis, during which no worker could renew, each worker
        first gets a moment to do so. Its clock may have been set back in between as well.
        """
        if self._leases_count_from_s is None:
            self._ledger.clock_set_back(lease_s=self._settings.lease_s)
            self._registry.clock_set_back(self._settings.worker_ttl_s)
            self._leases_count_from_s = self._clock() + 4 * self._settings.heartbeat_s
        if self._clock() < self._leases_count_from_s:
            return 0
        count = 0
        for job_id, attempt in self._ledger.expired_leases(limit=BATCH):
            try:
                taken = self._ledger.take_back(job_id, attempt, max_attempts=self._settings.max_attempts)
            except redis.ResponseError as error:  # caused by one damaged row; the others must be requeued all the same
                log.error("a job could not be taken back", job=job_id, reason=str(error))
                continue
            if taken is None:
                continue
            count += 1
            about = {} if taken.lost is None else log_fields(taken.lost.trace)
            log.warning(
                "a job was taken back from a silent worker", job=job_id, attempt=attempt, state=taken.state, **about
            )
            if taken.lost is not None:
                taken.lost.tell(self._tracing, job_id, attempt)
        return count

    def _republish_lost(self) -> int:
        """Sends lost messages again. A message that was just fetched looks lost for a moment, so only one that looks
        lost twice is sent again.
        """
        lost = frozenset(self._lost_messages())
        again, self._suspects = lost & self._suspects, lost - self._suspects
        return sum([self._send_again(message) for message in sorted(again, key=lambda lost: lost.number)])

    def _lost_messages(self) -> Sequence[JobMessage]:
        grace_s = self._settings.sweep_grace_s
        lost: list[JobMessage] = []
        for queue in self._ledger.queues():
            empty = waiting_messages(self._client, self._settings, queue) == 0
            lost += self._ledger.lost_messages(queue, broker_is_empty=empty, grace_s=grace_s)
        return lost

    def _send_again(self, lost: JobMessage) -> bool:
        if self._ledger.republish(lost) is None:
            return False
        about = log_fields(lost.trace)
        log.warning("a job's message was lost and is sent again", job=lost.job_id, attempt=lost.attempt, **about)
        return True
