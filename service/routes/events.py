"""GET /v1/jobs/{job_id}/events."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from service.context import context_of
from service.http.access import whose_jobs
from service.http.listed import sole
from service.http.streams import events_after, stream
from service.openapi.manual import jobs as manual

EVENT_STREAM = "text/event-stream"
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
START = "0-0"

router = APIRouter(prefix="/v1/jobs")


@router.get("/{job_id}/events", **manual.EVENTS)
async def job_events(request: Request, job_id: manual.JobId) -> Response:
    context, owner = context_of(request), whose_jobs(request)
    last_id = sole(request, "Last-Event-ID") or START
    job = await context.call(context.ledger.get, job_id, owner=owner)
    first = await events_after(context, job_id, last_id)
    if job.record.state.is_terminal and first is None:
        return Response(None, 204)  # no more events: an EventSource does not reconnect after a 204
    if request.state.head:
        return StreamingResponse((), 200, HEADERS, EVENT_STREAM)  # as GET, without a length

    async def event_stream() -> AsyncIterator[bytes]:
        with context.hub.watch(job_id) as watch:
            watch.wake()  # for events between the reading and this point
            async for chunk in stream(request, watch, job_id, first, last_id):
                yield chunk

    return StreamingResponse(event_stream(), 200, HEADERS, EVENT_STREAM)
