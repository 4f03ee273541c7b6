"""/v1/benchmarks/pinned, …/pin, …/unpin, …/export and /v1/benchmarks/import."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.bodies.body import Body
from service.bodies.reader import media_type_of, unsupported
from service.context import context_of, owner_of
from service.http.negotiation import JSON
from service.openapi.manual import pinned as manual
from service.openapi.manual.jobs import JobId
from service.pinned.files import MAX_FILE_BYTES, export, import_file
from service.pinned.pins import pin, pinned_of, unpin
from service.submit.replies import job_location, record_json

router = APIRouter(prefix="/v1/benchmarks")


@router.get("/pinned", **manual.LIST)
async def list_pinned(request: Request) -> Response:
    context = context_of(request)
    jobs = await context.call(pinned_of, context, owner_of(request))
    records = b",".join(record_json(job.record) for job in jobs)
    return Response(b'{"limit":%d,"jobs":[%b]}' % (context.settings.max_pinned_per_key, records), media_type=JSON)


@router.post("/import", **manual.IMPORT)
async def import_results(request: Request) -> Response:
    media_type = media_type_of(request.headers.get("content-type"))
    if media_type != JSON:
        raise unsupported(media_type, (JSON,))
    body = await Body(request.scope, request.receive, limit_bytes=MAX_FILE_BYTES).read()
    context = context_of(request)
    job = await context.call(import_file, context, owner_of(request), body)
    await context.check_written()
    return Response(record_json(job.record), 201, job_location(job.id), JSON)


@router.post("/{job_id}/pin", **manual.PIN)
async def pin_results(request: Request, job_id: JobId) -> Response:
    context = context_of(request)
    job = await context.call(pin, context, job_id, owner_of(request))
    return Response(record_json(job.record), media_type=JSON)


@router.post("/{job_id}/unpin", **manual.UNPIN)
async def unpin_results(request: Request, job_id: JobId) -> Response:
    context = context_of(request)
    job = await context.call(unpin, context, job_id, owner_of(request))
    return Response(record_json(job.record), media_type=JSON)


@router.get("/{job_id}/export", **manual.EXPORT)
async def export_results(request: Request, job_id: JobId) -> Response:
    context = context_of(request)
    body = await context.call(export, context, job_id, owner_of(request))
    name = f'attachment; filename="results-{job_id[:12]}.json"'
    return Response(body, 200, {"content-disposition": name, "cache-control": "no-cache"}, JSON)
