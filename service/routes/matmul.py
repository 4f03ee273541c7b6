"""POST /v1/matmul."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request, Response

from jobs.errors import JobNotFound, StoreUnavailable
from jobs.ledger.ends import JobEnd
from jobs.models import Job, new_id
from service.bodies.body import Body
from service.bodies.disconnects import unless_gone
from service.bodies.json import JsonReader
from service.bodies.matmul_multipart import MULTIPART, MultipartReader
from service.bodies.reader import MatmulInput, Reader, accepted_type
from service.bodies.receive import receive
from service.bodies.safetensors import SafetensorsReader
from service.bodies.uploads import UploadOwner, UploadSet
from service.changes import Watch
from service.context import Context, context_of, owner_of
from service.http.idempotency import holding_key, key_of
from service.http.listed import listed, sole
from service.http.negotiation import JSON, PRODUCT_OFFERS, SAFETENSORS, choose_type
from service.http.preferences import Wait
from service.http.waiting import applied, first_reply, wait_of
from service.openapi.manual import matmul as manual
from service.submit.dry_run import ProductDryRun
from service.submit.dry_run import dry_run as dry_run_of
from service.submit.job import Receipt
from service.submit.operands import OperandResolver
from service.submit.product import Submitter
from service.submit.replies import end_reply, pending_reply, reads_store

LOST = "The job store has no record of this job any more, as a failover to a replica can have it; send it again."
ACCEPTED_TYPES = (JSON, MULTIPART, SAFETENSORS)

router = APIRouter()


class EndReplies(NamedTuple):
    """How the reply to a job that has ended is made. `make` returns None for one that has not. `reads_store`: whether
    `make` should run in a worker thread."""

    make: Callable[[Context, Job, Request, Mapping[str, str]], Response | None]
    reads_store: Callable[[Context, Job, Request], bool]


PRODUCT_REPLIES = EndReplies(end_reply, reads_store)


@router.post("/v1/matmul", **manual.MULTIPLY)
async def multiply(request: Request, dry_run: Annotated[bool, Query(description=manual.DRY_RUN)] = False) -> Response:
    context = context_of(request)
    choose_type(listed(request, "accept"), PRODUCT_OFFERS)  # before any work is done
    if dry_run:
        key_of(request)  # a dry run makes no job, so the key is not bound, but an invalid one is still refused
        return await _dry_run(request, context)
    wait = wait_of(request, default_s=context.settings.default_wait_s)
    async with holding_key(request) as key:
        job_id = context.new_job_id()
        with context.hub.watch(job_id, answers_only=True) as watch:
            receipt = await _submit(request, context, job_id, key, wait)
            if not receipt.replayed:
                return await answer(request, receipt, watch, wait, key)
        with context.hub.watch(receipt.job_id, ends_only=True) as watch:
            return await answer(request, receipt, watch, wait, key)


async def _submit(request: Request, context: Context, job_id: str, key: str | None, wait: Wait) -> Receipt:
    """Reads the body and records a job for it."""
    parts = _request_parts(request, context, fingerprinted=key is not None)
    accept, waits = listed(request, "accept"), wait.seconds > 0
    submitter = Submitter(
        context, owner_of(request), job_id, parts.operands, accept, key, waits=waits, is_async=wait.is_async
    )
    return await receive(context, parts.body, parts.reader, parts.uploads, submitter.submit, submitter.at_once)


async def _dry_run(request: Request, context: Context) -> Response:
    """Reads and validates the operands, then discards them."""
    parts = _request_parts(request, context, fingerprinted=False)
    plan: ProductDryRun = await receive(
        context,
        parts.body,
        parts.reader,
        parts.uploads,
        lambda asked: dry_run_of(context, parts.operands, asked),
    )
    return Response(plan.model_dump_json(), 200, {"cache-control": "no-store"}, JSON)


@dataclass(frozen=True, slots=True)
class _RequestParts:
    """A request's body and its reader."""

    body: Body
    uploads: UploadSet
    operands: OperandResolver
    reader: Reader[MatmulInput]


def _request_parts(request: Request, context: Context, *, fingerprinted: bool) -> _RequestParts:
    """Raises UnsupportedMediaType."""
    owner, settings = owner_of(request), context.settings
    media_type = accepted_type(sole(request, "Content-Type"), *ACCEPTED_TYPES)
    limit_bytes = settings.max_json_bytes if media_type == JSON else settings.max_body_bytes
    body = Body(request.scope, request.receive, limit_bytes=limit_bytes, memory=context.bodies)
    uploads = UploadSet(
        context.store,
        lambda: UploadOwner(owner, settings.product_ttl_s, name=new_id("op")),
        max_bytes=settings.max_matrix_bytes,
        body_bytes=None if media_type == JSON else body.declared_bytes,
        fingerprinted=fingerprinted,
        unclaimed=context.unclaimed,
    )
    operands = OperandResolver(context, owner)
    return _RequestParts(body, uploads, operands, _reader(request, media_type, body, uploads, operands, context))


def _reader(
    request: Request, media_type: str, body: Body, uploads: UploadSet, operands: OperandResolver, context: Context
) -> Reader[MatmulInput]:
    match media_type:
        case "application/json":
            return JsonReader(uploads.open)
        case "multipart/form-data":
            content_type = request.headers["content-type"]
            return MultipartReader(content_type, uploads.open, operands.check, context.staging_dir)
    return SafetensorsReader(
        uploads.open, operands.check, body_bytes=body.declared_bytes, staging_dir=context.staging_dir
    )


async def answer(
    request: Request,
    receipt: Receipt,
    watch: Watch,
    wait: Wait,
    key: str | None,
    replies: EndReplies = PRODUCT_REPLIES,
) -> Response:
    """The reply: the product, or 202 if it is not ready in time. Raises ClientGone if the client disconnected,
    StoreUnavailable also if the job is gone.
    """
    context, job_id, owner = context_of(request), receipt.job_id, owner_of(request)
    latest: Job | None = None
    extra = applied(wait) | ({"idempotent-replayed": "true"} if receipt.replayed else {})

    async def answered(end: JobEnd) -> Response | None:
        job = receipt.ended(end)
        if job.packed_product is None and replies.reads_store(context, job, request):
            return await context.call(replies.make, context, job, request, extra)
        return replies.make(context, job, request, extra)

    def look() -> Response | None:
        nonlocal latest
        latest = context.ledger.get(job_id, owner=owner, with_product=True)
        return replies.make(context, latest, request, extra)

    try:
        reply = await context.call(look) if receipt.replayed else None  # it may have ended before the watch began
        if reply is None:
            waiting = first_reply(request, watch, wait.seconds, look, None if receipt.replayed else answered)
            reply = await (waiting if key is None else unless_gone(request, waiting))
        if reply is None and wait.seconds:
            reply = await context.call(look)  # it may be gone, after a failover of Redis
    except JobNotFound:
        raise StoreUnavailable(LOST) from None
    if reply is None:
        await context.check_written(receipt.job)  # an ended job need not be checked: a later change of it was persisted
        return pending_reply((latest or receipt.job).record, extra)
    return reply
