"""A new job as arguments of lua/submit.lua."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from jobs.formats.elements import matrix_bytes
from jobs.ledger.chains import sources_of, unmet_error
from jobs.ledger.interface import Success
from jobs.ledger.limits import NO_COST, NO_QUOTA, Limits, Quota, cost_of, limit_arguments
from jobs.matrices.index import MIN_CHARGE_BYTES, Bounds
from jobs.models import BenchmarkOutcome, MatmulRequest, NewJob, Outcome
from jobs.redis.clock import microseconds
from jobs.requests.job_matrices import JobMatrices, StoredOperand
from jobs.requests.operands import OPERANDS

BESIDE = "beside"  # the `NewJob.batch` of products that may overlap on one worker
_REFERENCES = re.compile(r"a=(\S+) b=(\S+)")  # all that a job needs whose A and B were stored before it


def key_digest(owner: str, key: str) -> str:
    """The name under which an Idempotency-Key is stored: of fixed length, and different for each owner."""
    return hashlib.sha256(f"{owner}\0{key}".encode()).hexdigest()


def submission(
    job: NewJob, limits: Limits, quota: Quota, binding: tuple[str, str, int], bounds: Bounds, max_ended: Limits
) -> tuple[str | bytes | int, ...]:
    """The script's arguments, except for the message. `binding`: the digest of the Idempotency-Key ('' for none),
    the request's fingerprint, and for how many ms they stay bound. A usual job (lua/common.lua) has fewer."""
    # Fields with default values are left out. So a new field appears only in requests that use it, and workers of the
    # previous version can run all others.
    request = job.request.model_dump_json(exclude_defaults=True)
    of_job = (job.id, job.owner, job.kind, job.queue, microseconds(job.timeout_s), request, job.label)
    cost = NO_COST if quota == NO_QUOTA else cost_of(job)
    about = (*of_job, *limit_arguments(limits, quota, cost))
    held = job.matrices
    space = held.product_bytes, microseconds(held.ttl_s), bounds.all_bytes, bounds.of(job.owner)
    sources, needs = sources_of(job.request), needs_of(job)
    if job.batch and not (held.c or binding[0] or sources or quota != NO_QUOTA):
        rest = (*space, job.batch, job.reply_to, *max_ended, job.trace)
        if held.a and held.b and not (held.stored or needs or held.room_bytes):
            return (*about, held.a, held.b, *rest)
        if (references := _REFERENCES.fullmatch(needs)) and not held.stored:
            return (*about, "", "", *rest, held.room_bytes, microseconds(held.used_ttl_s), *references.groups())
        operands = _stored_alone(held, needs)
        if operands and not (held.a or held.b or held.product_bytes):
            return (*about, "", "", *rest, held.room_bytes, *(part for each in operands for part in _described(each)))
    matrices = (getattr(held, name) or b"" for name in OPERANDS)
    chain = (*(sources.get(name, "") for name in OPERANDS), unmet_error() if sources else "")
    return (
        *(*about, *binding, *matrices, *space, job.batch, job.reply_to, *chain, needs),
        *(*max_ended, job.trace, *_stored(job)),
    )


def _stored_alone(matrices: JobMatrices, needs: str) -> Sequence[StoredOperand]:
    """The operands A and B, if they are two matrices stored for the job, and all that it needs."""
    pairs = (matrices.stored, matrices.stored[::-1]) if len(matrices.stored) == 2 else ()
    return next((pair for pair in pairs if needs == f"a+{pair[0].id} b+{pair[1].id}"), ())


def _stored(job: NewJob) -> list[str | int]:
    """Arguments about the store: space for the product, how long existing matrices are kept, and the operands stored
    for the job: their total charge, their time to live, and each one's description.
    """
    held = job.matrices
    charged = sum(max(matrix_bytes(each.dtype, each.shape), MIN_CHARGE_BYTES) for each in held.stored)
    stored: list[str | int] = [held.room_bytes, microseconds(held.used_ttl_s), charged, microseconds(held.ttl_s)]
    for operand in held.stored:
        stored += _described(operand)
    return stored


def _described(operand: StoredOperand) -> Sequence[str | int]:
    size = matrix_bytes(operand.dtype, operand.shape)
    return operand.id, operand.dtype, "x".join(map(str, operand.shape)), size


def claim_on_product(done: Success, bounds: Bounds) -> str:
    """Arguments of lua/succeed.lua for claiming a stored product: element type, shape, bytes, the owner's byte limit,
    and the claim's duration. Empty if there is none.
    """
    if done.claim is None or not isinstance(done.outcome, Outcome):
        return ""
    product, (owner, ttl_s) = done.outcome.product, done.claim
    shape = "x".join(map(str, product.shape))
    return f"{product.dtype} {shape} {product.bytes} {bounds.of(owner)} {microseconds(ttl_s)}"


def measured_of(outcome: Outcome | BenchmarkOutcome) -> str:
    """The figures of a product that lua/common_served.lua counts; empty for a benchmark."""
    if not isinstance(outcome, Outcome):
        return ""
    measured = outcome.measured
    h2d_ns, own_ns, d2h_ns = (int(ms * 1e6) for ms in (measured.h2d_ms, measured.kernel_ms, measured.d2h_ms))
    return f"{h2d_ns} {own_ns} {d2h_ns} {outcome.batch}"


def needs_of(job: NewJob) -> str:
    """The stored matrices that are its operands, as arguments of lua/common_needs.lua."""
    if not isinstance(job.request, MatmulRequest):
        return ""
    return " ".join(
        f"{name}{'+' if ref.source == 'inline' else '='}{ref.matrix}"
        for name, ref in job.request.operands.items()
        if ref.matrix is not None and getattr(job.matrices, name, None) is None
    )
