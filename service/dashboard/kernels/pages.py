"""`/ui/kernels`: the ladder as a story, and each kernel by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from analysis.tiling import tile_of
from jobs.errors import InvalidRequest
from kernels.assembly import assembly_of
from kernels.families import FAMILY_OF, neighbours, rung_before
from kernels.model.architectures import ARCHITECTURES
from kernels.model.kernel import CudaKernel, Kernel
from kernels.model.numerics import DTypeName
from kernels.resources import Usage, records_of
from service.catalogue import detail, find
from service.context import context_of
from service.dashboard.kernels.assembly import mix_of
from service.dashboard.kernels.exercise import exercise_of
from service.dashboard.kernels.glance import best_by_device, families_of, main_dtype
from service.dashboard.kernels.steps import steps_of
from service.dashboard.kernels.story import changes_of, headers_of, picture_of, source_of
from service.dashboard.render import page

USUAL_ARCHITECTURE = "sm_90"
FORMS = ("sass", "ptx")
MAX_LINES = 2000  # of a text shown on a page; the full text is one click away
EVIDENCE = "/ui/published/h200_ladder"  # for readers without a GPU

router = APIRouter(prefix="/ui/kernels", include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Footprint:
    """One config's use of a multiprocessor."""

    config: dict[str, int]
    threads: int
    usage: Usage
    shared_bytes: int
    blocks: int
    occupancy: float
    limited_by: tuple[str, ...]


@router.get("")
async def ladder(request: Request) -> Response:
    context = context_of(request)
    workers = await context.call(context.workers.now)
    return page(request, "kernels.html", families=await context.call(families_of, workers))


@router.get("/{name}/assembly")
async def assembly(request: Request, name: str, form: Annotated[str, Query(max_length=20)] = "sass") -> Response:
    """The assembly text, and counts of all instructions."""
    find(name)
    if form not in FORMS:
        raise InvalidRequest(f"There is no form {form!a}; there are {', '.join(FORMS)}.", field="form")
    found = await context_of(request).call(assembly_of, name)
    lines = found.text(form).splitlines() if found else []
    counts = found.instructions(form).most_common() if found else []
    return page(
        request,
        "kernel_assembly.html",
        name=name,
        form=form,
        forms=FORMS,
        found=found,
        lines=lines[:MAX_LINES],
        total=len(lines),
        counts=counts,
    )


@router.get("/{name}")
async def one_kernel(
    request: Request,
    name: str,
    arch: Annotated[str, Query(max_length=20)] = USUAL_ARCHITECTURE,
    dtype: Annotated[str | None, Query(max_length=20)] = None,
) -> Response:
    kernel, context = find(name), context_of(request)
    element = _element_type(kernel, dtype)
    _check_architecture(arch)
    workers = await context.call(context.workers.now)
    before, after = neighbours(name)
    return page(
        request,
        "kernel.html",
        kernel=detail(kernel, workers),
        rules=[constraint.rule for constraint in kernel.constraints],
        family=FAMILY_OF[name],
        before=before,
        after=after,
        fastest=best_by_device(name),
        steps=await context.call(steps_of, kernel),
        exercise=exercise_of(name),
        mix=await context.call(mix_of, name, rung_before(name)),
        evidence=EVIDENCE,
        picture=picture_of(name),
        changes=await context.call(changes_of, name),
        source=await context.call(source_of, name),
        headers=await context.call(headers_of, name),
        architectures=tuple(ARCHITECTURES),
        arch=arch,
        dtype=element,
        footprints=await context.call(_footprints, name, arch, element),
    )


def _element_type(kernel: Kernel, asked: str | None) -> DTypeName:
    if asked is None:
        return main_dtype(kernel)
    for dtype in kernel.dtypes:
        if dtype == asked:
            return dtype
    raise InvalidRequest(f"{kernel.name} does not take {asked!a}; it takes {', '.join(kernel.dtypes)}.", field="dtype")


def _check_architecture(name: str) -> None:
    if name not in ARCHITECTURES:
        raise InvalidRequest(
            f"There is no architecture {name!a} here; there are: {', '.join(ARCHITECTURES)}.", field="arch"
        )


@cache
def _footprints(name: str, arch: str, dtype: DTypeName) -> tuple[Footprint, ...]:
    kernel, table = find(name), records_of(name)
    if table is None or not isinstance(kernel, CudaKernel):
        return ()
    return tuple(_compiled(kernel, arch, dtype))


def _compiled(kernel: CudaKernel, arch: str, dtype: DTypeName) -> Iterator[Footprint]:
    """The resources of the configs compiled for that architecture."""
    table, architecture = records_of(kernel.name), ARCHITECTURES[arch]
    for record in table.records if table else ():
        usage = record.usage.get(arch)
        tile = tile_of(kernel, record.config, dtype) if record.dtype == dtype and usage else None
        if usage is None or tile is None or tile.threads is None:
            continue
        needs = tile.threads, usage.registers, record.shared_bytes
        yield Footprint(
            dict(record.config),
            tile.threads,
            usage,
            record.shared_bytes,
            architecture.resident_blocks(*needs),
            architecture.occupancy(*needs),
            architecture.limited_by(*needs),
        )
