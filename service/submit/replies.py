"""Replies with products. For worker threads: record and product are read in one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from types import MappingProxyType

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from jobs.errors import MatmulError, MatrixDamaged, MatrixNotFound, ProductExpired, WrongState
from jobs.matrices.packed import PackedMatrix
from jobs.models import Job, JobRecord, product_id
from jobs.states import JobState
from jobs.stored import RecordUnreadable
from service.bodies.nested_lists import to_json
from service.context import Context
from service.http.conditions import check_match
from service.http.listed import listed
from service.http.negotiation import JSON, PRODUCT_OFFERS, choose_type, offers_for
from service.http.representations import UNCONDITIONAL, WHOLE_BYTES, Conditions, StoredElements, represent, send
from service.problems import JobCancelled, job_failure, problem_response

PRODUCT_DAMAGED = "The stored bytes are no longer those of the product, so they are not sent; submit the job again."
WITHOUT_PRODUCT: Mapping[JobState, str] = {
    JobState.QUEUED: " yet; ask again when it has succeeded",
    JobState.RUNNING: " yet; ask again when it has succeeded",
    JobState.FAILED: "; its record says why",
    JobState.CANCELLED: "; retry it, or submit a new one",
}
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def job_location(job_id: str) -> dict[str, str]:
    return {"location": f"/v1/jobs/{job_id}"}


def record_json(record: JobRecord) -> bytes:
    return record.model_dump_json(warnings=False).encode()  # names of another version would cause warnings


def product_reply(
    context: Context,
    job: Job,
    media_type: str,
    asked: Conditions = UNCONDITIONAL,
    extra: Mapping[str, str] = NO_HEADERS,
) -> Response:
    """The product of a succeeded job, which was read with its product.

    Raises ProductExpired, MatrixDamaged, PreconditionFailed, RangeNotSatisfiable.
    """
    record = job.record
    headers = {**job_location(record.id), "server-timing": server_timing(record), **extra}
    with sending_product():
        product = product_elements(job)
        if media_type == JSON:
            check_match(asked.if_match)  # this form has no ETag
            return Response(_json_reply(context, record, product), 200, {**headers, "vary": "accept"}, JSON)
        if asked.may_read_nothing and not job.product_in_record:
            context.store.info(product.id, owner=job.owner)  # what is gone has no version and no range
        return send(context, represent(product, media_type), asked, headers)


@contextmanager
def sending_product() -> Iterator[None]:
    """Translates errors of a stored matrix into errors of a product. Raises ProductExpired, MatrixDamaged."""
    try:
        yield
    except MatrixNotFound:
        raise ProductExpired from None
    except MatrixDamaged:
        raise MatrixDamaged(PRODUCT_DAMAGED) from None


def product_elements(job: Job) -> StoredElements:
    """The elements of a succeeded job's product. Raises MatrixNotFound if the record no longer has it."""
    product = job.record.product
    assert product is not None
    name = product_id(job.id, job.record.attempt)
    if not job.product_in_record:
        return StoredElements(name, product.dtype, product.shape)
    if job.packed_product is None:
        raise MatrixNotFound
    return StoredElements(name, product.dtype, product.shape, PackedMatrix(job.packed_product))


def _json_reply(context: Context, record: JobRecord, product: StoredElements) -> bytes:
    """The JSON reply. `c` is null if it has too many elements for JSON."""
    c = b"null"
    if prod(product.shape) <= context.settings.max_json_elements:
        c = to_json(product.load(context), product.dtype)
    return b'{"job":' + record_json(record) + b',"c":' + c + b"}"


def product_type(request: Request, record: JobRecord, offers: Sequence[str]) -> str:
    """The media type for the product. Raises WrongState if there is no product, NotAcceptable, and RecordUnreadable if
    another version recorded it.
    """
    if record.product is None and record.state is JobState.SUCCEEDED and record.kind == "matmul":
        raise RecordUnreadable
    if record.product is None or record.state is not JobState.SUCCEEDED:
        raise WrongState(f"The job is {record.state}, so it has no product{WITHOUT_PRODUCT.get(record.state, '')}.")
    return choose_type(listed(request, "accept"), offers_for(record.product.dtype, offers))


def end_reply(context: Context, job: Job, request: Request, extra: Mapping[str, str]) -> Response | None:
    """The reply for a caller who waited for the job: its product, or the reason why there is none. None while it has
    not ended.
    """
    record = job.record
    match record.state:
        case JobState.SUCCEEDED:
            media_type = product_type(request, record, PRODUCT_OFFERS)
            return product_reply(context, job, media_type, extra=extra)
        case JobState.FAILED:
            assert record.error is not None
            return _no_product(job_failure(record.error.type, record.error.detail), record, request.scope, extra)
        case JobState.CANCELLED:
            return _no_product(JobCancelled(), record, request.scope, extra)
    return None


def reads_store(context: Context, job: Job, request: Request) -> bool:
    """Whether `end_reply` must read a product from the store for so long that it should run in a thread."""
    product = job.record.product
    if product is None:
        return False
    if product_type(request, job.record, PRODUCT_OFFERS) == JSON:
        return prod(product.shape) <= context.settings.max_json_elements
    return reads_long(context, product.bytes)


def reads_long(context: Context, size: int) -> bool:
    """Whether reading this many bytes of a new product takes long. A small product that a worker on this host has just
    written is read faster than a thread starts.
    """
    return size >= WHOLE_BYTES or not context.store.REREADS_AT_ONCE


def _no_product(error: MatmulError, record: JobRecord, scope: Scope, extra: Mapping[str, str]) -> Response:
    return problem_response(error, scope, {**job_location(record.id), **extra}, members={"job": record.id})


def pending_reply(record: JobRecord, extra: Mapping[str, str] = NO_HEADERS) -> Response:
    """The 202 reply with the recorded job and its URL."""
    headers = {**job_location(record.id), "retry-after": "1", "cache-control": "no-store", **extra}
    return Response(b'{"job":' + record_json(record) + b"}", 202, headers, JSON)


def server_timing(record: JobRecord) -> str:
    """The `Server-Timing` header: the time of each step, in milliseconds."""
    timing = record.timing
    assert timing is not None
    parts = {
        "queue": timing.queue_ms,
        "h2d": timing.h2d_ms,
        "kernel": timing.kernel_ms,
        "d2h": timing.d2h_ms,
        "total": timing.total_ms,
    }
    return ", ".join(f"{name};dur={ms:.3f}" for name, ms in parts.items())
