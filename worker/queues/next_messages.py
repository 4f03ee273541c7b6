"""Lets a child take messages directly from the broker's list after its task is done. Celery passes a message through
the parent, a pipe, and a task that is set up and acknowledged, which takes about a millisecond, during which no job
begins. So a task stays for a short time after its job and takes the next messages itself. Its parent fetches nothing
meanwhile, for it holds one message at most. A message that is lost here, as with a process that dies, is sent again by
the sweeper like any other.

If possible, the step that takes a message also claims its job, which saves a round trip to Redis.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson
import redis
import structlog

from jobs.errors import StoreUnavailable
from jobs.ledger.claims.by_message import ClaimTerms, NextClaims, NextMessage, look_into
from jobs.ledger.interface import Claimed
from jobs.queue import broker_prefix
from jobs.redis.client import connect
from jobs.redis.connections import beside
from jobs.settings import Settings
from worker.device.retry import retry_until
from worker.queues.stopping import is_stopping

LONGEST_S = 5.0  # for one task; then Celery fetches by itself once
SHARE_OF_LIMIT = 0.01  # of the task's time limit, which goes on: no job loses more of its own
IDLE_S = 1.0  # without a message
LOOK_EVERY_S = 0.2  # whether the worker is to stop, or has messages in another queue
RECOVER_S = 5.0  # within which claims whose answer was lost are looked for; then their leases run out

log = structlog.get_logger(__name__)


class Message(NamedTuple):
    job_id: str
    attempt: int
    timeout_s: float


class NextJob(NamedTuple):
    """`claimed`: it, and others that were claimed with it; None where it is to be claimed."""

    job_id: str
    attempt: int
    claimed: Sequence[Claimed] | None = None


class NextMessages:
    """One per child; for the thread that runs its tasks. With `claims`, jobs are claimed by `terms` in the step that
    takes their messages."""

    def __init__(
        self,
        settings: Settings,
        claims: NextClaims | None = None,
        terms: Callable[[], ClaimTerms] | None = None,
    ) -> None:
        self._claims, self._terms = claims, terms
        self._client = connect(settings)
        self._connections = beside(self._client)
        self._prefix = broker_prefix(settings)
        self._slice_s = min(LOOK_EVERY_S, settings.redis_timeout_s / 2)

    def after(self, timeout_s: float, queue: str, others: Sequence[str]) -> Iterator[NextJob]:
        """Jobs of messages of `queue`, for a task that begins now. `timeout_s` is the task's time limit, and `others`
        are the worker's other queues: it ends when one of them has a message, so that none starves. Whether one has is
        asked with the step that takes the next message; by itself, and before, only after a long job."""
        ends_at = time.monotonic() + min(LONGEST_S, SHARE_OF_LIMIT * timeout_s)
        return self._until(ends_at, timeout_s, queue, others)

    def _until(self, ends_at: float, timeout_s: float, queue: str, others: Sequence[str]) -> Iterator[NextJob]:
        came_at = looked_at = answered_at = time.monotonic()
        while True:
            now = time.monotonic()
            left_s = min(ends_at, came_at + IDLE_S) - now
            if not 0 < left_s <= IDLE_S or is_stopping():  # more is left only where the clock went back
                return
            try:
                looks = others if now - looked_at >= LOOK_EVERY_S else ()
                looked_at = now if looks else looked_at
                if looks and now - answered_at >= LOOK_EVERY_S:  # another job might take as long
                    if self._waits_in(looks):
                        return
                    looks = ()
                taken = self._take(queue, min(self._slice_s, left_s), timeout_s, looks)
                answered_at = time.monotonic()
                raw = taken.raw
                message = None if raw is None or taken.claimed else read_message(raw)
                if raw and message and message.timeout_s > timeout_s:  # Celery's limit would end its job too soon
                    self._client.rpush(self._prefix + queue, raw)
                    return
            except redis.RedisError as error:
                log.info("no message could be taken; Celery fetches the next", reason=str(error))
                yield from self._lost_claims()
                return
            if taken.claimed:
                first = taken.claimed[0]
                yield NextJob(first.job.id, first.attempt, taken.claimed)
            elif message is not None and taken.claimed is None:
                yield NextJob(message.job_id, message.attempt)
            elif raw is not None and message is None:
                log.warning("a message could not be read; if its job waits, the sweeper sends it again", queue=queue)
            if taken.others_wait:
                return
            if taken.claimed or message is not None:
                came_at = time.monotonic()

    def _take(self, queue: str, wait_s: float, timeout_s: float, others: Sequence[str]) -> NextMessage:
        if self._claims is not None and self._terms is not None:
            try:
                about: dict[str, Any] = {"wait_s": wait_s, "max_timeout_s": timeout_s, "others": others}
                return self._claims.claim_next(queue, self._terms(), **about)
            except redis.ResponseError as refusal:  # an older Redis, a user with fewer rights, or a Redis that is full
                if isinstance(refusal, redis.exceptions.NoPermissionError) or "unknown command" in str(refusal):
                    log.info("messages and claims are two steps from now on", reason=str(refusal))
                    self._claims = None
        asked = ("BRPOP", self._prefix + queue, wait_s), *look_into(self._prefix, others)
        found, *waiting = self._connections.ask_together(*asked)
        return NextMessage(None if found is None else found[1], others_wait=waiting not in ([], [0]))

    def _lost_claims(self) -> Iterator[NextJob]:
        """Jobs that Redis may have claimed for this worker before the connection broke; also those that are under way,
        which are no news to whoever has them."""
        if self._claims is None or self._terms is None:
            return
        worker, claimed_by = self._terms().worker, self._claims.claimed_by
        try:
            found = retry_until(lambda: claimed_by(worker), timeout_s=RECOVER_S)
        except StoreUnavailable:
            log.info("jobs may be claimed that this worker knows nothing of; their leases run out")
            return
        yield from (NextJob(job_id, attempt) for job_id, attempt in found)

    def _waits_in(self, queues: Sequence[str]) -> bool:
        (command,) = look_into(self._prefix, queues)
        return bool(self._connections.ask(*command))


def read_message(raw: bytes) -> Message | None:
    """The message; None if the ledger did not send it (`jobs/queue.py`)."""
    try:
        carried = orjson.loads(raw)
        (job_id, attempt), _, _ = orjson.loads(carried["body"])
        _, soft_s = carried["headers"]["timelimit"]
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return None
    is_sound = isinstance(job_id, str) and isinstance(attempt, int) and isinstance(soft_s, int | float)
    return Message(job_id, attempt, float(soft_s)) if is_sound else None
