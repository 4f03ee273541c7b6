"""/v1/kernels and /v1/devices: the catalogue and the live workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from jobs.errors import NotFound
from jobs.fleet.workers import WorkerInfo
from jobs.ledger.interface import JobFilter
from jobs.states import JobState
from kernels.assembly import assembly_of
from kernels.catalog import CATALOG
from kernels.model.kernel import CudaKernel
from service.catalogue import DeviceList, KernelList, detail, find, view
from service.context import Context, context_of, owner_of
from service.http.access import role_of
from service.http.negotiation import JSON
from service.keys import Role
from service.openapi.manual import rest as manual

MAX_RUNNING = 1000  # of one key at once

router = APIRouter(prefix="/v1")


@router.get("/kernels", **manual.KERNELS)
async def list_kernels(request: Request) -> Response:
    context = context_of(request)
    workers = await context.call(context.workers.now)
    shown = KernelList(kernels=tuple(view(kernel, workers) for kernel in CATALOG))
    return Response(shown.model_dump_json(), media_type=JSON)


@router.get("/kernels/{name}", **manual.KERNEL)
async def get_kernel(request: Request, name: manual.KernelName) -> Response:
    context, kernel = context_of(request), find(name)
    return Response(detail(kernel, await context.call(context.workers.now)).model_dump_json(), media_type=JSON)


@router.get("/kernels/{name}/source", **manual.SOURCE)
async def kernel_source(request: Request, name: manual.KernelName) -> Response:
    """The kernel's source file; a library has none."""
    kernel = find(name)
    if not isinstance(kernel, CudaKernel):
        raise NotFound(f"{name} is a library's: there is no source of it here.", field="name")
    text = await context_of(request).call(kernel.source_path.read_text, "utf-8")
    return Response(text, media_type="text/plain")


@router.get("/kernels/{name}/assembly", **manual.ASSEMBLY)
async def kernel_assembly(
    request: Request,
    name: manual.KernelName,
    form: Annotated[Literal["sass", "ptx"], Query(description="The form of the code.", examples=["sass"])] = "sass",
) -> Response:
    find(name)
    found = await context_of(request).call(assembly_of, name)
    if found is None or not found.text(form):
        raise NotFound(f"No {form} of {name} is recorded here.", field="name")
    return Response(found.text(form), media_type="text/plain")


@router.get("/devices", **manual.DEVICES)
async def list_devices(request: Request) -> Response:
    context = context_of(request)
    workers = await context.call(_workers, context, owner_of(request), role_of(request))
    return Response(DeviceList(devices=tuple(workers)).model_dump_json(), media_type=JSON)


def _workers(context: Context, owner: str, role: Role) -> Sequence[WorkerInfo]:
    """All workers. Only operators see which job of another key one runs; its state is `busy` for everyone."""
    workers = context.fleet.all()
    if role is Role.OPERATOR or not any(worker.job for worker in workers):
        return workers
    running = context.ledger.list(JobFilter(owner, JobState.RUNNING), limit=MAX_RUNNING).jobs
    own = {job.id for job in running}
    return [worker if worker.job in own else worker.model_copy(update={"job": None}) for worker in workers]
