"""`/ui/jobs`: the list with its filters in the URL, one job with its life, and what can be done to it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.responses import RedirectResponse

from jobs.base import Strict
from jobs.ledger import JobFilter
from jobs.models import JobEvent, JobKind, JobRecord, MatmulRequest
from jobs.states import REDRIVABLE, JobState
from kernels.catalog import KERNEL_NAMES
from service.context import context_of, owner_of
from service.dashboard.render import page
from service.security import check_same_site
from service.submit import check_operands, send_message

LAST_EVENTS = 200

router = APIRouter(prefix="/ui/jobs", include_in_schema=False)


class ListQuery(Strict):
    """Filters; an empty one is what a form sends for none."""

    state: JobState | str = Field("", max_length=20)
    kind: JobKind | str = Field("", max_length=20)
    kernel: str = Field("", max_length=100)
    q: str = Field("", max_length=100)
    cursor: str | None = Field(None, max_length=100)


@router.get("")
async def job_list(request: Request, query: Annotated[ListQuery, Query()]) -> Response:
    context = context_of(request)
    state = JobState(query.state) if query.state in list(JobState) else None
    where = JobFilter(owner_of(request), state, query.kind or None, query.kernel or None, query.q or None)
    found = await context.call(context.ledger.list, where, limit=50, cursor=query.cursor)
    kept = query.model_dump(mode="json", exclude_defaults=True)
    following = urlencode(kept | {"cursor": found.cursor}) if found.cursor else None
    return page(
        request,
        "jobs.html",
        jobs=[job.record for job in found.jobs],
        query=query,
        following=following,
        states=[one.value for one in JobState],
        kinds=("matmul", "benchmark"),
        kernels=KERNEL_NAMES,
    )


@router.get("/{job_id}")
async def one_job(request: Request, job_id: str) -> Response:
    context, owner = context_of(request), owner_of(request)
    job = await context.call(context.ledger.get, job_id, owner=owner)
    events = await context.call(context.ledger.events, job_id, limit=1000)
    record = job.record
    return page(
        request,
        "job.html",
        job=record,
        events=[(event, _when(event)) for event in events if event.event != "progress"][-LAST_EVENTS:],
        can_cancel=not record.state.is_terminal,
        can_retry=record.state in REDRIVABLE,
        times=_times(record),
        request_json=record.request.model_dump_json(indent=2),
        is_product=isinstance(record.request, MatmulRequest),
    )


def _when(event: JobEvent) -> datetime:
    """Its id begins with the milliseconds since the epoch."""
    return datetime.fromtimestamp(int(event.id.partition("-")[0]) / 1e3, UTC)


def _times(record: JobRecord) -> list[tuple[str, float, float]]:
    """Name, milliseconds and share of the whole, of each part that was timed."""
    timing = record.timing
    if timing is None:
        return []
    parts = (
        ("in the queue", timing.queue_ms),
        ("copy in", timing.h2d_ms),
        ("kernel", timing.kernel_ms),
        ("copy out", timing.d2h_ms),
    )
    rest = max(0.0, timing.total_ms - sum(ms for _, ms in parts))
    whole = max(timing.total_ms, 1e-9)
    return [(name, ms, ms / whole) for name, ms in (*parts, ("all else: check, store, messages", rest))]


@router.post("/{job_id}/cancel")
async def cancel(request: Request, job_id: str) -> Response:
    check_same_site(request.headers)
    context = context_of(request)
    await context.call(context.ledger.cancel, job_id, owner=owner_of(request))
    return RedirectResponse(f"/ui/jobs/{job_id}", 303)


@router.post("/{job_id}/retry")
async def retry(request: Request, job_id: str) -> Response:
    check_same_site(request.headers)
    context, owner = context_of(request), owner_of(request)

    def again() -> None:
        check_operands(context, context.ledger.get(job_id, owner=owner))
        _, publication = context.ledger.redrive(job_id, owner=owner)
        send_message(context, publication)

    await context.call(again)
    return RedirectResponse(f"/ui/jobs/{job_id}", 303)
