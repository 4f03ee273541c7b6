"""/v2: the Open Inference Protocol, for clients that speak it (docs/inference.md)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from jobs.errors import WrongState
from jobs.ledger.totals import served_of
from jobs.models import new_id
from service.bodies.body import Body
from service.bodies.reader import Reader, json_object
from service.bodies.receive import receive
from service.bodies.uploads import UploadOwner, UploadSet
from service.changes import Watch
from service.context import Context, context_of, owner_of
from service.http.idempotency import holding_key
from service.http.negotiation import JSON
from service.http.preferences import Wait
from service.inference.models import EXTENSIONS, MODELS, VERSION, Model, find_model
from service.inference.reader import (
    LENGTH_HEADER,
    BinaryInferReader,
    InferParser,
    InferRequest,
    JsonInferReader,
    header_length,
)
from service.inference.reply import check_sendable, infer_end
from service.problems import EdgeError, ProductNotReady
from service.routes.health import ready
from service.routes.matmul import answer
from service.submit.job import Receipt
from service.submit.operands import OperandResolver
from service.submit.product import Submitter
from service.submit.replies import job_location

MAX_QUESTION_BYTES = 4 << 10
ACCEPTED = 202
NOT_OFFERED = {
    "/cudasharedmemory/{rest:path}": "CUDA shared memory is not offered; send tensors in the body.",
    "/repository/models/{rest:path}": "Models are the kernels that live workers have; none is loaded or unloaded.",
    "/models/{name}/trace/setting": "Traces are not set here.",
    "/trace/setting": "Traces are not set here.",
    "/logging": "Logging is not set here; see MATMUL_LOG_LEVEL.",
}

router = APIRouter(prefix="/v2", include_in_schema=False)
Submitted = tuple[Receipt, InferRequest]


def _json(document: Any) -> Response:
    return Response(orjson.dumps(document), media_type=JSON)


def _model(request: Request) -> Model:
    """The one that the path names. Raises NotFound."""
    return find_model(request.path_params["name"], request.path_params.get("version", VERSION))


@router.get("")
async def server_metadata(request: Request) -> Response:
    return _json({"name": request.app.title, "version": request.app.version, "extensions": EXTENSIONS})


@router.get("/health/live")
async def server_live() -> Response:
    return Response()


@router.get("/health/ready")
async def server_ready(request: Request) -> Response:
    await ready(request)
    return Response()


@router.get("/models/stats")
async def all_statistics(request: Request) -> Response:
    return await _statistics(request, *MODELS.values())


@router.get("/models/{name}/stats")
@router.get("/models/{name}/versions/{version}/stats")
async def model_statistics(request: Request) -> Response:
    return await _statistics(request, _model(request))


async def _statistics(request: Request, *models: Model) -> Response:
    context = context_of(request)
    served = await context.call(served_of, context.client, context.settings.key_prefix)
    return _json({"model_stats": [model.statistics(served) for model in models]})


@router.get("/models/{name}")
@router.get("/models/{name}/versions/{version}")
async def model_metadata(request: Request) -> Response:
    return _json(_model(request).metadata)


@router.get("/models/{name}/config")
@router.get("/models/{name}/versions/{version}/config")
async def model_config(request: Request) -> Response:
    return _json(_model(request).config)


@router.get("/models/{name}/ready")
@router.get("/models/{name}/versions/{version}/ready")
async def model_ready(request: Request) -> Response:
    context, model = context_of(request), _model(request)
    model.check_served(await context.call(context.workers.now))
    return Response()


@router.post("/repository/index")
async def repository_index(request: Request) -> Response:
    context = context_of(request)
    text = await Body(request.scope, request.receive, limit_bytes=MAX_QUESTION_BYTES).read()
    ready_ones = bool(text) and json_object(text).get("ready") is True
    workers = await context.call(context.workers.now)
    states = {model.name: model.is_served(workers) for model in MODELS.values()}
    return _json(
        [
            {"name": name, "version": VERSION, "state": "READY" if is_served else "UNAVAILABLE"}
            for name, is_served in states.items()
            if is_served or not ready_ones
        ]
    )


@router.post("/models/{name}/infer")
@router.post("/models/{name}/versions/{version}/infer")
async def infer(request: Request) -> Response:
    context, model = context_of(request), _model(request)
    async with holding_key(request) as key:
        job_id = new_id("job")
        with context.hub.watch(job_id, answers_only=True) as watch:
            receipt, wanted = await _submit(request, context, model, job_id, key)
            if not receipt.replayed:
                return await _answer(request, context, model, receipt, wanted, watch, key)
        with context.hub.watch(receipt.job.id, ends_only=True) as watch:
            return await _answer(request, context, model, receipt, wanted, watch, key)


async def _submit(request: Request, context: Context, model: Model, job_id: str, key: str | None) -> Submitted:
    """Reads the body and records a job for it."""
    owner, settings = owner_of(request), context.settings
    length = header_length(request.headers.get(LENGTH_HEADER))
    limit_bytes = settings.max_json_bytes if length is None else settings.max_body_bytes
    body = Body(request.scope, request.receive, limit_bytes=limit_bytes, memory=context.bodies, inflates=True)
    uploads = UploadSet(
        context.store,
        lambda: UploadOwner(owner, settings.product_ttl_s, name=new_id("op")),
        max_bytes=settings.max_matrix_bytes,
        fingerprinted=key is not None,
    )
    operands = OperandResolver(context, owner)
    submitter = Submitter(context, owner, job_id, operands, None, key, waits=True, path=request.url.path)

    def check(wanted: InferRequest) -> None:
        if not wanted.body.is_binary:
            check_sendable(context, wanted, operands.plan(wanted.asked).problem)

    def submit(wanted: InferRequest) -> Submitted:
        check(wanted)
        return submitter.submit(wanted.asked), wanted

    async def at_once(wanted: InferRequest) -> Submitted | None:
        check(wanted)
        receipt = await submitter.at_once(wanted.asked)
        return None if receipt is None else (receipt, wanted)

    def parser(header_bytes: int) -> InferParser:
        declared, is_alone = body.declared_bytes, length is None
        return InferParser(header_bytes, model, uploads.open, operands.check, body_bytes=declared, is_alone=is_alone)

    reader: Reader[InferRequest] = JsonInferReader(parser) if length is None else BinaryInferReader(parser(length))
    return await receive(context, body, reader, uploads, submit, at_once)


async def _answer(
    request: Request,
    context: Context,
    model: Model,
    receipt: Receipt,
    wanted: InferRequest,
    watch: Watch,
    key: str | None,
) -> Response:
    """Raises ProductNotReady, and what `answer` raises."""
    most_s, timeout_s = context.settings.max_wait_s, wanted.body.parameters.timeout_s
    wait = Wait(min(timeout_s or most_s, most_s), None)
    ended = partial(infer_end, model=model, wanted=wanted)
    reply = await answer(request, context, receipt, watch, wait, key, ended)
    if reply.status_code != ACCEPTED:
        return reply
    job_id, owner = receipt.job.id, owner_of(request)

    def give_up() -> Response:
        """A job that ended meanwhile is answered."""
        if timeout_s is not None:
            try:
                context.ledger.cancel(job_id, owner=owner)
            except WrongState:
                job = context.ledger.get(job_id, owner=owner, with_product=True)
                if (late := ended(context, job, request, {})) is not None:
                    return late
        goes_on = f"goes on; see /v1/jobs/{job_id}" if timeout_s is None else "was cancelled"
        raise ProductNotReady(
            f"The product was not ready within {wait.seconds:g} s; its job {goes_on}.",
            headers=job_location(job_id),
            members={"job": job_id},
        )

    return await context.call(give_up)


def _refusing(sentence: str) -> Callable[[], Awaitable[Response]]:
    async def not_offered() -> Response:
        raise EdgeError(sentence)

    return not_offered


for path, sentence in NOT_OFFERED.items():
    router.add_api_route(path, _refusing(sentence), methods=["GET", "POST"])
