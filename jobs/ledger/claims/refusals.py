"""Handles jobs that a worker claimed but whose request its version does not understand. They are returned to the queue
without using up an attempt, since another worker may understand them. If every live worker of their queue has refused
them for long enough, they fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import structlog

from jobs.errors import StoreUnavailable
from jobs.fleet.workers import WorkerInfo
from jobs.ledger.claims.claimed import claimed_job, identity_of
from jobs.ledger.interface import Claimed
from jobs.models import JobError
from jobs.redis.clock import microseconds
from jobs.stored import NotUnderstood
from jobs.tracing.request_trace import log_fields

LONGEST_PAUSE_S = 10.0  # longest pause from a refusal until the next offer; the first is none, the second one second
LIMIT = 1000  # jobs examined in one sweep

log = structlog.get_logger(__name__)


class Refusals:
    """`run` runs the ledger's scripts (`RedisScripts.run`); `messages` are the arguments with which they send messages.
    Raises StoreUnavailable.
    """

    def __init__(self, run: Callable[..., Any], messages: tuple[str, str]) -> None:
        self._run = run
        self._messages = messages

    def understood(self, worker: str, replies: Sequence[Any]) -> list[Claimed]:
        """The jobs in a reply of lua/claim.lua that this worker understands; the others are returned to the queue."""
        claimed, refused = [], []
        for reply in replies:
            try:
                claimed.append(claimed_job(reply, worker))
            except (NotUnderstood, LookupError, TypeError, ValueError):
                job_id, attempt, trace = identity_of(reply)
                refused.append((job_id, attempt))
                log.warning("a job asks for what this version does not know", job=job_id, **log_fields(trace))
        if refused:
            self._refuse(worker, refused)
        return claimed

    def _refuse(self, worker: str, jobs: Sequence[tuple[str, str]]) -> None:
        """Returns jobs that this worker has just claimed. If Redis is unavailable, their leases expire instead."""
        flat = [part for job in jobs for part in job]
        try:
            self._run("refuse", worker, microseconds(LONGEST_PAUSE_S), *flat)
        except StoreUnavailable:
            log.warning("jobs could not be given back; the sweeper will see to them")

    def give_up(self, live: Sequence[WorkerInfo], *, older_than_s: float) -> int:
        """Fails jobs that all live workers of their queue refused and whose first refusal is old enough; returns how
        many.
        """
        error = NotUnderstood()
        about = JobError(type=error.type, detail=error.detail).model_dump_json(), error.type
        count = 0
        for job_id, attempt, queue, refused_by, trace in self._run("refused", microseconds(older_than_s), LIMIT):
            asked = {worker.id for worker in live if queue.decode() in (worker.queue, worker.bench_queue)}
            if asked and asked <= {*refused_by.decode().split()}:
                about_job = {"job": job_id.decode(), **log_fields(trace.decode())}
                log.warning("no live worker understands a job, so it fails", **about_job)
                count += int(self._run("give_up", job_id, attempt, *about, *self._messages))
        return count
