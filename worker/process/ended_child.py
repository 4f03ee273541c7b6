"""Handles a dead child: its jobs are queued again at once, not only when their leases expire.

The parent notices the death and does this before it starts another child. If Redis did not answer then, or a claim of
the dead child was still in transit, the next child does it before it takes a job.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from functools import cache

import structlog

from jobs.errors import MatmulError
from jobs.ledger.ended_child import EndedChildren
from jobs.queue import make_celery, message_format
from jobs.redis.client import connect
from jobs.settings import Settings, get_settings
from jobs.tracing.export import make_tracing
from jobs.tracing.request_trace import log_fields
from jobs.tracing.spans import Tracing

log = structlog.get_logger(__name__)


def worker_id(device: str, parent: int) -> str:
    """The worker's name: it is its parent process's, so a child that follows another has the same."""
    return f"{socket.gethostname()}/{device}/{parent}"


def take_back(settings: Settings, worker: str, messages: Sequence[str] = (), tracing: Tracing | None = None) -> None:
    """Raises StoreUnavailable, StoreFull."""
    with connect(settings) as client, make_celery(settings) as app:
        ended = EndedChildren(client, prefix=settings.key_prefix, messages=message_format(app))
        for taken in ended.take_back(worker, max_attempts=settings.max_attempts, messages=messages):
            about = {"job": taken.job_id, "attempt": taken.attempt, **log_fields(taken.trace)}
            log.warning("a job was taken back from a dead process", **about)
            if taken.lost is not None:
                taken.lost.tell(tracing, taken.job_id, taken.attempt)


@cache
def _parent_tracing() -> Tracing | None:
    """Made where the first child dies: until then the parent has nothing to tell."""
    return make_tracing("worker")


def take_back_from_child(messages: Sequence[str]) -> None:
    """Requeues the jobs of a child that has ended. Called by the parent; tries once."""
    settings = get_settings()
    try:
        take_back(settings, worker_id(settings.device, os.getpid()), messages, _parent_tracing())
    except MatmulError as error:
        log.warning("jobs of a dead process were not taken back; the next one will", reason=error.type)
