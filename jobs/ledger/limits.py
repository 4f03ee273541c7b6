"""How many jobs may wait, and what one owner may have in flight and ask for in a minute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jobs.errors import QuotaExceeded
from jobs.models import MatmulRequest, NewJob


class Quota(NamedTuple):
    """The most of one owner's; 0 for any number."""

    jobs: int = 0  # in flight: queued and running
    bytes: int = 0  # of their operands and products, wherever those are
    flops_per_minute: float = 0.0


class Cost(NamedTuple):
    """What a job counts for."""

    bytes: int = 0
    flops: float = 0.0


NO_QUOTA = Quota()
NO_COST = Cost()


class Limits(NamedTuple):
    """A job past one of them is refused."""

    all: int
    of_owner: int  # that wait
    quota: Quota = NO_QUOTA

    def arguments(self, cost: Cost) -> tuple[int, str]:
        """As lua/common_quotas.lua reads them."""
        if self.quota == NO_QUOTA:
            return self.all, str(self.of_owner)
        return self.all, " ".join(f"{number:.17g}" for number in (self.of_owner, *self.quota, *cost))


NO_LIMITS = Limits(1 << 53, 1 << 53)


def cost_of(job: NewJob) -> Cost:
    return cost_of_product(job.request) if isinstance(job.request, MatmulRequest) else Cost(0, job.flops)


def cost_of_product(request: MatmulRequest) -> Cost:
    problem = request.problem
    return Cost(problem.operand_bytes + problem.product_bytes, float(problem.flops))


def quota_exceeded(reply: Sequence[bytes | int]) -> QuotaExceeded:
    """The refusal of lua/common_quotas.lua: which limit, how much it is, and after how many seconds to try again."""
    match reply[1:]:
        case [b"jobs", most, _]:
            return QuotaExceeded(f"This API key has {_number(most)} jobs in flight, as many as it may; {_WHEN}.")
        case [b"bytes", most, _]:
            return QuotaExceeded(
                f"With this job's operands and product the key's jobs in flight would hold more than the "
                f"{_number(most)} bytes that they may; {_WHEN}, or make it smaller."
            )
        case [b"flops", most, wait_s]:
            return QuotaExceeded(
                f"This API key has asked for the {_number(most)} operations that it may in a minute; try again in "
                f"{int(wait_s)} s.",
                retry_after_s=int(wait_s),
            )
    return QuotaExceeded()


_WHEN = "try again when some have finished"


def _number(text: bytes | int) -> str:
    return f"{float(text):.15g}"
