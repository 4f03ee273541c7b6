"""The ledger in this process's memory: the double for tests of what stands on a ledger. Behaves as RedisLedger does."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from jobs.errors import TimeLimitExceeded, VerificationFailed, WorkerLost
from jobs.ledger.acceptance import Acceptance
from jobs.ledger.codec import LOST_LIMIT, SCAN_LIMIT, JobRow, cursor_after, cursor_seq, event_place, job_error
from jobs.ledger.interface import (
    HARD_LIMIT_MARGIN_S,
    MAY_SWAP,
    CancelOutcome,
    Claimed,
    IdempotencyKey,
    JobFilter,
    JobPage,
    Requeued,
    Success,
)
from jobs.ledger.limits import ALONE, NO_LIMITS, Beside, Limits
from jobs.ledger.messages import JobMessage
from jobs.ledger.replies import refuse
from jobs.matrices.index import Bounds
from jobs.matrices.packed import PackedMatrix
from jobs.models import Job, JobError, JobEvent, NewJob, Progress
from jobs.redis.clock import microseconds
from jobs.settings import DAY_S
from jobs.states import REDRIVABLE, JobState
from tests.support.ledger.memory_figures import MemoryFigures
from tests.support.ledger.memory_table import matches

UNBOUNDED = Bounds(1 << 60, 1 << 60)


def wall_clock_us() -> int:
    return time.time_ns() // 1000


class MemoryLedger(MemoryFigures):
    """Safe to share between threads. `clock` gives microseconds since the epoch."""

    def __init__(
        self,
        *,
        idempotency_ttl_s: float = DAY_S,
        clock: Callable[[], int] = wall_clock_us,
        bounds: Bounds = UNBOUNDED,
    ) -> None:
        super().__init__(clock, idempotency_ttl_s)
        self._bounds = bounds

    # ---- the service's side ----
    def submit(
        self, job: NewJob, *, max_queued: int, max_queued_per_owner: int, idempotency: IdempotencyKey | None = None
    ) -> tuple[Job, JobMessage | None]:
        with self._lock:
            if job.id in self._table.rows:
                return self._table.job(self._table.rows[job.id]), None
            if idempotency and (first := self.bound_job(job.owner, idempotency)):
                return self._table.job(self._table.rows[first]), None
            self._table.check_queue(job.owner, max_queued, max_queued_per_owner)
            row = self._table.record(job, self._bounds)
            if idempotency:
                self.bind_key(job.owner, idempotency, job.id)
            return self._table.job(row), row.message()

    def get(self, job_id: str, *, owner: str | None = None, with_product: bool = False) -> Job:
        with self._lock:
            job = self._table.job(self._table.owned(job_id, owner))
            product = self._table.matrices[job_id].product if with_product else None
            return job.model_copy(update={"packed_product": product})

    def list(self, where: JobFilter, *, limit: int, cursor: str | None = None) -> JobPage:
        before = None if cursor is None else cursor_seq(cursor)
        most = SCAN_LIMIT if where.kind or where.kernel or where.q else limit
        with self._lock:
            index = [
                row
                for row in reversed(self._table.rows.values())
                if (before is None or row.seq < before)
                and row.owner == where.owner
                and where.state in (None, row.state)
            ]
            page: list[JobRow] = []
            for read, row in enumerate(index):
                if len(page) == limit or read == most:
                    return JobPage([self._table.job(found) for found in page], cursor_after(index[read - 1].seq))
                if matches(row, where):
                    page.append(row)
            return JobPage([self._table.job(found) for found in page], None)

    def cancel(self, job_id: str, *, owner: str | None = None) -> tuple[Job, CancelOutcome]:
        with self._lock:
            row = self._table.owned(job_id, owner)
            if row.state is JobState.CANCELLED:
                return self._table.job(row), "already_cancelled"
            if row.state.is_terminal:
                refuse(row.state, "cancelled")
            self._table.finish(row, JobState.CANCELLED)
            self._table.send_following([row])
            return self._table.job(row), "cancelled"

    def redrive(
        self, job_id: str, *, owner: str | None = None, limits: Limits = NO_LIMITS, key: IdempotencyKey | None = None
    ) -> tuple[Job, JobMessage | None]:
        with self._lock:
            row = self._table.owned(job_id, owner)
            if key and self.bound_job(owner or "", key):
                return self._table.job(row), None
            if row.state not in REDRIVABLE:
                refuse(row.state, "retried")
            self._table.check_queue(row.owner, *limits)
            self._table.redrive(row)
            if key:
                self.bind_key(owner or "", key, job_id)
            return self._table.job(row), row.message()

    def delete(self, job_id: str, *, owner: str | None = None) -> Job:
        with self._lock:
            row = self._table.owned(job_id, owner)
            if not row.state.is_terminal:
                refuse(row.state, "deleted")
            return self._table.forget(row)

    def drop_product(self, job_id: str, attempt: int, *, owner: str) -> bool:
        with self._lock:
            row = self._table.rows.get(job_id)
            if row is None or (row.owner, row.state, row.attempt) != (owner, JobState.SUCCEEDED, attempt):
                return False
            dropped = self._table.matrices[job_id].charged > 0
            self._table.matrices[job_id].drop()
            return dropped

    def events(self, job_id: str, *, after: str = "0-0", limit: int = 1000) -> Sequence[JobEvent]:
        place = event_place(after)
        with self._lock:
            return [event for event in self._table.events(job_id) if event_place(event.id) > place][:limit]

    # ---- the worker's side ----
    def claim_batch(
        self, job_id: str, attempt: int, *, worker: str, lease_s: float, max_jobs: int, beside: Beside = ALONE
    ) -> Sequence[Claimed]:
        with self._lock:
            if (row := self._table.rows.get(job_id)) is None or row.attempt != attempt:
                return []
            if row.state is not JobState.QUEUED or row.waits:
                return self._claimed_again(row, worker)
            if self._table.is_for_others(row, worker):
                row.number, row.published_us = self._table.next_number(row.queue), self._clock()
                return []
            sent_us = max(row.queued_us, self._table.sent_at.get(row.id, 0))
            self._table.started[row.queue] = max(self._table.started[row.queue], (row.first, sent_us))
            others = self._table.batch_of(row, max_jobs, beside)
            self._table.claims |= {each.id: (worker, ()) for each in others}
            self._table.claims[row.id] = worker, tuple(each.id for each in others)
            claimed = [self._start(each, worker, microseconds(lease_s)) for each in (row, *others)]
            self._table.send_following([row, *others])
            return claimed

    def _claimed_again(self, row: JobRow, worker: str) -> Sequence[Claimed]:
        claims = self._table.claims
        its_own = [each for each in (row.id, *claims.get(row.id, ("", ()))[1]) if claims.get(each, ("",))[0] == worker]
        rows = (self._table.rows[each] for each in its_own)
        return [self._claimed(each) for each in rows if each is row or each.attempt == 1]

    def _start(self, row: JobRow, worker: str, lease_us: int) -> Claimed:
        now = self._clock()
        self._table.leases[row.id] = now + lease_us
        row.runs, row.started_us, row.seen_us, row.worker = row.runs + 1, now, now, worker
        self._table.enter(row, JobState.RUNNING)
        return self._claimed(row)

    def _claimed(self, row: JobRow) -> Claimed:
        held = self._table.matrices[row.id]
        packed = (None if matrix is None else PackedMatrix(matrix) for matrix in (held.a, held.b, held.c))
        return Claimed(self._table.job(row), row.attempt, *packed, earlier_runs=row.runs - 1)

    def renew(self, job_id: str, attempt: int, *, lease_s: float, ran_s: float | None = None) -> bool:
        with self._lock:
            if (row := self._table.running(job_id, attempt)) is None:
                return False
            now = self._clock()
            assert row.started_us is not None
            ran_us = now - row.started_us if ran_s is None else microseconds(ran_s)
            left_us = row.timeout_us + microseconds(HARD_LIMIT_MARGIN_S) - ran_us
            row.seen_us, self._table.leases[job_id] = row.started_us + ran_us, now + min(microseconds(lease_s), left_us)
            return True

    def progress(self, job_id: str, attempt: int, progress: Progress) -> bool:
        with self._lock:
            if (row := self._table.running(job_id, attempt)) is None:
                return False
            row.progress = progress
            self._table.announce(row, "progress", progress=progress.model_dump())
            return True

    def keep_findings(
        self, job_id: str, attempt: int, findings: Mapping[str, bytes], progress: Progress, news: Mapping[str, Any]
    ) -> bool:
        with self._lock:
            if (row := self._table.running(job_id, attempt)) is None:
                return False
            self._table.findings[job_id].update(findings)
            row.progress = progress
            self._table.announce(row, "progress", progress=progress.model_dump(), found=dict(news))
            return True

    def succeed_all(self, done: Sequence[Success]) -> Sequence[Acceptance]:
        with self._lock:
            return [self._succeed(each) for each in done]

    def _succeed(self, done: Success) -> Acceptance:
        known = self._table.rows.get(done.job_id)
        if known and known.state is JobState.SUCCEEDED and known.attempt == done.attempt:
            return Acceptance.ACCEPTED
        if (row := self._table.running(done.job_id, done.attempt)) is None:
            return Acceptance.REFUSED
        row.outcome = done.outcome
        self._table.matrices[done.job_id].end(done.product)
        return Acceptance.AWAITED if self._table.finish(row, JobState.SUCCEEDED) else Acceptance.ACCEPTED

    def fail(self, job_id: str, attempt: int, error: JobError, *, max_attempts: int = 1) -> Requeued | None:
        with self._lock:
            if (row := self._table.running(job_id, attempt)) is None:
                return None
            if error.type == VerificationFailed.type:
                self._table.made_wrong(row, self._table.claims[row.id][0])
            return self._table.retry_or_fail(row, error, max_attempts, dead=max_attempts > 1)

    def give_back(
        self, job_id: str, attempt: int, error: JobError, *, timeout_s: float, ran_s: float | None = None
    ) -> JobState | None:
        with self._lock:
            return self._table.give_back(job_id, attempt, error, microseconds(timeout_s), ran_s)

    # ---- the sweeper's side ----
    def lost_messages(self, queue: str, *, broker_is_empty: bool, grace_s: float) -> Sequence[JobMessage]:
        with self._lock:
            grace_us = microseconds(grace_s)
            number, sent_us = self._table.started[queue]
            suspects = [
                row
                for row in self._table.waiting(queue)
                if row.number > 0
                if broker_is_empty
                or row.number < number - MAY_SWAP
                or (row.number < number and row.published_us < sent_us - grace_us)
            ]
            before_us = self._clock() - grace_us
            return [row.message() for row in suspects[:LOST_LIMIT] if row.published_us < before_us]

    def republish(self, message: JobMessage) -> JobMessage | None:
        with self._lock:
            row = self._table.rows.get(message.job_id)
            if row is None or row.state is not JobState.QUEUED or row.number <= 0 or row.message() != message:
                return None
            row.number, row.published_us = self._table.next_number(row.queue), self._clock()
            return row.message()

    def refill(self, workers: Mapping[str, int]) -> int:
        with self._lock:
            return self._table.refill(workers)

    def others_wait(self, queue: str, owners: Collection[str]) -> bool:
        with self._lock:
            return self._table.others_wait(queue, owners)

    def expired_leases(self, *, limit: int = 100) -> Sequence[tuple[str, int]]:
        with self._lock:
            now = self._clock()
            expired = sorted((until, job_id) for job_id, until in self._table.leases.items() if until <= now)
            return [(job_id, self._table.rows[job_id].attempt) for _, job_id in expired[:limit]]

    def take_back(self, job_id: str, attempt: int, *, max_attempts: int) -> Requeued | None:
        with self._lock:
            row = self._table.running(job_id, attempt)
            if row is None or self._table.leases[job_id] > self._clock():
                return None
            assert row.seen_us is not None and row.started_us is not None
            if row.seen_us > row.started_us + row.timeout_us:
                return self._table.retry_or_fail(row, job_error(TimeLimitExceeded), 0, dead=False)
            return self._table.retry_or_fail(row, job_error(WorkerLost), max_attempts, dead=True)

    def settle_dependents(self) -> int:
        return 0  # all were, with the job that they waited for

    def expire(self, *, job_ttl_s: int, limit: int = 100) -> Sequence[Job]:
        with self._lock:
            before = self._clock() - microseconds(job_ttl_s)
            ended = sorted(
                (row.finished_us, row.id) for row in self._table.rows.values() if row.finished_us is not None
            )
            return [self._table.forget(self._table.rows[job_id]) for at, job_id in ended[:limit] if at <= before]

    def expire_matrices(self, *, limit: int = 100) -> int:
        with self._lock:
            return self._table.expire_matrices(limit)
