"""`/ui/jobs/{id}`: one job with its timeline, results, and possible actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from jobs.benchmarks.findings import read_findings
from jobs.benchmarks.records import CaseRecord
from jobs.errors import MatmulError
from jobs.fleet.workers import WorkerInfo
from jobs.models import JobEvent, JobRecord, MatmulRequest
from jobs.states import REDRIVABLE
from service.context import Context, context_of, owner_of
from service.dashboard.charts.bars import BarPart, parts_of
from service.dashboard.charts.product_map import ProductMap, map_of
from service.dashboard.charts.telemetry import held_down, in_order, strips_of
from service.dashboard.jobs.findings import answer_of, doubt, found_so_far
from service.dashboard.jobs.life import life_of, steps_of, troubles_of
from service.dashboard.jobs.list import LIST
from service.dashboard.multiply.clone import clone_of
from service.dashboard.multiply.preview import Preview, ServerAddress, preview
from service.dashboard.render import page
from service.http.access import whose_jobs
from service.http.origins import check_origin
from service.http.security import keys_are_on
from service.pinned.pins import is_pinned
from service.submit.redrive import redrive

router = APIRouter(prefix=LIST, include_in_schema=False)


@dataclass(frozen=True, slots=True)
class JobView:
    """The page's view of a job, read in one worker-thread call."""

    record: JobRecord
    events: Sequence[JobEvent]
    records: Sequence[CaseRecord]  # a benchmark's, in the order they were measured
    worker: WorkerInfo | None  # that runs it now
    product: ProductMap | None
    is_own: bool  # False if an operator looks at another owner's job
    is_pinned: bool


def look(context: Context, owner: str, whose: str | None, job_id: str) -> JobView:
    """Reads a job of `whose`, or of anyone; its results only if the job is the owner's own. Raises JobNotFound,
    StoreUnavailable.
    """
    job = context.ledger.get(job_id, owner=whose, with_product=True)
    is_own = job.owner == owner
    record = job.record
    events = context.ledger.events(job_id, limit=1000)
    found: Mapping[str, bytes] = {} if record.kind == "matmul" or not is_own else context.ledger.findings(job_id)
    kept = read_findings({name: text for name, text in found.items() if name.startswith("record:")})
    worker = next((worker for worker in context.workers.now() if worker.job == job_id), None)
    product = map_of(context, job, owner) if is_own else None
    return JobView(record, events, in_order(kept.records, events), worker, product, is_own, is_pinned(context, job))


@router.get("/{job_id}")
async def one_job(request: Request, job_id: str) -> Response:
    context = context_of(request)
    seen = await context.call(look, context, owner_of(request), whose_jobs(request), job_id)
    steps = steps_of(seen.record, seen.events)
    return page(
        request,
        "job.html",
        job=seen.record,
        steps=steps,
        life=life_of(steps),
        troubles=troubles_of(seen.record, seen.events, seen.records),
        strips=strips_of(seen.records),
        measured=[(one, held_down(one)) for one in seen.records],
        worker=None if seen.record.state.is_terminal else seen.worker,
        found=found_so_far(seen.records),
        answer=answer_of(seen.records) if seen.record.state.is_terminal else None,
        doubt=doubt,
        product=seen.product,
        can_cancel=not seen.record.state.is_terminal,
        can_retry=seen.record.state in REDRIVABLE and seen.is_own,
        is_own=seen.is_own,
        is_pinned=seen.is_pinned,
        times=_times(seen.record),
        is_product=isinstance(seen.record.request, MatmulRequest),
        **_again(request, seen.record),
    )


def _again(request: Request, record: JobRecord) -> dict[str, Any]:
    """The request: a link to change and repeat it, and the same as a command and a program."""
    form = clone_of(record.request) if isinstance(record.request, MatmulRequest) else None
    previewed: Preview | None = None
    if form is not None:
        server = ServerAddress(str(request.base_url).rstrip("/"), keys_are_on(context_of(request).settings))
        try:
            previewed = preview(form, server)
        except MatmulError:  # the form cannot express it
            previewed = None
    address = form.whole_address() if form else None
    return {"request_json": record.request.model_dump_json(indent=2), "preview": previewed, "clone": address}


def _times(record: JobRecord) -> Sequence[BarPart]:
    """The time of each measured step."""
    timing = record.timing
    if timing is None:
        return ()
    named = {
        "in the queue": timing.queue_ms,
        "copy in": timing.h2d_ms,
        "kernel": timing.kernel_ms,
        "copy out": timing.d2h_ms,
    }
    rest = max(0.0, timing.total_ms - sum(named.values()))
    return parts_of([*named.items(), ("all else: check, store, messages", rest)])


@router.post("/{job_id}/cancel")
async def cancel(request: Request, job_id: str) -> Response:
    check_origin(request.headers)
    context = context_of(request)
    await context.call(context.ledger.cancel, job_id, owner=whose_jobs(request))
    return RedirectResponse(f"{LIST}/{job_id}", 303)


@router.post("/{job_id}/retry")
async def retry_job(request: Request, job_id: str) -> Response:
    check_origin(request.headers)
    context = context_of(request)
    await context.call(redrive, context, job_id, owner_of(request))
    return RedirectResponse(f"{LIST}/{job_id}", 303)
