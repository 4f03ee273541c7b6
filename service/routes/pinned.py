"""/v1/benchmarks/pinned, …/pin, …/unpin, …/export and /v1/benchmarks/import."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial

from fastapi import APIRouter, Request, Response

from jobs.models import Job
from service.bodies.reader import accepted_type
from service.context import Context, context_of, owner_of
from service.http.idempotency import holding_key, once
from service.http.listed import sole
from service.http.negotiation import JSON
from service.openapi.manual import pinned as manual
from service.openapi.manual.jobs import JobId
from service.pinned.files import export, import_file
from service.pinned.pins import pin, pinned_of, unpin
from service.pinned.upload import FileReader, receive_file
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
    accepted_type(sole(request, "Content-Type"), JSON)
    context, owner = context_of(request), owner_of(request)
    async with holding_key(request) as key:
        imported: list[Job] = []

        def act(file: bytes) -> tuple[Response, str]:
            job = import_file(context, owner, file)
            imported.append(job)
            return _import_reply(job), job.id

        def again(first: str) -> Response:
            imported.append(context.ledger.get(first, owner=owner))
            return _import_reply(imported[-1])

        def act_once(file: bytes) -> Response:
            contents = "" if key is None else hashlib.sha256(file).hexdigest()
            return once(request, key, contents, partial(act, file), again)

        reply = await receive_file(request, FileReader(), act_once)
        await context.check_written(*imported)
    return reply


def _import_reply(job: Job) -> Response:
    return Response(record_json(job.record), 201, job_location(job.id), JSON)


@router.post("/{job_id}/pin", **manual.PIN)
async def pin_results(request: Request, job_id: JobId) -> Response:
    return await _switch(request, job_id, pin)


@router.post("/{job_id}/unpin", **manual.UNPIN)
async def unpin_results(request: Request, job_id: JobId) -> Response:
    return await _switch(request, job_id, unpin)


async def _switch(request: Request, job_id: str, switch: Callable[[Context, str, str], Job]) -> Response:
    context, owner = context_of(request), owner_of(request)

    def act() -> tuple[Response, str]:
        return _record(switch(context, job_id, owner)), job_id

    def again(first: str) -> Response:
        return _record(context.ledger.get(first, owner=owner))

    async with holding_key(request) as key:
        return await context.call(once, request, key, "", act, again)


def _record(job: Job) -> Response:
    return Response(record_json(job.record), media_type=JSON)


@router.get("/{job_id}/export", **manual.EXPORT)
async def export_results(request: Request, job_id: JobId) -> Response:
    context = context_of(request)
    body = await context.call(export, context, job_id, owner_of(request))
    name = f'attachment; filename="results-{job_id[:12]}.json"'
    return Response(body, 200, {"content-disposition": name, "cache-control": "no-cache"}, JSON)
