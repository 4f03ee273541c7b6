"""`/ui/devices`: each live worker's device, and its speed limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from jobs.fleet.workers import DeviceInfo, WorkerInfo
from kernels.model.numerics import DTYPE_NAMES
from kernels.published import PUBLISHED
from kernels.published_records import Publication
from kernels.selection.tuned import TABLES
from service.context import context_of
from service.dashboard.render import page
from service.dashboard.words import figure, size
from service.pause import PAUSED

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Roof:
    """An upper bound: the theoretical and the measured one."""

    name: str
    unit: str
    theoretical: float | None
    measured: float | None

    @property
    def share(self) -> float | None:
        return self.measured / self.theoretical if self.measured and self.theoretical else None


@dataclass(frozen=True, slots=True)
class WorkerCard:
    """One worker's card on the page."""

    worker: WorkerInfo
    specs: tuple[tuple[str, str], ...]
    roofs: tuple[Roof, ...]
    is_measured: bool
    published: tuple[Publication, ...]  # tables of the same model


@router.get("/ui/devices")
async def devices(request: Request) -> Response:
    context = context_of(request)
    workers = await context.call(context.fleet.all)
    paused = PAUSED if await context.call(context.pause.is_on) else None
    shown = [_shown(worker) for worker in workers]
    return page(request, "devices.html", shown=shown, paused=paused, published=PUBLISHED.values(), tuned=TABLES)


def _shown(worker: WorkerInfo) -> WorkerCard:
    roofs = tuple(_roofs(worker.device))
    published = tuple(one for one in PUBLISHED.values() if one.device.name == worker.device.name)
    return WorkerCard(worker, tuple(_specs(worker.device)), roofs, any(roof.measured for roof in roofs), published)


def _specs(device: DeviceInfo) -> Iterator[tuple[str, str]]:
    """Names and values of the known properties."""
    capability = device.compute_capability
    known = (
        ("Compute capability", capability and ".".join(map(str, capability))),
        ("Multiprocessors", device.multiprocessors),
        ("Cores", device.cores),
        ("Memory", device.memory_bytes and size(device.memory_bytes)),
        ("Shared memory a block", device.shared_bytes_per_block and size(device.shared_bytes_per_block)),
        ("Registers a block", device.registers_per_block and figure(device.registers_per_block)),
        ("L2 cache", device.l2_bytes and size(device.l2_bytes)),
        ("Highest SM clock", device.max_clock_mhz and f"{figure(device.max_clock_mhz)} MHz"),
        ("Memory clock", device.memory_clock_mhz and f"{figure(device.memory_clock_mhz)} MHz"),
        ("Memory bus", device.memory_bus_bits and f"{figure(device.memory_bus_bits)} bits"),
    )
    yield from ((name, str(value)) for name, value in known if value)


def _roofs(device: DeviceInfo) -> Iterator[Roof]:
    """The roofs of memory, then of each element type with a known one."""
    stated, measured = device.theoretical, device.measured
    if stated.memory_gb_s is not None or measured.memory_gb_s is not None:
        yield Roof("Device memory", "GB/s", stated.memory_gb_s, measured.memory_gb_s)
    for dtype in DTYPE_NAMES:
        if dtype in stated.gflops or dtype in measured.gflops:
            yield Roof(dtype, "GFLOPS", stated.gflops.get(dtype), measured.gflops.get(dtype))
