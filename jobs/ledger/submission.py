"""A new job as lua/submit.lua takes it."""

from __future__ import annotations

import hashlib

from jobs.formats.elements import matrix_bytes
from jobs.ledger.chains import sources_of, unmet_error
from jobs.ledger.interface import Success
from jobs.ledger.limits import Limits, Quota, cost_of, limit_arguments
from jobs.matrices.index import MIN_CHARGE_BYTES, Bounds
from jobs.models import BenchmarkOutcome, MatmulRequest, NewJob, Outcome
from jobs.redis.clock import microseconds
from jobs.requests.operands import OPERANDS

BESIDE = "beside"  # a `NewJob.batch`: of products that a worker may have under way at the same time


def key_digest(owner: str, key: str) -> str:
    """What an Idempotency-Key is filed under: of fixed length, and another for each owner."""
    return hashlib.sha256(f"{owner}\0{key}".encode()).hexdigest()


def submission(
    job: NewJob, limits: Limits, quota: Quota, binding: tuple[str, str, int], bounds: Bounds, max_ended: Limits
) -> tuple[str | bytes | int, ...]:
    """The script's arguments, but for the message. `binding`: the digest of the Idempotency-Key ('' for none),
    the request's fingerprint, and for how many ms they stay bound."""
    # Without what is by default: a field that is added with a default then is in the request of those who use it alone,
    # and workers of the version before run all others.
    request = job.request.model_dump_json(exclude_defaults=True)
    about = (job.id, job.owner, job.kind, job.queue, microseconds(job.timeout_s), request)
    held = job.matrices
    matrices = (*(getattr(held, name) or b"" for name in OPERANDS), held.product_bytes, microseconds(held.ttl_s))
    room = (bounds.all_bytes, bounds.of(job.owner))
    sources = sources_of(job.request)
    chain = (*(sources.get(name, "") for name in OPERANDS), unmet_error() if sources else "")
    return (
        *(*about, job.label, *limit_arguments(limits, quota, cost_of(job)), *binding, *matrices, *room),
        *(job.batch, job.reply_to, *chain, needs_of(job), *max_ended, job.trace, *_stored(job)),
    )


def _stored(job: NewJob) -> list[str | int]:
    """Room for the product, how long matrices are kept that were there, and the operands that are stored for the job:
    what they are charged together, for how long, and what each is."""
    operands = job.matrices.stored
    sizes = [matrix_bytes(operand.dtype, operand.shape) for operand in operands]
    charged = sum(max(size, MIN_CHARGE_BYTES) for size in sizes)
    held = job.matrices
    stored: list[str | int] = [held.room_bytes, microseconds(held.used_ttl_s), charged, microseconds(held.ttl_s)]
    for operand, size in zip(operands, sizes, strict=True):
        stored += [operand.id, operand.dtype, "x".join(map(str, operand.shape)), size]
    return stored


def claim_on_product(done: Success, bounds: Bounds) -> str:
    """What lua/succeed.lua is given of a stored product that it is to claim: element type, shape, bytes, the most bytes
    of its owner, and for how long. Empty for none."""
    if done.claim is None or not isinstance(done.outcome, Outcome):
        return ""
    product, (owner, ttl_s) = done.outcome.product, done.claim
    shape = "x".join(map(str, product.shape))
    return f"{product.dtype} {shape} {product.bytes} {bounds.of(owner)} {microseconds(ttl_s)}"


def measured_of(outcome: Outcome | BenchmarkOutcome) -> str:
    """What lua/common_served.lua counts of a product; empty for a benchmark."""
    if not isinstance(outcome, Outcome):
        return ""
    measured = outcome.measured
    return f"{measured.h2d_ms!r} {measured.kernel_ms!r} {measured.d2h_ms!r} {outcome.batch}"


def needs_of(job: NewJob) -> str:
    """The stored matrices that are its operands, as lua/common_needs.lua has them."""
    if not isinstance(job.request, MatmulRequest):
        return ""
    return " ".join(
        f"{name}{'+' if ref.source == 'inline' else '='}{ref.matrix}"
        for name, ref in job.request.operands.items()
        if ref.matrix is not None and getattr(job.matrices, name, None) is None
    )
