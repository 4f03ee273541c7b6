"""/v2: the Open Inference Protocol, for clients that speak it (docs/inference.md)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from jobs.ledger.totals import served_of
from service.bodies.body import Body
from service.bodies.options import parse_model
from service.bodies.reader import json_object
from service.context import context_of, owner_of
from service.http.negotiation import JSON
from service.inference.models import MODELS, VERSION, Model, model_of
from service.inference.regions import Region, Regions
from service.problems import EdgeError
from service.routes.health import ready

MAX_QUESTION_BYTES = 4 << 10
EXTENSIONS = ("binary_tensor_data", "model_configuration", "parameters", "statistics")
SHARED_MEMORY = "/systemsharedmemory"
NOT_OFFERED = {
    "/cudasharedmemory/region/{rest:path}": "CUDA shared memory is not offered; send tensors in the body.",
    "/repository/models/{rest:path}": "Models are the kernels that live workers have; none is loaded or unloaded.",
    "/models/{name}/trace/setting": "Traces are not set here.",
    "/trace/setting": "Traces are not set here.",
    "/logging": "Logging is not set here; see MATMUL_LOG_LEVEL.",
}

router = APIRouter(prefix="/v2", include_in_schema=False)


def _json(document: Any) -> Response:
    return Response(orjson.dumps(document), media_type=JSON)


def _model(request: Request) -> Model:
    return model_of(request.path_params)


@router.get("")
async def server_metadata(request: Request) -> Response:
    is_on = bool(context_of(request).settings.shared_memory_prefix)
    extensions = [*EXTENSIONS, *(["system_shared_memory"] if is_on else [])]
    return _json({"name": request.app.title, "version": request.app.version, "extensions": extensions})


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
    text = await _question(request)
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


async def _question(request: Request) -> bytes:
    return await Body(request.scope, request.receive, limit_bytes=MAX_QUESTION_BYTES).read()


def _regions(request: Request) -> Regions:
    """The registered regions. Raises Forbidden if shared memory is off."""
    context = context_of(request)
    regions = Regions(context.client, context.settings)
    regions.check_on()
    return regions


@router.get(f"{SHARED_MEMORY}/status")
@router.get(f"{SHARED_MEMORY}/region/{{name}}/status")
async def regions_status(request: Request) -> Response:
    regions, owner, name = _regions(request), owner_of(request), request.path_params.get("name")

    def look() -> dict[str, Region]:
        return regions.all(owner) if name is None else {name: regions.one(owner, name)}

    found = await context_of(request).call(look)
    return _json([{"name": name, **region.model_dump()} for name, region in found.items()])


@router.post(f"{SHARED_MEMORY}/region/{{name}}/register")
async def register_region(request: Request, name: str) -> Response:
    regions = _regions(request)
    region = parse_model(Region, json_object(await _question(request)))
    await context_of(request).call(regions.register, owner_of(request), name, region)
    return Response()


@router.post(f"{SHARED_MEMORY}/unregister")
@router.post(f"{SHARED_MEMORY}/region/{{name}}/unregister")
async def unregister_regions(request: Request) -> Response:
    regions, name = _regions(request), request.path_params.get("name")
    await context_of(request).call(regions.unregister, owner_of(request), name)
    return Response()


@router.get("/cudasharedmemory/status")
async def no_cuda_regions() -> Response:
    return _json([])


@router.post("/cudasharedmemory/unregister")
async def unregister_no_cuda_regions() -> Response:
    """Does nothing: clients that clean up unregister CUDA regions too."""
    return Response()


def _refusing(sentence: str) -> Callable[[], Awaitable[Response]]:
    async def not_offered() -> Response:
        raise EdgeError(sentence)

    return not_offered


for path, sentence in NOT_OFFERED.items():
    router.add_api_route(path, _refusing(sentence), methods=["GET", "POST"])
