"""`/ui/pinned`: results that are kept, exported and imported."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from jobs.errors import InvalidRequest, MatmulError, StoreUnavailable
from service.bodies.form import read_form
from service.context import context_of, owner_of
from service.dashboard.render import page
from service.http.origins import check_origin
from service.pinned.files import import_file
from service.pinned.pins import pin, pinned_of, unpin
from service.pinned.upload import FormReader, receive_file
from service.problems import STATUS

PINNED = "/ui/pinned"
FORM_BYTES = 4 << 10

router = APIRouter(prefix=PINNED, include_in_schema=False)


@router.get("")
async def pinned(request: Request) -> Response:
    return await _shown(request)


async def _shown(request: Request, error: MatmulError | None = None) -> Response:
    context = context_of(request)
    jobs = await context.call(pinned_of, context, owner_of(request))
    return page(
        request,
        "pinned.html",
        status=STATUS[type(error)] if error else 200,
        jobs=[job.record for job in jobs],
        limit=context.settings.max_pinned_per_key,
        error=error,
    )


@router.post("")
async def change_pin(request: Request) -> Response:
    """Pins or unpins a benchmark, then redirects to its job's page or to the list."""
    check_origin(request.headers)
    form = await read_form(request, limit_bytes=FORM_BYTES)
    what, job_id, back = (form.get(name, [""])[-1] for name in ("what", "job", "back"))
    if what not in ("pin", "unpin"):
        raise InvalidRequest("what must be pin or unpin.", field="what")
    context = context_of(request)
    job = await context.call(pin if what == "pin" else unpin, context, job_id, owner_of(request))
    return RedirectResponse(f"/ui/jobs/{job.id}" if back == "job" else PINNED, 303)


@router.post("/import")
async def import_pinned(request: Request) -> Response:
    """Imports a file and redirects to the results; an invalid file leads back with an error message."""
    check_origin(request.headers)
    read = partial(import_file, context_of(request), owner_of(request))
    try:
        job = await receive_file(request, FormReader(request.headers.get("content-type", "")), read)
    except StoreUnavailable:
        raise
    except MatmulError as error:
        return await _shown(request, error)
    return RedirectResponse(f"/ui/benchmarks/{job.id}", 303)
