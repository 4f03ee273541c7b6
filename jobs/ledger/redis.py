"""The ledger in Redis. Each method is one Lua script (`jobs/ledger/lua`), so a crash never leaves a change half done.
`jobs/ledger/lua/common.lua` lists the keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import redis

from jobs.errors import IdempotencyKeyInUse, IdempotencyKeyReused, JobNotFound, TimeLimitExceeded, WorkerLost
from jobs.ledger.chains import unmet_error
from jobs.ledger.claims.by_message import JOB_ID, RedisClaims
from jobs.ledger.claims.refusals import Refusals
from jobs.ledger.codec import LOST_LIMIT, SCAN_LIMIT, cursor_after, cursor_seq, event_place, job_error
from jobs.ledger.durability import RedisDurability
from jobs.ledger.interface import (
    HARD_LIMIT_MARGIN_S,
    MAY_SWAP,
    CancelOutcome,
    IdempotencyKey,
    JobFilter,
    JobPage,
    Ledger,
    QueueDepth,
    Requeued,
)
from jobs.ledger.limits import NO_LIMITS, Limits, QuotaOf, limit_arguments, no_quota
from jobs.ledger.messages import JobMessage, MessageFormat
from jobs.ledger.queues import Moves, RedisFairQueues, RedisSettableClock
from jobs.ledger.replies import RecordedJob, counts_of, event_of, job_of, recorded, redriven, refuse
from jobs.ledger.submission import key_digest, submission
from jobs.ledger.successes import RedisSuccesses
from jobs.ledger.unreadable import readable, requeued
from jobs.matrices.index import LUA_DIR as MATRICES_LUA_DIR
from jobs.matrices.index import Bounds
from jobs.models import Job, JobError, JobEvent, NewJob, Progress
from jobs.redis.client import translated
from jobs.redis.clock import microseconds
from jobs.redis.connections import beside
from jobs.redis.line import ScriptLine
from jobs.redis.replicas import ReplicaWait
from jobs.redis.scripts import SERVER_CLOCK, RedisScripts
from jobs.settings import DAY_S
from jobs.states import JobState

LUA_DIR = Path(__file__).parent / "lua"


class RedisLedger(RedisClaims, RedisSuccesses, RedisFairQueues, RedisDurability, RedisSettableClock, Ledger):
    """Safe to share between threads. `clock` is for tests (`RedisScripts`)."""

    def __init__(
        self,
        client: redis.Redis,
        *,
        prefix: str,
        messages: MessageFormat,
        bounds: Bounds,
        max_ended: Limits = NO_LIMITS,
        idempotency_ttl_s: float = DAY_S,
        quota_of: QuotaOf = no_quota,
        clock: str = SERVER_CLOCK,
        when_unreadable: Callable[[], object] = lambda: None,
        replicas: ReplicaWait | None = None,
    ) -> None:
        self._client, self._prefix, self._replicas = client, prefix, replicas
        self._connections = beside(client)
        self._when_unreadable = when_unreadable  # called for each job that a page leaves out
        self._messages = messages.lists, messages.template  # the last arguments of scripts that queue a job
        self._bounds = bounds  # of matrices, in records and in the store together
        self._quota_of, self._max_ended = quota_of, max_ended
        self._idempotency_ttl_ms = round(idempotency_ttl_s * 1000)
        self.scripts = RedisScripts(client, prefix, LUA_DIR, clock=clock, after=MATRICES_LUA_DIR)
        self._run = self.scripts.run
        self.refusals = Refusals(self._run, self._messages)
        self.moves = Moves(self._run, self._messages)

    # ---- the service's side ----
    def submit(
        self, job: NewJob, *, max_queued: int, max_queued_per_owner: int, idempotency: IdempotencyKey | None = None
    ) -> tuple[Job, JobMessage | None]:
        found, is_new = self.record(job, Limits(max_queued, max_queued_per_owner), idempotency)
        return found.job, found.row.message() if is_new else None

    def record(
        self, job: NewJob, limits: Limits, idempotency: IdempotencyKey | None = None
    ) -> tuple[RecordedJob, bool]:
        """As `submit`; the job is made where it is asked for. Also whether it is new."""
        (reply,) = self._run("submit", *self._submission(job, limits, idempotency))
        return recorded(reply, job, self._bounds), reply[0] != b"bound"

    async def submit_on(
        self, line: ScriptLine, job: NewJob, *, max_queued: int, max_queued_per_owner: int
    ) -> RecordedJob:
        """As `submit`, from an event loop and without an Idempotency-Key."""
        reply = await line.run("submit", *self._submission(job, Limits(max_queued, max_queued_per_owner), None))
        return recorded(reply, job, self._bounds)

    def _submission(
        self, job: NewJob, limits: Limits, idempotency: IdempotencyKey | None
    ) -> Sequence[str | bytes | int]:
        binding = self._binding(job.owner, idempotency)
        about = limits, self._quota_of(job.owner), binding, self._bounds, self._max_ended
        arguments = submission(job, *about)
        return (len(arguments), *arguments, *self._messages)

    def hold_key(self, owner: str, key: str, *, holder: str, hold_s: float) -> str | None:
        reply = self._run("hold_key", key_digest(owner, key), holder, max(1, round(hold_s * 1000)))
        if reply[0] == b"in_use":
            raise IdempotencyKeyInUse
        return reply[1].decode() if reply[1:] and reply[1] else None

    def release_key(self, owner: str, key: str, *, holder: str) -> None:
        self._run("release_key", key_digest(owner, key), holder)

    @translated()
    def bound_job(self, owner: str, idempotency: IdempotencyKey) -> str | None:
        name = f"{self._prefix}idem:{key_digest(owner, idempotency.key)}"
        found: Any = self._client.hmget(name, ["job", "fingerprint"])
        if None in found:
            return None
        job_id, fingerprint = (value.decode() for value in found)
        if fingerprint != idempotency.fingerprint:
            raise IdempotencyKeyReused
        return str(job_id)

    def bind_key(self, owner: str, idempotency: IdempotencyKey, subject: str) -> None:
        digest, fingerprint, ttl_ms = self._binding(owner, idempotency)
        self._run("bind_key", owner, digest, fingerprint, subject, ttl_ms, self._max_ended.of_owner)

    def get(self, job_id: str, *, owner: str | None = None, with_product: bool = False) -> Job:
        reply = self._run_on("get", job_id, int(with_product))
        if not reply[1]:
            raise JobNotFound
        job = job_of(reply)
        if owner is not None and job.owner != owner:
            raise JobNotFound
        return job.model_copy(update={"packed_product": reply[3]}) if with_product else job

    def list(self, where: JobFilter, *, limit: int, cursor: str | None = None) -> JobPage:
        before = "+inf" if cursor is None else f"({cursor_seq(cursor)}"
        part = (where.q or "").encode().lower()
        whose = where.owner, where.state or "all"
        last, *found = self._run("list", *whose, before, limit, SCAN_LIMIT, where.kind or "", where.kernel or "", part)
        return JobPage(readable(found, self._when_unreadable), cursor_after(int(last)) if last else None)

    def cancel(self, job_id: str, *, owner: str | None = None) -> tuple[Job, CancelOutcome]:
        reply = self._run_on("cancel", job_id, owner or "", *self._messages)
        match reply[0]:
            case b"cancelled":
                return job_of(reply), "cancelled"
            case b"already_cancelled":
                return job_of(reply), "already_cancelled"
            case outcome:
                refuse(outcome.decode(), "cancelled")

    def redrive(
        self, job_id: str, *, owner: str | None = None, limits: Limits = NO_LIMITS, key: IdempotencyKey | None = None
    ) -> tuple[Job, JobMessage | None]:
        limiting = limit_arguments(limits, self._quota_of(owner or ""))
        binding = self._binding(owner or "", key)
        about = (owner or "", *limiting, *binding, unmet_error(), self._max_ended.of_owner)
        return redriven(self._run_on("redrive", job_id, *about, *self._messages))

    def delete(self, job_id: str, *, owner: str | None = None) -> Job:
        reply = self._run_on("delete", job_id, owner or "")
        if reply[0] != b"deleted":
            refuse(reply[0].decode(), "deleted")
        return job_of(reply)

    def drop_product(self, job_id: str, attempt: int, *, owner: str) -> bool:
        return bool(self._run_on("drop_product", job_id, attempt, owner))

    def events(self, job_id: str, *, after: str = "0-0", limit: int = 1000) -> Sequence[JobEvent]:
        place = event_place(after)
        if not JOB_ID.fullmatch(job_id):
            return []
        found = [event_of(entry) for entry in self._run("events", job_id, f"({place[0]}-{place[1]}", limit)]
        return [event for event in found if event_place(event.id) > place][:limit]

    @translated()
    def findings(self, job_id: str) -> Mapping[str, bytes]:
        if not JOB_ID.fullmatch(job_id):
            return {}
        found: Any = self._client.hgetall(f"{self._prefix}job:{job_id}:findings")
        return {name.decode(): value for name, value in found.items()}

    @translated()
    def queues(self) -> Sequence[str]:
        found: Any = self._client.hkeys(f"{self._prefix}counts")
        names = (name.decode().partition(":") for name in found)
        return sorted(queue for kind, _, queue in names if kind == "number")

    @translated()
    def dead_letters(self, *, owner: str | None = None, limit: int = 100) -> Sequence[str]:
        name = f"{self._prefix}dead" + (f":{owner}" if owner is not None else "")
        found: Any = self._client.zrevrange(name, 0, limit - 1)
        return [job_id.decode() for job_id in found]

    def depths(self, queues: Sequence[str]) -> Mapping[str, QueueDepth]:
        replies = self._run("depths", *queues)
        return {
            queue: QueueDepth(waiting, int(age_us) / 1e6 if int(age_us) >= 0 else None)
            for queue, (waiting, age_us) in zip(queues, replies, strict=True)
        }

    @translated()
    def counts(self) -> Mapping[JobState, int]:
        pipe = self._client.pipeline()
        pipe.hmget(f"{self._prefix}counts", ["waiting", "failed", "cancelled", "pinned"])
        pipe.zcard(f"{self._prefix}leases")
        pipe.zcard(f"{self._prefix}finished")
        return counts_of(*pipe.execute())

    # ---- the worker's side; claims are in claims.py, successes in successes.py ----
    def renew(self, job_id: str, attempt: int, *, lease_s: float, ran_s: float | None = None) -> bool:
        limits = map(microseconds, (lease_s, HARD_LIMIT_MARGIN_S))
        return bool(self._run_on("renew", job_id, attempt, *limits, _ran(ran_s)))

    def progress(self, job_id: str, attempt: int, progress: Progress) -> bool:
        return bool(self._run_on("progress", job_id, attempt, progress.model_dump_json()))

    def keep_findings(
        self, job_id: str, attempt: int, findings: Mapping[str, bytes], progress: Progress, news: Mapping[str, Any]
    ) -> bool:
        about = (progress.model_dump_json(), json.dumps(news))
        flat: list[str | bytes] = [part for finding in findings.items() for part in finding]
        return bool(self._run_on("keep_findings", job_id, attempt, *about, *flat))

    def fail(self, job_id: str, attempt: int, error: JobError, *, max_attempts: int = 1) -> Requeued | None:
        about = error.model_dump_json(), error.type, max_attempts
        return requeued(self._run_on("fail", job_id, attempt, *about, *self._messages))

    def give_back(
        self, job_id: str, attempt: int, error: JobError, *, timeout_s: float, ran_s: float | None = None
    ) -> JobState | None:
        about = error.model_dump_json(), error.type, microseconds(timeout_s), _ran(ran_s)
        outcome: str = self._run_on("give_back", job_id, attempt, *about, *self._messages)[0].decode()
        return None if outcome == "stale" else JobState(outcome)

    # ---- the sweeper's side ----
    def lost_messages(self, queue: str, *, broker_is_empty: bool, grace_s: float) -> Sequence[JobMessage]:
        found = self._run("lost_messages", queue, int(broker_is_empty), microseconds(grace_s), LOST_LIMIT, MAY_SWAP)
        return [
            JobMessage(job_id.decode(), int(attempt), queue, int(number), int(timeout) / 1e6, trace.decode())
            for job_id, attempt, number, timeout, trace in found
        ]

    def republish(self, message: JobMessage) -> JobMessage | None:
        number = self._run_on("republish", message.job_id, message.attempt, message.number, *self._messages)
        return None if number is None else replace(message, number=int(number))

    def expired_leases(self, *, limit: int = 100) -> Sequence[tuple[str, int]]:
        return [(job_id.decode(), int(attempt)) for job_id, attempt in self._run("expired_leases", limit)]

    def take_back(self, job_id: str, attempt: int, *, max_attempts: int) -> Requeued | None:
        lost, late = job_error(WorkerLost), job_error(TimeLimitExceeded)
        errors = (lost.model_dump_json(), lost.type, late.model_dump_json(), late.type)
        return requeued(self._run_on("take_back", job_id, attempt, max_attempts, *errors, *self._messages))

    def settle_dependents(self) -> int:
        return int(self._run("settle"))

    def expire(self, *, job_ttl_s: int, limit: int = 100) -> Sequence[Job]:
        return readable(self._run("expire", microseconds(job_ttl_s), limit), self._when_unreadable)

    def expire_matrices(self, *, limit: int = 100) -> int:
        return int(self._run("expire_matrices", limit))

    # ---- inside ----
    def _binding(self, owner: str, idempotency: IdempotencyKey | None) -> tuple[str, str, int]:
        """Arguments of scripts that bind a key; empty strings if there is none."""
        bound = (key_digest(owner, idempotency.key), idempotency.fingerprint) if idempotency else ("", "")
        return *bound, self._idempotency_ttl_ms

    def _run_on(self, script: str, job_id: str, *args: str | bytes | int) -> Any:
        """Runs a script on one job. Raises JobNotFound if the id cannot be valid."""
        if not JOB_ID.fullmatch(job_id):
            raise JobNotFound
        return self._run(script, job_id, *args)


def _ran(ran_s: float | None) -> int | str:
    """As scripts take it."""
    return "" if ran_s is None else microseconds(ran_s)
