"""/v1/jobs: records, listing, products, cancel, retry, delete."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Annotated
from urllib.parse import urlencode

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import BeforeValidator, Field

from jobs.base import Strict
from jobs.errors import WrongState
from jobs.kernel_choice import KernelChoice
from jobs.ledger.interface import JobFilter
from jobs.models import Job, JobKind, JobRecord
from jobs.states import JobState
from service.context import Context, context_of, owner_of
from service.http.access import check_role, role_of, whose_jobs
from service.http.conditions import check_change, check_match, is_conditional, none_match
from service.http.idempotency import as_replay, bound_as, holding_key, once
from service.http.listed import listed
from service.http.negotiation import FILE_OFFERS, JSON
from service.http.representations import Conditions
from service.http.waiting import applied, first_reply, wait_of
from service.keys import Role
from service.openapi.manual import jobs as manual
from service.operations.dead_letters import forget_job
from service.submit.redrive import redrive
from service.submit.replies import job_location, pending_reply, product_reply, product_type, record_json

router = APIRouter(prefix="/v1/jobs")


def _whole(text: object) -> object:
    """Text of a query that is a number in JSON too: pydantic alone reads `1_0` as 10, and `1.0` as 1."""
    if isinstance(text, str) and not re.fullmatch(r"-?[0-9]+", text):
        raise ValueError("a whole number belongs here")
    return text


class JobQuery(Strict):
    """Which jobs to list."""

    state: JobState | None = Field(None, description="Only jobs in this state.", examples=["succeeded"])
    kind: JobKind | None = Field(None, description="Only jobs of this kind.", examples=["matmul"])
    kernel: KernelChoice | None = Field(
        None,
        description="Only jobs that ran this kernel, or that ask for it and have not run yet.",
        examples=["cpu_blas"],
    )
    q: str | None = Field(
        None,
        max_length=100,
        description="Part of the id, kernel, error type or device, or of a benchmark's title or preset.",
        examples=["H200"],
    )
    owner: str | None = Field(
        None,
        max_length=64,
        description="Id of the API key whose jobs to list; for operators.",
        examples=["3f0c5a7d9e11"],
    )
    limit: Annotated[int, BeforeValidator(_whole)] = Field(50, ge=1, le=200, description="Most jobs in one page.")
    cursor: str | None = Field(None, max_length=100, description="`next` of the previous page.")


@router.get("", **manual.LIST)
async def list_jobs(request: Request, query: Annotated[JobQuery, Query()]) -> Response:
    context, owner = context_of(request), owner_of(request)
    if query.owner not in (None, owner):
        check_role(role_of(request), Role.OPERATOR)
    where = JobFilter(query.owner or owner, query.state, query.kind, query.kernel, query.q)
    page = await context.call(context.ledger.list, where, limit=query.limit, cursor=query.cursor)
    records = b",".join(record_json(job.record) for job in page.jobs)
    headers = {"cache-control": "no-cache"}
    if page.cursor is not None:
        following = query.model_copy(update={"cursor": page.cursor}).model_dump(exclude_none=True, mode="json")
        headers["link"] = f'</v1/jobs?{urlencode(following)}>; rel="next"'
    return Response(b'{"jobs":[' + records + b'],"next":' + orjson.dumps(page.cursor) + b"}", 200, headers, JSON)


@router.get("/{job_id}", **manual.GET)
async def get_job(request: Request, job_id: manual.JobId) -> Response:
    context, owner = context_of(request), whose_jobs(request)
    known = listed(request, "if-none-match")
    wait = wait_of(request, default_s=0.0)

    def read() -> Job:
        return context.ledger.get(job_id, owner=owner)

    def look() -> Response | None:
        job = read()
        return _record_reply(job, known, applied(wait)) if _is_news(job, known) else None

    with context.hub.watch(job_id) as watch:
        job = await context.call(read)
        check_match(listed(request, "if-match"), _etag(job))
        if wait.seconds and not _is_news(job, known):
            reply = await first_reply(request, watch, wait.seconds, look)
            return reply or _record_reply(await context.call(read), known, applied(wait))
    return _record_reply(job, known, applied(wait))


def _etag(job: Job) -> str:
    return f'"{job.version}"'


def _is_news(job: Job, known: str | None) -> bool:
    """Whether a long poll is answered: the job has another version than the caller's or, without one, has ended."""
    return job.record.state.is_terminal if known is None else not none_match(known, _etag(job))


def _record_reply(job: Job, known: str | None, extra: dict[str, str]) -> Response:
    headers = {"etag": _etag(job), "cache-control": "no-cache", **extra}
    if none_match(known, _etag(job)):
        return Response(None, 304, headers)
    return Response(record_json(job.record), 200, headers, JSON)


@router.get("/{job_id}/product", **manual.PRODUCT)
async def get_product(request: Request, job_id: manual.JobId) -> Response:
    context, owner = context_of(request), owner_of(request)

    def look() -> Response:
        job = context.ledger.get(job_id, owner=owner, with_product=True)
        record = job.record
        if record.kind == "benchmark":
            raise WrongState(f"The job is a benchmark, so it has no product; see /v1/benchmarks/{job_id}/results.")
        media_type = product_type(request, record, _file_offers(context, record))
        return product_reply(context, job, media_type, Conditions.of(request))

    return await context.call(look)


def _file_offers(context: Context, record: JobRecord) -> Sequence[str]:
    """The media types of a product; JSON only if it is small enough."""
    elements = prod(record.product.shape) if record.product else 0
    return FILE_OFFERS if elements <= context.settings.max_json_elements else FILE_OFFERS[:-1]


@router.post("/{job_id}/cancel", **manual.CANCEL)
async def cancel_job(request: Request, job_id: manual.JobId) -> Response:
    context, owner = context_of(request), whose_jobs(request)

    cancelled: list[Job] = []

    def cancel() -> tuple[Response, str]:
        job, outcome = context.ledger.cancel(job_id, owner=owner)
        cancelled.append(job)
        return _cancelled_reply(job, 202 if outcome == "cancelled" else 200), job_id

    def again(first: str) -> Response:
        cancelled.append(context.ledger.get(first, owner=owner))
        return _cancelled_reply(cancelled[-1], 200)

    async with holding_key(request) as key:
        reply = await context.call(once, request, key, "", cancel, again)
        await context.check_written(*cancelled)
    return reply


def _cancelled_reply(job: Job, status: int) -> Response:
    return Response(record_json(job.record), status, {"etag": _etag(job), **job_location(job.id)}, JSON)


@router.post("/{job_id}/retry", **manual.RETRY)
async def retry_job(request: Request, job_id: manual.JobId) -> Response:
    context, owner = context_of(request), owner_of(request)

    async with holding_key(request) as key:
        job, is_replay = await context.call(redrive, context, job_id, owner, bound_as(request, key))
        await context.check_written(job)
    reply = pending_reply(job.record)
    return as_replay(reply) if is_replay else reply


@router.delete("/{job_id}", **manual.DELETE)
async def delete_job(request: Request, job_id: manual.JobId) -> Response:
    context, owner = context_of(request), owner_of(request)

    def forget() -> None:
        if is_conditional(request):
            check_change(request, _etag(context.ledger.get(job_id, owner=owner)))
        forget_job(context, job_id, owner)

    await context.call(forget)
    return Response(None, 204)
