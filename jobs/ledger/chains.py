"""Jobs whose operands are the products of other jobs: what the ledger's scripts need to know of them."""

from __future__ import annotations

from collections.abc import Mapping

from jobs.errors import OperandFailed
from jobs.models import JobError, MatmulRequest, product_id
from jobs.states import JobState

# How a job ended without a product, as words in a sentence; the same as in lua/common_chains.lua.
ENDS = {JobState.FAILED: "failed", JobState.CANCELLED: "was cancelled"}


def operand_failed(job_id: str, end: str, *, field: str | None = None) -> OperandFailed:
    """The error of a job that cannot run because the job that an operand names ended without a product (`end`, one of
    ENDS).
    """
    return OperandFailed(
        f"An operand is the product of {job_id}, which {end}; retry that job and then this one, or submit both anew.",
        field=field,
    )


def unmet_error() -> str:
    """The error of a job whose awaited product never came, as a JSON template with placeholders for the other job and
    its end.
    """
    error = operand_failed("@job@", "@end@")
    return JobError(type=error.type, detail=error.detail).model_dump_json()


def sources_of(request: object) -> dict[str, str]:
    """For each operand that is a job's product, the id of that job."""
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
