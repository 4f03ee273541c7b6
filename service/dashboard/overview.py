"""`/`: who works, what waits, what was last done. And the sign-in, where keys are on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from jobs.errors import Unauthenticated
from jobs.fleet.workers import WorkerInfo
from jobs.ledger.interface import JobFilter, QueueDepth
from jobs.models import JobRecord
from jobs.states import JobState
from service.context import Context, context_of, owner_of
from service.dashboard.render import page
from service.dashboard.session import own_path, signed_in, signed_out
from service.http.security import FRONT, SIGN_IN, check_same_site, key_ring
from service.keys import KeyRing

LAST_JOBS = 10

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
    queues = sorted({name for worker in workers for name in (worker.queue, worker.bench_queue) if name})
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
async def sign_in(
    request: Request,
    key: Annotated[str, Form(max_length=200)],
    wanted: Annotated[str, Form(alias="next", max_length=2000)] = FRONT,
) -> Response:
    """Where keys are off there is nothing to sign in to."""
    check_same_site(request.headers)
    context = context_of(request)
    try:
        ring: KeyRing | None = await context.call(key_ring, context.settings)
        if ring is not None:
            ring.owner_of(key)
    except Unauthenticated as error:
        return _form(request, wanted, error.detail, 401)
    return signed_in(request, key, wanted)


@router.post("/ui/sign-out")
async def sign_out(request: Request) -> Response:
    check_same_site(request.headers)
    return signed_out()
