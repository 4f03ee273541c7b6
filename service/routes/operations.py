"""/v1/queues, /v1/workers and /v1/dead-letters, for operators."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from service.context import Context, context_of, owner_of
from service.http.access import check_role, role_of
from service.http.idempotency import holding_key, once
from service.http.negotiation import JSON
from service.keys import Role
from service.openapi.manual import operations as manual
from service.operations.dead_letters import dead_letters_of
from service.operations.steering import drain_worker, queue_of, queues_of, switch_queue, switch_service, worker_of
from service.submit.replies import record_json

View = Callable[[Context], BaseModel]

router = APIRouter(prefix="/v1")


async def _steer(request: Request, act: View, look: View) -> Response:
    """Performs `act`, or only `look` if a request with the same Idempotency-Key has acted before."""
    check_role(role_of(request), Role.OPERATOR)
    context = context_of(request)
    async with holding_key(request) as key:
        return await context.call(
            once, request, key, "", lambda: (_reply(act(context)), "done"), lambda _: _reply(look(context))
        )


def _reply(model: BaseModel) -> Response:
    return Response(model.model_dump_json(), 200, {"cache-control": "no-cache"}, JSON)


@router.get("/queues", **manual.QUEUES)
async def list_queues(request: Request) -> Response:
    context = context_of(request)
    return _reply(await context.call(queues_of, context))


@router.post("/queues/pause", **manual.PAUSE)
async def pause_service(request: Request) -> Response:
    return await _steer(request, lambda context: switch_service(context, "pause"), queues_of)


@router.post("/queues/resume", **manual.RESUME)
async def resume_service(request: Request) -> Response:
    return await _steer(request, lambda context: switch_service(context, "resume"), queues_of)


@router.post("/queues/{queue}/pause", **manual.PAUSE_QUEUE)
async def pause_queue(request: Request, queue: manual.QueueName) -> Response:
    return await _steer(
        request, lambda context: switch_queue(context, queue, "pause"), lambda context: queue_of(context, queue)
    )


@router.post("/queues/{queue}/resume", **manual.RESUME_QUEUE)
async def resume_queue(request: Request, queue: manual.QueueName) -> Response:
    return await _steer(
        request, lambda context: switch_queue(context, queue, "resume"), lambda context: queue_of(context, queue)
    )


@router.post("/workers/{worker:path}/drain", **manual.DRAIN)
async def drain(request: Request, worker: manual.WorkerName) -> Response:
    return await _steer(
        request,
        lambda context: drain_worker(context, worker, is_drained=True),
        lambda context: worker_of(context, worker),
    )


@router.post("/workers/{worker:path}/resume", **manual.RESUME_WORKER)
async def resume_worker(request: Request, worker: manual.WorkerName) -> Response:
    return await _steer(
        request,
        lambda context: drain_worker(context, worker, is_drained=False),
        lambda context: worker_of(context, worker),
    )


@router.get("/dead-letters", **manual.DEAD_LETTERS)
async def list_dead_letters(request: Request) -> Response:
    context = context_of(request)
    found = await context.call(dead_letters_of, context, owner_of(request))
    return Response(b'{"jobs":[' + b",".join(record_json(job.record) for job in found) + b"]}", media_type=JSON)
