"""`/ui/multiply`: a form for a product, next to the equivalent API request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from jobs.errors import MatmulError, StoreUnavailable
from jobs.fleet.workers import WorkerInfo, why_unserved
from jobs.models import new_id
from jobs.requests.operands import Distribution
from kernels.catalog import CATALOG
from kernels.model.kernel import Kernel
from kernels.model.numerics import ACCURACY_NAMES, DTYPE_NAMES
from kernels.selection.demands import ToleranceKind
from service.bodies.body import Body
from service.bodies.matmul_multipart import MULTIPART
from service.bodies.reader import MatmulInput, accepted_type
from service.bodies.receive import receive
from service.bodies.uploads import UploadOwner, UploadSet
from service.context import context_of, owner_of
from service.dashboard.multiply.body import FormReader
from service.dashboard.multiply.form import SOURCES, TYPED, MultiplyForm, form_of
from service.dashboard.multiply.preview import ServerAddress, preview
from service.dashboard.render import page
from service.http.origins import check_origin
from service.http.security import keys_are_on
from service.problems import STATUS
from service.submit.job import Receipt
from service.submit.operands import OperandResolver, fingerprint
from service.submit.product import Submitter

router = APIRouter(prefix="/ui/multiply", include_in_schema=False)


@dataclass(frozen=True, slots=True)
class KernelOption:
    """A kernel in the menu; if it cannot be chosen, with the reason."""

    name: str
    why_not: str | None


@router.get("")
async def form(request: Request) -> Response:
    return await _shown(request, form_of(request.query_params), is_draft="draft" in request.query_params)


@router.post("")
async def multiply(request: Request) -> Response:
    """Handles the form. Reads the body in pieces, as POST /v1/matmul does, so large files are never entirely in
    memory.
    """
    check_origin(request.headers)
    accepted_type(request.headers.get("content-type"), MULTIPART)
    context, owner = context_of(request), owner_of(request)
    settings = context.settings
    body = Body(request.scope, request.receive, limit_bytes=settings.max_body_bytes, memory=context.bodies)
    uploads = UploadSet(
        context.store,
        lambda: UploadOwner(owner, settings.product_ttl_s, name=new_id("op")),
        max_bytes=settings.max_matrix_bytes,
        fingerprinted=True,
        unclaimed=context.unclaimed,
    )
    reader = FormReader(request.headers["content-type"], uploads.open, context.staging_dir)
    operands, job_id = OperandResolver(context, owner), context.new_job_id()

    def submit(asked: MatmulInput) -> Receipt:
        key = _once(reader.fields.get("token", ""), asked)
        return Submitter(context, owner, job_id, operands, None, key, waits=False, is_async=True).submit(asked)

    try:
        receipt: Receipt = await receive(context, body, reader, uploads, submit)
    except StoreUnavailable:
        raise
    except MatmulError as error:
        return await _shown(request, form_of(reader.fields), error)
    return RedirectResponse(f"/ui/jobs/{receipt.job_id}", 303)


def _once(token: str, asked: MatmulInput) -> str | None:
    """An Idempotency-Key from the page view and the request: a second click finds the first click's job, but another
    request on the same page makes a new one.
    """
    return f"form:{fingerprint(token, asked)}" if token else None


async def _shown(
    request: Request, form: MultiplyForm, error: MatmulError | None = None, *, is_draft: bool = False
) -> Response:
    """The page with the values typed. If they are not a valid request, shows the error and its status, unless the user
    is still typing.
    """
    context = context_of(request)
    workers = await context.call(context.workers.now)
    asked = None
    try:
        asked = preview(form, ServerAddress(str(request.base_url).rstrip("/"), keys_are_on(context.settings)))
    except MatmulError as wrong:
        error = error or wrong
    return page(
        request,
        "multiply.html",
        status=200 if error is None or is_draft else STATUS[type(error)],
        form=form,
        token=new_id("form"),
        error=error,
        preview=asked,
        sources=SOURCES,
        is_typed=form.source in TYPED,
        is_advanced=form.is_advanced,
        limit_bytes=context.settings.max_body_bytes,
        kernels=[KernelOption(kernel.name, _why_not(kernel, workers)) for kernel in CATALOG],
        dtypes=DTYPE_NAMES,
        accuracies=ACCURACY_NAMES,
        tolerance_kinds=get_args(ToleranceKind),
        distributions=get_args(Distribution),
    )


def _why_not(kernel: Kernel, workers: Sequence[WorkerInfo]) -> str | None:
    """Why no live worker runs the kernel now; None if one does."""
    if any(kernel.name in worker.kernels for worker in workers):
        return None
    if not workers:
        return "no worker is live"
    if not any(worker.device.device_class == kernel.device_class for worker in workers):
        return f"needs a {kernel.device_class.upper()}"
    return why_unserved(kernel, workers) or "no live worker serves it"
