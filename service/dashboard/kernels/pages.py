"""`/ui/kernels`: the ladder as a story, and each kernel by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from analysis.tiling import tile_of
from jobs.errors import InvalidRequest
from jobs.fleet.workers import WorkerInfo
from kernels.catalog import CATALOG, KERNEL_NAMES
from kernels.model.architectures import ARCHITECTURES
from kernels.model.kernel import CudaKernel, Kernel
from kernels.model.numerics import DTypeName
from kernels.resources import Usage, records_of
from kernels.selection.tuned import TABLES, BestResult, Entry, TunedTable, best_results
from service.catalogue import KernelView, detail, find, view
from service.context import context_of
from service.dashboard.kernels.story import AccessPicture, Changes, changes_of, headers_of, picture_of, source_of
from service.dashboard.render import page

USUAL_ARCHITECTURE = "sm_90"

router = APIRouter(prefix="/ui/kernels", include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Speed:
    """A kernel's at the product that a table compares kernels by."""

    gflops: float
    over_before: float | None  # over the speed of the rung before; None where there is none
    of_baseline: float | None


@dataclass(frozen=True, slots=True)
class KernelComparison:
    """A device's kernels at one product."""

    device: str
    entry: Entry
    speeds: dict[str, Speed]  # by kernel


@dataclass(frozen=True, slots=True)
class Rung:
    """A kernel in the ladder."""

    view: KernelView
    best: tuple[BestResult, ...]  # one for each device
    picture: AccessPicture | None
    changes: Changes | None  # of its source, against the rung before


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one config takes of a multiprocessor."""

    config: dict[str, int]
    threads: int
    usage: Usage
    shared_bytes: int
    blocks: int
    occupancy: float


@router.get("")
async def ladder(request: Request) -> Response:
    context = context_of(request)
    workers = await context.call(context.workers.now)
    rungs = await context.call(_rungs, workers)
    return page(request, "kernels.html", rungs=rungs, comparisons=_comparisons())


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
    at = KERNEL_NAMES.index(name)
    return page(
        request,
        "kernel.html",
        kernel=detail(kernel, workers),
        rules=[constraint.rule for constraint in kernel.constraints],
        before=KERNEL_NAMES[at - 1] if at else None,
        after=KERNEL_NAMES[at + 1] if at + 1 < len(KERNEL_NAMES) else None,
        fastest=_best_by_device(kernel),
        picture=picture_of(name),
        changes=await context.call(changes_of, name),
        source=await context.call(source_of, name),
        headers=await context.call(headers_of, name),
        architectures=tuple(ARCHITECTURES),
        arch=arch,
        dtype=element,
        footprints=await context.call(_footprints, name, arch, element),
    )


def _rungs(workers: Sequence[WorkerInfo]) -> list[Rung]:
    return [
        Rung(view(kernel, workers), _best_by_device(kernel), picture_of(kernel.name), changes_of(kernel.name))
        for kernel in CATALOG
    ]


def main_dtype(kernel: Kernel) -> DTypeName:
    """The one that its figures are told for."""
    return "float32" if "float32" in kernel.dtypes else kernel.dtypes[0]


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
    """Of the configs that were compiled for that architecture."""
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
        )


@cache
def _comparisons() -> tuple[KernelComparison, ...]:
    return tuple(_comparison(table) for table in TABLES if table.entries)


def _comparison(table: TunedTable) -> KernelComparison:
    """At the product where most kernels were measured; of several the one with most work."""
    entry = max(table.entries, key=lambda entry: (len(entry.ranking), entry.problem.flops))
    rows = {row.kernel: row for row in entry.ranking}
    speeds: dict[str, Speed] = {}
    before: float | None = None
    for row in (rows[name] for name in KERNEL_NAMES if name in rows):
        speeds[row.kernel] = Speed(row.gflops, row.gflops / before if before else None, row.fraction_of_baseline)
        before = row.gflops
    return KernelComparison(table.device, entry, speeds)


def _best_by_device(kernel: Kernel) -> tuple[BestResult, ...]:
    """Its fastest in its main element type."""
    found: Sequence[BestResult] = [b for b in best_results(kernel.name) if b.entry.dtype == main_dtype(kernel)]
    devices = dict.fromkeys(best.device for best in found)
    return tuple(max((b for b in found if b.device == name), key=lambda best: best.row.gflops) for name in devices)
