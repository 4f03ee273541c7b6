"""/v1/queues, /v1/workers and /v1/dead-letters: what operators see and steer."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from service.context import Context, context_of, owner_of
from service.http.access import check_role, role_of
from service.http.negotiation import JSON
from service.keys import Role
from service.openapi.manual import operations as manual
from service.operations.dead_letters import dead_letters_of
from service.operations.steering import drain_worker, queues_of, switch_queue, switch_service
from service.submit.replies import record_json

router = APIRouter(prefix="/v1")


async def _steered(request: Request, work: Callable[[Context], BaseModel]) -> Response:
    check_role(role_of(request), Role.OPERATOR)
    context = context_of(request)
    return _reply(await context.call(work, context))


def _reply(model: BaseModel) -> Response:
    return Response(model.model_dump_json(), 200, {"cache-control": "no-cache"}, JSON)


@router.get("/queues", **manual.QUEUES)
async def list_queues(request: Request) -> Response:
    context = context_of(request)
    return _reply(await context.call(queues_of, context))


@router.post("/queues/pause", **manual.PAUSE)
async def pause_service(request: Request) -> Response:
    return await _steered(request, lambda context: switch_service(context, "pause"))


@router.post("/queues/resume", **manual.RESUME)
async def resume_service(request: Request) -> Response:
    return await _steered(request, lambda context: switch_service(context, "resume"))


@router.post("/queues/{queue}/pause", **manual.PAUSE_QUEUE)
async def pause_queue(request: Request, queue: manual.QueueName) -> Response:
    return await _steered(request, lambda context: switch_queue(context, queue, "pause"))


@router.post("/queues/{queue}/resume", **manual.RESUME_QUEUE)
async def resume_queue(request: Request, queue: manual.QueueName) -> Response:
    return await _steered(request, lambda context: switch_queue(context, queue, "resume"))


@router.post("/workers/{worker:path}/drain", **manual.DRAIN)
async def drain(request: Request, worker: manual.WorkerName) -> Response:
    return await _steered(request, lambda context: drain_worker(context, worker, is_drained=True))


@router.post("/workers/{worker:path}/resume", **manual.RESUME_WORKER)
async def resume_worker(request: Request, worker: manual.WorkerName) -> Response:
    return await _steered(request, lambda context: drain_worker(context, worker, is_drained=False))


@router.get("/dead-letters", **manual.DEAD_LETTERS)
async def list_dead_letters(request: Request) -> Response:
    context = context_of(request)
    found = await context.call(dead_letters_of, context, owner_of(request))
    return Response(b'{"jobs":[' + b",".join(record_json(job.record) for job in found) + b"]}", media_type=JSON)
