"""`/ui/benchmarks/new`: presets, and a form for a custom benchmark; it is counted first, then started."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args
from urllib.parse import parse_qsl

import orjson
from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from jobs.benchmarks.spec import BenchmarkSpec, CacheState, ConfigSet, VerifyMode
from jobs.errors import MatmulError
from kernels.catalog import KERNEL_NAMES
from kernels.model.numerics import DTYPE_NAMES
from service.benchmarks.body import SPEC_BYTES
from service.benchmarks.replies import find_benchmark
from service.benchmarks.submit import dry_run, presets, submit
from service.benchmarks.views import DryRun, PresetView
from service.bodies.body import Body
from service.bodies.reader import accepted_type
from service.context import Context, context_of, owner_of
from service.dashboard.benchmarks.axes import PARAMETERS, SCALES, axes_of, with_axis
from service.dashboard.benchmarks.fields import SETS, Typed, document, typed, typed_spec
from service.dashboard.render import page
from service.http.origins import check_origin
from service.problems import STATUS

FORM = "application/x-www-form-urlencoded"
NEW, ALL = "/ui/benchmarks/new", "/ui/benchmarks"
CHOICES: Mapping[str, Sequence[str]] = {
    "configs": get_args(ConfigSet),
    "cache": get_args(CacheState),
    "verify": get_args(VerifyMode),
}

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Offered:
    """The choices that the form offers."""

    presets: Sequence[PresetView]
    devices: Sequence[str]  # device classes and models of live workers
    served: frozenset[str]  # kernels that a live worker runs


def _offered(context: Context) -> Offered:
    """Raises StoreUnavailable."""
    workers = [worker for worker in context.workers.now() if worker.bench_queue]
    classes = sorted({worker.device.device_class for worker in workers}, reverse=True)
    models = sorted({worker.device.name for worker in workers})
    served = frozenset(name for worker in workers for name in worker.kernels)
    return Offered(presets(context).presets, [*classes, *models], served)


@router.get(NEW)
async def new_benchmark(request: Request) -> Response:
    """The form. `count` in the query also shows the benchmark's size; `add` also adds an axis from the builders'
    fields; `clone` fills in another benchmark's fields. A `draft` is still being typed, so mistakes in it are not
    errors.
    """
    context, query = context_of(request), request.query_params
    if (clone := query.get("clone")) is not None:
        job = await context.call(find_benchmark, context, clone, owner_of(request), "clone")
        assert isinstance(job.record.request, BenchmarkSpec)
        return await _form(request, typed_spec(job.record.request))
    form, is_draft = typed(query.multi_items()), "draft" in query
    try:
        if "add" in query:
            form = with_axis(form, query["add"], axes_of(query))
        if "count" not in query and "add" not in query:
            return await _form(request, form)
        asked = document(form)
        async with context.plans.alone(owner_of(request)):
            estimated = await context.call(dry_run, context, orjson.dumps(asked))
    except MatmulError as error:
        return await _form(request, form, error=error, is_draft=is_draft)
    return await _form(request, form, estimated=estimated, curl=_curl(request, asked))


@router.get(ALL)
async def benchmarks() -> Response:
    return RedirectResponse(NEW, 303)


@router.post(ALL)
async def start(request: Request) -> Response:
    """Does what the API's POST does, then redirects to the job's page."""
    check_origin(request.headers)
    context, form = context_of(request), typed(await _pairs(request))
    try:
        body = orjson.dumps(document(form))
        async with context.plans.alone(owner_of(request)):
            receipt = await context.call(submit, context, owner_of(request), None, body)
    except MatmulError as error:
        return await _form(request, form, error=error)
    return RedirectResponse(f"/ui/jobs/{receipt.job_id}", 303)


async def _pairs(request: Request) -> list[tuple[str, str]]:
    """Raises UnsupportedMediaType, PayloadTooLarge."""
    accepted_type(request.headers.get("content-type"), FORM)
    body = await Body(request.scope, request.receive, limit_bytes=4 * SPEC_BYTES).read()  # escaped, so longer
    return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)


async def _form(
    request: Request,
    form: Typed,
    *,
    error: MatmulError | None = None,
    estimated: DryRun | None = None,
    curl: str | None = None,
    is_draft: bool = False,
) -> Response:
    context = context_of(request)
    offered = await context.call(_offered, context)
    names = [preset.name for preset in offered.presets]
    return page(
        request,
        "new_benchmark.html",
        status=STATUS[type(error)] if error and not is_draft else 200,
        form=form,
        error=error.detail if error else None,
        axes=axes_of(request.query_params),
        scales=SCALES,
        parameters=PARAMETERS,
        offered=offered,
        estimated=estimated,
        spec=estimated.spec.model_dump_json(indent=2) if estimated else None,
        curl=curl,
        # A value that is not among the choices is shown too, so that the error about it makes sense.
        preset_names=_with(names, form.preset),
        devices=_with(offered.devices, form.device),
        kernels=_with((*SETS, *KERNEL_NAMES), *form.kernels),
        dtypes=_with(DTYPE_NAMES, *form.dtypes),
        choices={name: _with(values, getattr(form, name)) for name, values in CHOICES.items()},
    )


def _with(values: Sequence[str], *typed_values: str) -> list[str]:
    return list(dict.fromkeys((*values, *(value for value in typed_values if value))))


def _curl(request: Request, asked: Mapping[str, Any]) -> str:
    """The same request as a curl command."""
    key = ' \\\n  -H "authorization: Bearer $MATMUL_API_KEY"' if request.scope["state"].get("signed_in") else ""
    body = shlex.quote(orjson.dumps(asked).decode())
    address = shlex.quote(f"{request.base_url}v1/benchmarks")
    return f"curl {address}{key} \\\n  -H 'content-type: application/json' \\\n  -d {body}"
