"""Pinned results: benchmarks that do not expire. Their bytes count in their owner's quota, and their number per key is
limited. For worker threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from jobs.errors import JobNotFound, QuotaExceeded, StoreFull, WrongState
from jobs.matrices.factory import bounds_of as matrix_bounds
from jobs.models import Job
from jobs.redis.client import translated
from jobs.stored import RecordUnreadable
from service.context import Context

log = structlog.get_logger(__name__)


def pinned_of(context: Context, owner: str) -> Sequence[Job]:
    """The owner's pinned benchmarks, most recently pinned first, except those that this version cannot read. Raises
    StoreUnavailable.
    """
    found: list[Job] = []
    for job_id in _ids(context, owner):
        try:
            found.append(context.ledger.get(job_id, owner=owner))
        except JobNotFound:
            continue  # deleted by a service of the previous version
        except RecordUnreadable as error:
            context.metrics.unreadable.inc()
            log.warning("a job cannot be read", job=job_id, reason=repr(error.__cause__))
    return found


@translated()
def _ids(context: Context, owner: str) -> Sequence[str]:
    key = f"{context.settings.key_prefix}pinned:{owner}"
    found: Any = context.client.zrevrange(key, 0, context.settings.max_pinned_per_key - 1)
    return [job_id.decode() for job_id in found]


def is_pinned(context: Context, job: Job) -> bool:
    """Raises StoreUnavailable."""
    return job.id in _ids(context, job.owner)


def pin(context: Context, job_id: str, owner: str) -> Job:
    """Raises JobNotFound, WrongState, QuotaExceeded, StoreFull, StoreUnavailable."""
    _check(context, owner, context.ledger.scripts.run("pin", job_id, owner, *bounds_of(context, owner)))
    return context.ledger.get(job_id, owner=owner)


def unpin(context: Context, job_id: str, owner: str) -> Job:
    """Raises JobNotFound, StoreUnavailable."""
    _check(context, owner, context.ledger.scripts.run("unpin", job_id, owner))
    return context.ledger.get(job_id, owner=owner)


def keep_imported(context: Context, owner: str, job: Mapping[str, str | int], findings: Mapping[str, str]) -> Job:
    """Records an imported job. `job` has the arguments of lua/import.lua in order. Raises QuotaExceeded, StoreFull,
    StoreUnavailable.
    """
    size = sum(len(text.encode()) for text in findings.values())
    flat = [part for finding in findings.items() for part in finding]
    job_id, *rest = job.values()
    arguments = (job_id, owner, *rest, *bounds_of(context, owner), size, *flat)
    _check(context, owner, context.ledger.scripts.run("import", *arguments))
    return context.ledger.get(str(job_id), owner=owner)


def bounds_of(context: Context, owner: str) -> tuple[int, int, int]:
    """The number that an owner may pin, and the byte limits of all owners and of that owner."""
    bounds = matrix_bounds(context.settings)
    return context.settings.max_pinned_per_key, bounds.all_bytes, bounds.of(owner)


def _check(context: Context, owner: str, reply: Any) -> None:
    match reply[0]:
        case b"not_found":
            raise JobNotFound
        case b"not_done":
            raise WrongState("Only a benchmark that succeeded can be pinned; a product expires with its matrices.")
        case b"too_many":
            max_pinned = context.settings.max_pinned_per_key
            raise QuotaExceeded(f"{max_pinned} results are pinned already, the most for one key; unpin some first.")
        case b"full" | b"owner_full":
            raise StoreFull("There is no room to keep more results; unpin or delete some first.")
