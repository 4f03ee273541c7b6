"""Lets a child take messages directly from the broker's list after its task is done. Celery passes a message through
the parent, a pipe, and a task that is set up and acknowledged, which takes about a millisecond, during which no job
begins. So a task stays for a short time after its job and takes the next messages itself. Its parent fetches nothing
meanwhile, for it holds one message at most. A message that is lost here, as with a process that dies, is sent again by
the sweeper like any other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from mmap import mmap
from typing import Any, NamedTuple

import orjson
import redis
import structlog

from jobs.queue import broker_prefix
from jobs.redis.client import connect
from jobs.redis.connections import beside
from jobs.settings import Settings

LONGEST_S = 5.0  # for one task; then Celery fetches by itself once
SHARE_OF_LIMIT = 0.01  # of the task's time limit, which goes on: no job loses more of its own
IDLE_S = 1.0  # without a message
LOOK_EVERY_S = 0.2  # whether the worker is to stop, or has messages in another queue

log = structlog.get_logger(__name__)

_stopping = mmap(-1, 1)  # shared by the parent and the children that it forks


def worker_stops() -> None:
    """For the parent: no child is to take another message."""
    _stopping[0] = 1


class Message(NamedTuple):
    job_id: str
    attempt: int
    timeout_s: float


class NextMessages:
    """Of one child; for the thread that runs its tasks."""

    def __init__(self, settings: Settings) -> None:
        self._client = connect(settings)
        self._connections = beside(self._client)
        self._prefix = broker_prefix(settings)
        self._slice_s = min(LOOK_EVERY_S, settings.redis_timeout_s / 2)

    def after(self, timeout_s: float, queue: str, others: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Jobs and attempts of messages of `queue`, for a task that begins now. `timeout_s` is the task's time limit,
        and `others` are the worker's other queues: it ends when one of them has a message, so that none starves."""
        ends_at = time.monotonic() + min(LONGEST_S, SHARE_OF_LIMIT * timeout_s)
        return self._until(ends_at, timeout_s, queue, others)

    def _until(self, ends_at: float, timeout_s: float, queue: str, others: Sequence[str]) -> Iterator[tuple[str, int]]:
        came_at = looked_at = time.monotonic()
        while True:
            now = time.monotonic()
            left_s = min(ends_at, came_at + IDLE_S) - now
            if not 0 < left_s <= IDLE_S or _stopping[0]:  # more is left only where the clock went back
                return
            try:
                if now - looked_at >= LOOK_EVERY_S:
                    looked_at = now
                    if self._waits_in(others):
                        return
                raw = self._taken(queue, min(self._slice_s, left_s))
                if raw is None:
                    continue
                message = read_message(raw)
                if message is not None and message.timeout_s > timeout_s:  # Celery's limit would end its job too soon
                    self._client.rpush(self._prefix + queue, raw)
                    return
            except redis.RedisError as error:
                log.info("no message could be taken; Celery fetches the next", reason=str(error))
                return
            if message is None:
                log.warning("a message could not be read; if its job waits, the sweeper sends it again", queue=queue)
                continue
            yield message.job_id, message.attempt
            came_at = time.monotonic()

    def _taken(self, queue: str, timeout_s: float) -> bytes | None:
        found: Any = self._connections.ask("BRPOP", self._prefix + queue, timeout_s)
        return None if found is None else found[1]

    def _waits_in(self, queues: Sequence[str]) -> bool:
        return any(self._client.llen(self._prefix + queue) for queue in queues)


def read_message(raw: bytes) -> Message | None:
    """None for what the ledger did not send (`jobs/queue.py`)."""
    try:
        carried = orjson.loads(raw)
        (job_id, attempt), _, _ = orjson.loads(carried["body"])
        _, soft_s = carried["headers"]["timelimit"]
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return None
    is_sound = isinstance(job_id, str) and isinstance(attempt, int) and isinstance(soft_s, int | float)
    return Message(job_id, attempt, float(soft_s)) if is_sound else None
