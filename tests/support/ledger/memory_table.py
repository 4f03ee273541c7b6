"""What MemoryLedger keeps and how it changes: the twin of `lua/common.lua`. No locking here."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

from jobs.base import UnknownRequest
from jobs.errors import JobNotFound, QueueFull, QuotaExceeded
from jobs.ledger.chains import sources_of
from jobs.ledger.codec import EVENTS_KEPT, EVENTS_TTL_S, JobRow
from jobs.ledger.fields import NO_PROGRESS
from jobs.ledger.interface import JobFilter, QueueDepth, Requeued
from jobs.ledger.limits import Beside
from jobs.ledger.submission import BESIDE
from jobs.matrices.index import Bounds, no_room
from jobs.models import Job, JobError, JobEvent, MatmulRequest, NewJob, Outcome, label_of
from jobs.redis.clock import microseconds
from jobs.requests.operands import OPERANDS
from jobs.states import JobState
from tests.support.ledger.memory_backlogs import Backlogs
from tests.support.ledger.memory_chains import Chains, RecordMatrices, Source

BATCH_NEAR = 1024  # as in lua/claim.lua


def beside_it(row: JobRow, others: list[JobRow], beside: Beside) -> list[JobRow]:
    """Up to the first that is one too many."""
    are_light = [beside.light > 0 and is_light(each, beside.light_extent) for each in (row, *others)]
    for count in range(2, len(are_light) + 1):
        light = sum(are_light[:count])
        if light > beside.light or count - light > beside.heavy:
            return others[: count - 2]
    return others


def is_light(row: JobRow, light_extent: int) -> bool:
    assert isinstance(row.request, MatmulRequest), "benchmarks go alone"
    return all(len(each.shape) == 2 and max(each.shape) <= light_extent for each in row.request.operands.values())


@dataclass(slots=True)
class Binding:
    """An Idempotency-Key and its job."""

    job_id: str
    fingerprint: str
    until_us: int


@dataclass(slots=True)
class EventLog:
    """A job's events, and the last id given."""

    last: tuple[int, int] = (0, 0)
    kept: deque[JobEvent] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))

    def add(self, at_us: int, event: str, data: dict[str, Any]) -> None:
        milliseconds, number = self.last
        self.last = max((at_us // 1000, 0), (milliseconds, number + 1))
        self.kept.append(JobEvent(id="{}-{}".format(*self.last), event=event, data=data))


@dataclass
class JobTable(Chains, Backlogs):
    """All jobs. `clock` gives microseconds since the epoch."""

    leases: dict[str, int] = field(default_factory=dict)  # job id → end of its lease, µs
    claims: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)  # worker, others
    dead: dict[str, int] = field(default_factory=dict)  # job id → when it was given up, µs
    logs: defaultdict[str, EventLog] = field(default_factory=lambda: defaultdict(EventLog))
    no_room_since: dict[str, int] = field(default_factory=dict)  # job id → when it was first given back, µs
    numbers: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))  # queue → last message
    started: defaultdict[str, tuple[int, int]] = field(  # queue → the highest number of a job started, and when sent
        default_factory=lambda: defaultdict(lambda: (0, 0))
    )
    findings: defaultdict[str, dict[str, bytes]] = field(default_factory=lambda: defaultdict(dict))  # job id →
    bindings: dict[tuple[str, str], Binding] = field(default_factory=dict)  # (owner, key)
    came_first: set[str] = field(default_factory=set)  # jobs that came when none waited: nobody's companions
    last_seq: int = 0

    # ---- reading ----
    def owned(self, job_id: str, owner: str | None) -> JobRow:
        """Raises JobNotFound; also where `owner` is given and is not the job's."""
        row = self.rows.get(job_id)
        if row is None or owner not in (None, row.owner):
            raise JobNotFound
        return row

    def running(self, job_id: str, attempt: int) -> JobRow | None:
        """The job if this attempt runs it: the fence that stops a late worker."""
        row = self.rows.get(job_id)
        return row if row and row.state is JobState.RUNNING and row.attempt == attempt else None

    def waiting(self, queue: str) -> list[JobRow]:
        """Queued jobs in the order of their messages."""
        rows = (row for row in self.rows.values() if row.state is JobState.QUEUED and row.queue == queue)
        return sorted((row for row in rows if row.number), key=lambda row: (row.number < 0, abs(row.number)))

    def depth(self, queue: str) -> QueueDepth:
        waiting = self.waiting(queue)
        return QueueDepth(len(waiting), (self.clock() - waiting[0].queued_us) / 1e6 if waiting else None)

    def batch_of(self, row: JobRow, max_jobs: int, beside: Beside) -> list[JobRow]:
        """Others that may be computed in one launch with it, or beside it, oldest first."""
        if row.batch is None or row.attempt > 1:
            return []
        most = (beside.heavy + beside.light if row.batch == BESIDE else max_jobs) - 1
        own = self.backlog(row.queue, row.owner)[:most]
        near = [o for o in self.waiting(row.queue) if self.places[o.id] <= abs(row.number) + BATCH_NEAR]
        oldest = sorted(near, key=lambda other: self.places[other.id])
        fit = [o for o in (*own, *oldest) if (o.batch, o.attempt) == (row.batch, 1) and o.id not in self.came_first]
        fit = [other for other in fit if other is not row]
        found = list({other.id: other for other in fit}.values())[:most]
        return beside_it(row, found, beside) if row.batch == BESIDE else found

    def job(self, row: JobRow) -> Job:
        row.held = self.matrices[row.id].charged
        is_in_queue = row.state is JobState.QUEUED and not row.waits
        return row.job(self.place(row) if is_in_queue else None)

    def events(self, job_id: str) -> list[JobEvent]:
        row = self.rows.get(job_id)
        if row is None or (row.finished_us or self.clock()) + microseconds(EVENTS_TTL_S) <= self.clock():
            return []
        return list(self.logs[job_id].kept)

    def binding(self, owner: str, key: str) -> Binding | None:
        bound = self.bindings.get((owner, key))
        return bound if bound and bound.until_us > self.clock() else None

    # ---- changing ----
    def record(self, job: NewJob, bounds: Bounds) -> JobRow:
        """Raises StoreFull where the matrices in its record find no room, OperandMissing, OperandFailed."""
        sources = self.read_sources(sources_of(job.request), job.owner)
        held = job.matrices
        charged = sum(len(getattr(held, name) or b"") for name in OPERANDS) + held.product_bytes
        charged += sum(each.room for each in sources)
        self._check_room(job.owner, charged, bounds)
        now = self.clock()
        self.last_seq += 1
        row = JobRow(
            id=job.id,
            owner=job.owner,
            kind=job.kind,
            queue=job.queue,
            timeout_us=microseconds(job.timeout_s),
            request=job.request,
            seq=self.last_seq,
            created_us=now,
            state=JobState.QUEUED,
            attempt=1,
            runs=0,
            version=0,
            number=0,
            first=0,
            published_us=now,
            queued_us=now,
            batch=job.batch or None,
            in_record="".join(sorted({n for n in OPERANDS if getattr(held, n)} | {s.name for s in sources if s.room})),
            product_bytes=job.matrices.product_bytes,
        )
        none_waits = not any(other.state is JobState.QUEUED for other in self.rows.values())
        if none_waits and row.batch and row.in_record == "ab" and not sources:
            self.came_first.add(row.id)
        self.matrices[job.id] = RecordMatrices(microseconds(held.ttl_s), held.a, held.b, held.c, charged=charged)
        self.rows[job.id] = row
        self._queue(row, sources)
        return row

    def redrive(self, row: JobRow) -> None:
        """Raises OperandMissing, OperandFailed."""
        sources = self.read_sources(row.missing(), row.owner)
        self.check_record(row, sources)
        self.dead.pop(row.id, None)
        row.finished_us, row.error = None, None
        self.no_room_since.pop(row.id, None)
        row.attempt, row.runs = row.attempt + 1, 0
        self._queue(row, sources)

    def _queue(self, row: JobRow, sources: list[Source]) -> None:
        if self.wait_for_products(row, sources):
            self.enter_queue(row, 0)
        else:
            self.enqueue(row)

    def next_number(self, queue: str) -> int:
        self.numbers[queue] += 1
        return self.numbers[queue]

    def held_bytes(self, owner: str | None = None) -> int:
        return sum(self.matrices[row.id].charged for row in self.rows.values() if owner in (None, row.owner))

    def check_queue(self, owner: str, max_queued: int, max_queued_per_owner: int) -> None:
        """Raises QueueFull, QuotaExceeded."""
        waiting = [row for row in self.rows.values() if row.state is JobState.QUEUED]
        if len(waiting) >= max_queued:
            raise QueueFull
        if sum(row.owner == owner for row in waiting) >= max_queued_per_owner:
            raise QuotaExceeded

    def _check_room(self, owner: str, need: int, bounds: Bounds) -> None:
        kept, by_owner = self.held_bytes(), self.held_bytes(owner)
        if need and kept + need > bounds.all_bytes:
            raise no_room(b"full", need, kept, bounds)
        if need and by_owner + need > bounds.owner_bytes:
            raise no_room(b"owner_full", need, by_owner, bounds)

    def expire_matrices(self, limit: int) -> int:
        """Of the jobs whose time is up first."""
        ended = sorted((held.until_us, name) for name, held in self.matrices.items() if held.until_us is not None)
        due = [name for until_us, name in ended if until_us <= self.clock()][:limit]
        for name in due:
            self.matrices[name].drop()
        return len(due)

    def enqueue(self, row: JobRow, **more: Any) -> None:
        row.number = 0
        self.enter_queue(row, self.number_of(row), **more)

    def enter_queue(self, row: JobRow, number: int, **more: Any) -> None:
        """With the number of its message, 0 before that is sent."""
        self.matrices[row.id].until_us = None
        row.number = row.first = number
        row.published_us = row.queued_us = self.clock()
        row.progress = NO_PROGRESS
        self.enter(row, JobState.QUEUED, **more)

    def enter(self, row: JobRow, state: JobState, **more: Any) -> None:
        row.state = state
        if state is not JobState.RUNNING:
            self.claims.pop(row.id, None)
        self.announce(row, state.value, **more)

    def announce(self, row: JobRow, event: str, **more: Any) -> None:
        row.version += 1
        data = {"state": row.state.value, "attempt": row.attempt, "version": row.version, **more}
        self.logs[row.id].add(self.clock(), event, data)

    def finish(self, row: JobRow, state: JobState, **more: Any) -> bool:
        """Whether others waited for it."""
        self.leases.pop(row.id, None)
        row.waits = False
        row.finished_us = self.clock()
        if (held := self.matrices[row.id]).charged:
            held.until_us = self.clock() + held.ttl_us
        self.enter(row, state, **more)
        return self.settle_dependents(row)

    def retry_or_fail(self, row: JobRow, error: JobError, max_attempts: int, *, dead: bool) -> Requeued:
        """Back into its queue if a run is left; else failed, and a dead letter if `dead`."""
        if row.runs < max_attempts:
            self.leases.pop(row.id, None)
            row.attempt += 1
            self.enqueue(row, error=error.model_dump())
            return Requeued(row.id, row.state, row.message())
        row.error = error
        self.finish(row, JobState.FAILED, error=error.model_dump())
        if dead:
            self.dead[row.id] = self.clock()
        return Requeued(row.id, row.state, None)

    def give_back(
        self, job_id: str, attempt: int, error: JobError, patience_us: int, ran_s: float | None
    ) -> JobState | None:
        if (row := self.running(job_id, attempt)) is None:
            return None
        since_us = self.no_room_since.get(row.id, self.clock())
        if row.id in self.no_room_since:
            started_us = row.started_us or 0
            since_us += 0 if ran_s is None else self.clock() - started_us - microseconds(ran_s)
            since_us += max(0, int(started_us - row.queued_us - patience_us / 6))
        waits_on = self.clock() - since_us < max(1, patience_us)
        if waits_on:
            self.no_room_since[row.id] = since_us
        row.runs -= waits_on
        return self.retry_or_fail(row, error, row.runs + 1 if waits_on else 0, dead=False).state

    def forget(self, row: JobRow) -> Job:
        last = self.job(row)
        self.bindings = {key: bound for key, bound in self.bindings.items() if bound.job_id != row.id}
        for table in (self.rows, self.logs, self.dead, self.findings, self.matrices, self.places, self.sent_at):
            table.pop(row.id, None)
        return last


def matches(row: JobRow, where: JobFilter) -> bool:
    """Whether a listing by kind, kernel and `q` shows the job; owner and state are not looked at."""
    assert not isinstance(row.request, UnknownRequest), "this ledger knows one version alone"
    kernel = row.outcome.kernel if isinstance(row.outcome, Outcome) else label_of(row.request)
    texts = (row.id, kernel, row.error.type if row.error else "", row.outcome.device if row.outcome else "")
    part = (where.q or "").encode().lower()
    return (
        where.kind in (None, row.kind)
        and where.kernel in (None, kernel)
        and any(part in text.encode().lower() for text in texts)
    )
