"""The catalogue and the live workers, as HTTP shows them."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from jobs.errors import NotFound
from jobs.models import Strict
from jobs.workers import WorkerInfo
from kernels.catalog import BY_NAME
from kernels.kernel import CudaKernel, DeviceClass, Kernel
from kernels.numerics import AccuracyName, DTypeName


class ParameterView(Strict):
    """A tile parameter."""

    name: str = Field(description="Name in `config`.", examples=["block_m"])
    values: tuple[int, ...] = Field(description="Values allowed.", examples=[[1, 2, 4, 8, 16, 32]])
    default: int = Field(description="Value taken where `config` leaves it out.", examples=[8])
    summary: str = Field(description="What it sets.", examples=["rows of the product per thread block"])


class KernelView(Strict):
    """An entry of the catalogue."""

    name: str = Field(description="What `kernel` takes.", examples=["shared_tiled"])
    summary: str = Field(description="One line.", examples=["Square tiles of both operands staged in shared memory."])
    idea: str = Field(description="What it does, and why that is faster or slower than the rung before.")
    origin: str = Field(description="Where it comes from.", examples=["cuBLAS through CuPy."])
    device_class: DeviceClass = Field(description="`gpu` or `cpu`.")
    accuracy: dict[DTypeName, AccuracyName] = Field(
        description="Element types it takes, and the error class each is computed in.", examples=[{"float32": "fp32"}]
    )
    parameters: tuple[ParameterView, ...] = Field(description="Tile parameters, none for a library.")
    constraints: tuple[str, ...] = Field(description="Rules over a whole config; parameters stand in braces.")
    min_compute_capability: tuple[int, int] = Field(description="Least compute capability of a GPU.", examples=[[7, 0]])
    source: str | None = Field(description="Where its CUDA source is; null for a library.")
    served_by: tuple[str, ...] = Field(description="Ids of live workers that run it now.", examples=[["host-cpu-1"]])


class KernelList(Strict):
    """The catalogue, in ladder order."""

    kernels: tuple[KernelView, ...] = Field(description="From the first rung up.")


class DeviceList(Strict):
    """Live workers."""

    devices: tuple[WorkerInfo, ...] = Field(description="One entry a worker, by id.")


def view(kernel: Kernel, workers: Sequence[WorkerInfo]) -> KernelView:
    """What HTTP shows of a catalogue entry."""
    return KernelView(
        name=kernel.name,
        summary=kernel.summary,
        idea=kernel.idea,
        origin=kernel.origin,
        device_class=kernel.device_class,
        accuracy=dict(kernel.accuracy),
        parameters=tuple(
            ParameterView(name=p.name, values=p.values, default=p.default, summary=p.summary) for p in kernel.parameters
        ),
        constraints=tuple(constraint.sentence for constraint in kernel.constraints),
        min_compute_capability=kernel.min_compute_capability,
        source=f"/v1/kernels/{kernel.name}/source" if isinstance(kernel, CudaKernel) else None,
        served_by=tuple(worker.id for worker in workers if kernel.name in worker.kernels),
    )


def find(name: str) -> Kernel:
    """Raises NotFound."""
    if name not in BY_NAME:
        raise NotFound(f"There is no kernel of that name; there are: {', '.join(BY_NAME)}.", field="name")
    return BY_NAME[name]
