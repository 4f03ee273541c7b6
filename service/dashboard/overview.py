"""`/`: who works, what waits, what was last done. And the sign-in, where keys are on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from jobs.errors import Unauthenticated
from jobs.fleet.workers import WorkerInfo
from jobs.ledger.interface import JobFilter, QueueDepth
from jobs.models import JobRecord
from jobs.queue import QUEUES
from jobs.states import JobState
from service.bodies.form import read_form
from service.context import Context, context_of, owner_of
from service.dashboard.render import page
from service.dashboard.session import own_path, signed_in, signed_out
from service.http.access import SIGN_OUT
from service.http.origins import check_origin
from service.http.security import FRONT, SIGN_IN, note_failure
from service.sessions import cookie_name

LAST_JOBS = 10
FORM_BYTES = 4 << 10  # of the sign-in, which anyone may send

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Overview:
    """What the overview shows, read in one trip to a worker thread."""

    workers: Sequence[WorkerInfo]
    depths: Mapping[str, QueueDepth]
    counts: Mapping[JobState, int]
    jobs: Sequence[JobRecord]
    running: Mapping[str, JobRecord]  # the reader's own, that a worker runs now


def look(context: Context, owner: str) -> Overview:
    """Raises StoreUnavailable."""
    workers = context.workers.now()
    queues = sorted({name for worker in workers for name in (worker.queue, worker.bench_queue) if name}.union(QUEUES))
    last = context.ledger.list(JobFilter(owner), limit=LAST_JOBS)
    running = context.ledger.list(JobFilter(owner, JobState.RUNNING), limit=LAST_JOBS)
    return Overview(
        workers,
        context.ledger.depths(queues),
        context.ledger.counts(),
        [job.record for job in last.jobs],
        {job.id: job.record for job in running.jobs},
    )


@router.get(FRONT)
async def overview(request: Request) -> Response:
    if request.scope["state"].get("is_stranger"):
        return _form(request, FRONT)
    context = context_of(request)
    seen = await context.call(look, context, owner_of(request))
    return page(
        request,
        "overview.html",
        workers=seen.workers,
        depths=seen.depths,
        counts={} if request.scope["state"].get("signed_in") else {s.value: n for s, n in seen.counts.items()},
        jobs=seen.jobs,
        running=seen.running,
        version=request.app.version,
    )


def _form(request: Request, wanted: str, error: str | None = None, status: int = 200) -> Response:
    return page(request, "sign_in.html", status=status, wanted=own_path(wanted), error=error)


@router.get(SIGN_IN)
async def sign_in_form(
    request: Request, wanted: Annotated[str, Query(alias="next", max_length=2000)] = FRONT
) -> Response:
    return _form(request, wanted)


@router.post(SIGN_IN)
async def sign_in(request: Request) -> Response:
    """Where keys are off there is nothing to sign in to."""
    check_origin(request.headers)
    context = context_of(request)
    form = await read_form(request, limit_bytes=FORM_BYTES)
    key, wanted = (form.get(name, [""])[0] for name in ("key", "next"))
    if context.keys is None:
        return RedirectResponse(own_path(wanted), 303)
    try:
        context.keys.reload()
        known = context.keys.known(key)
    except Unauthenticated as error:
        note_failure(context, request.scope, error)
        return _form(request, wanted, error.detail, 401)
    request.scope["state"] |= {"owner": known.id, "role": known.role}  # for the audit log
    session = await context.call(context.sessions.begin, known)
    return signed_in(context.settings, session, wanted)


@router.post(SIGN_OUT)
async def sign_out(request: Request) -> Response:
    check_origin(request.headers)
    context = context_of(request)
    if session := request.cookies.get(cookie_name(context.settings)):
        await context.call(context.sessions.end, session)
    return signed_out(context.settings)
