"""Limits on waiting jobs and on ended jobs that are kept, and quotas on what one owner may have in flight and request
per minute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jobs.errors import QuotaExceeded
from jobs.models import JobKind, MatmulRequest, NewJob


class Quota(NamedTuple):
    """Limits for one owner; 0 means unlimited."""

    jobs: int = 0  # in flight: queued and running
    bytes: int = 0  # of their operands and products, wherever those are
    flops_per_minute: float = 0.0


class Cost(NamedTuple):
    """What a job counts in its owner's quota."""

    bytes: int = 0
    flops: float = 0.0


NO_QUOTA = Quota()
NO_COST = Cost()


class Limits(NamedTuple):
    """A new job beyond a limit is refused; of ended jobs beyond a limit, the oldest are deleted."""

    all: int
    of_owner: int


NO_LIMITS = Limits(1 << 53, 1 << 53)
QuotaOf = Callable[[str], Quota]  # of an owner


class NewBenchmark(NewJob):
    """A benchmark to be recorded, with its estimated number of operations."""

    kind: JobKind = "benchmark"
    flops: float


def no_quota(_owner: str) -> Quota:
    return NO_QUOTA


def limit_arguments(limits: Limits, quota: Quota, cost: Cost = NO_COST) -> tuple[int, str]:
    """The limits as script arguments; the second is for lua/common_quotas.lua."""
    if quota == NO_QUOTA:
        return limits.all, str(limits.of_owner)
    return limits.all, " ".join(f"{number:.17g}" for number in (limits.of_owner, *quota, *cost))


def cost_of(job: NewJob) -> Cost:
    if isinstance(job.request, MatmulRequest):
        return Cost(job.request.matrix_bytes, float(job.request.problem.flops))
    return Cost(0, job.flops if isinstance(job, NewBenchmark) else 0.0)


def quota_exceeded(reply: Sequence[bytes | int]) -> QuotaExceeded:
    """The error for a refusal by lua/common_quotas.lua, which gives the limit, its value, and after how many seconds to
    retry.
    """
    match reply[1:]:
        case [b"jobs", limit, _]:
            return QuotaExceeded(f"This API key has {_number(limit)} jobs in flight, as many as it may; {_WHEN}.")
        case [b"bytes", limit, _]:
            return QuotaExceeded(
                f"With this job's operands and product the key's jobs in flight would hold more than the "
                f"{_number(limit)} bytes that they may; {_WHEN}, or make it smaller."
            )
        case [b"flops", limit, wait_s]:
            refused = QuotaExceeded(
                f"This API key has asked for the {_number(limit)} operations that it may in a minute; try again in "
                f"{int(wait_s)} s."
            )
            refused.retry_after_s = int(wait_s)
            return refused
    return QuotaExceeded()


_WHEN = "try again when some have finished"


def _number(text: bytes | int) -> str:
    return f"{float(text):.15g}"


class Beside(NamedTuple):
    """How many jobs a worker may have in progress at the same time after a claim. Light jobs, whose matrices have at
    most `light_extent` rows and columns, are counted separately, if allowed.
    """

    heavy: int
    light: int = 0
    light_extent: int = 0


ALONE = Beside(1)
