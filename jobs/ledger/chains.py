"""Jobs whose operands are the products of other jobs: what the ledger's scripts need to know of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag

from jobs.errors import OperandFailed
from jobs.models import JobError, MatmulRequest, product_id
from jobs.states import JobState

# Ends of a job that give no product, as a sentence has them; as in lua/common_chains.lua.
ENDS = {JobState.FAILED: "failed", JobState.CANCELLED: "was cancelled"}


class Taken(IntFlag):
    """What became of a success."""

    NO = 0  # the attempt no longer owns the job
    YES = 1
    AWAITED = 2  # the same, and other jobs waited for its product
    SHARED = 4  # beside one of these: others need operands that were stored for it, which stay
    NO_ROOM = 8  # instead of these: the stores' bounds leave no room for its product, and the job runs still

    @property
    def is_taken(self) -> bool:
        return self not in (Taken.NO, Taken.NO_ROOM)


def operand_failed(job_id: str, end: str, *, field: str | None = None) -> OperandFailed:
    """Why a job cannot run: one that an operand names ended so, as ENDS says it."""
    return OperandFailed(
        f"An operand is the product of {job_id}, which {end}; retry that job and then this one, or submit both anew.",
        field=field,
    )


def unmet_error() -> str:
    """The error of a job that waited in vain, as JSON with places for the other job and its end."""
    error = operand_failed("@job@", "@end@")
    return JobError(type=error.type, detail=error.detail).model_dump_json()


def sources_of(request: object) -> dict[str, str]:
    """By operand, the job whose product it is."""
    if not isinstance(request, MatmulRequest):
        return {}
    return {name: ref.job for name, ref in request.operands.items() if ref.job is not None}


def with_products(request: MatmulRequest, attempts: Mapping[str, int], in_record: str) -> MatmulRequest:
    """The request with the ids of products that are operands. `attempts`: by operand, the one that made it; operands in
    the job's record have no id."""
    known = {}
    for name, job_id in sources_of(request).items():
        if name in attempts and name not in in_record:
            ref = request.operands[name]
            known[name] = ref.model_copy(update={"matrix": product_id(job_id, attempts[name])})
    return request.model_copy(update=known)
