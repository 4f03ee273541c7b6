"""Response models of the kernel catalogue and the live workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cache

from pydantic import Field

from jobs.base import Strict
from jobs.errors import NotFound
from jobs.fleet.workers import WorkerInfo, why_unserved
from kernels.catalog import BY_NAME
from kernels.model.buckets import BucketName
from kernels.model.kernel import CudaKernel, Default, DeviceClass, Kernel
from kernels.model.numerics import AccuracyName, DTypeName
from kernels.resources import records_of
from kernels.selection.tuned import best_results


class ParameterView(Strict):
    """A tile parameter."""

    name: str = Field(description="Name in `config`.", examples=["block_m"])
    values: tuple[int, ...] = Field(description="Values allowed.", examples=[[1, 2, 4, 8, 16, 32]])
    default: int = Field(description="Value taken where `config` leaves it out.", examples=[8])
    summary: str = Field(description="What it sets.", examples=["rows of the product per thread block"])


class DefaultView(Strict):
    """A default config for parameters that a request leaves out."""

    config: dict[str, int] = Field(description="Its tile parameters.", examples=[{"block_m": 8, "block_n": 32}])
    buckets: tuple[BucketName, ...] = Field(description="Shapes it is for; `get_kernel` says which is which.")
    dtypes: tuple[DTypeName, ...] = Field(description="Element types it is for.")
    min_compute_capability: tuple[int, int] = Field(
        description="Least compute capability of a GPU it is for.", examples=[[9, 0]]
    )
    symmetric: bool = Field(False, description="Whether it is for products of a matrix by its own transpose alone.")


class UsageView(Strict):
    """The resources of one thread on one architecture."""

    registers: int = Field(description="Registers, 32 bits each.", examples=[128])
    local_bytes: int = Field(description="Local memory: what finds no place in registers.", examples=[0])
    spill_store_bytes: int = Field(description="Stores of spilled registers, bytes in the code.", examples=[0])
    spill_load_bytes: int = Field(description="Loads of spilled registers, bytes in the code.", examples=[0])


class ResourcesView(Strict):
    """The device resources of one config, as compiled for this release, for operands that are not transposed."""

    dtype: DTypeName = Field(description="Element type of the operands.")
    config: dict[str, int] = Field(description="The tile parameters.", examples=[{"tile": 32}])
    static_shared_bytes: int = Field(description="Shared memory of a block, fixed in the code.", examples=[8192])
    dynamic_shared_bytes: int = Field(description="Shared memory of a block, asked for at launch.", examples=[0])
    architectures: dict[str, UsageView] = Field(description="By the compiler's name, as in `sm_90`.")


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
    config_count: int = Field(description="How many configs it takes; 1 for a library, the empty one.", examples=[24])
    defaults: tuple[DefaultView, ...] = Field(
        description="In this order the first that suits the product and fits the device fills up what `config` leaves "
        "out; the last one is every parameter's own default."
    )
    min_compute_capability: tuple[int, int] = Field(description="Least compute capability of a GPU.", examples=[[7, 0]])
    architecture_specific: bool = Field(
        description="Whether it runs on a GPU of that compute capability alone, and on no newer one."
    )
    dtype_compute_capability: dict[DTypeName, tuple[int, int]] = Field(
        description="Element types that need a newer GPU, and from which compute capability on.",
        examples=[{"bfloat16": [8, 0]}],
    )
    source: str | None = Field(description="Where its CUDA source is; null for a library.")
    served_by: tuple[str, ...] = Field(description="Ids of live workers that run it now.", examples=[["host-cpu-1"]])
    unserved: str | None = Field(
        description="What live workers lack for it, of those with such a device; null where one runs it.",
        examples=["hopper_bf16 needs compute capability 9.0; the device has 8.0."],
    )


class BestView(Strict):
    """The best measurement of a kernel at one shape, from the tables that `auto` uses."""

    device: str = Field(description="Model that it was measured on.", examples=["NVIDIA H200"])
    dtype: DTypeName = Field(description="Element type of the operands.")
    m: int = Field(description="Rows of A and C.", examples=[4096])
    n: int = Field(description="Columns of B and C.", examples=[4096])
    k: int = Field(description="Columns of A, rows of B.", examples=[4096])
    config: dict[str, int] = Field(description="Its fastest tile config there.", examples=[{"tile": 32}])
    gflops: float = Field(description="Speed.", examples=[50000.0])
    fraction_of_baseline: float | None = Field(
        description="Over the library's default of the same accuracy in the same rounds; null where there is none."
    )
    library: str | None = Field(
        description="The library's fastest kernel of that accuracy there, tuned ones too; null where there is none.",
        examples=["cublas_tuned"],
    )
    fraction_of_library: float | None = Field(description="Speed over that; null where there is none.")


class KernelDetail(KernelView):
    """An entry of the catalogue, with the resources of its configs and its measured speeds."""

    best: tuple[BestView, ...] = Field(description="Best measured results, by device, element type and shape.")
    resources: tuple[ResourcesView, ...] = Field(
        description="Config by config; none for a library. The main element type, float32 where the kernel takes that, "
        "is listed for all architectures; of the others each config has one, and all where it is a default."
    )


class KernelList(Strict):
    """The catalogue, in ladder order."""

    kernels: tuple[KernelView, ...] = Field(description="From the first rung up.")


class DeviceList(Strict):
    """Live workers, and those out of service."""

    devices: tuple[WorkerInfo, ...] = Field(description="One entry a worker, by id.")


def view(kernel: Kernel, workers: Sequence[WorkerInfo]) -> KernelView:
    """The list view of a catalogue entry."""
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
        config_count=_config_count(kernel.name),
        defaults=_defaults(kernel),
        min_compute_capability=kernel.min_compute_capability,
        architecture_specific=kernel.architecture_specific,
        dtype_compute_capability=dict(kernel.dtype_compute_capability),
        source=f"/v1/kernels/{kernel.name}/source" if isinstance(kernel, CudaKernel) else None,
        served_by=tuple(worker.id for worker in workers if kernel.name in worker.kernels),
        unserved=why_unserved(kernel, workers),
    )


def detail(kernel: Kernel, workers: Sequence[WorkerInfo]) -> KernelDetail:
    """The full view of a catalogue entry."""
    return KernelDetail(**dict(view(kernel, workers)), resources=_resources(kernel.name), best=_best(kernel.name))


@cache
def _config_count(name: str) -> int:
    return sum(1 for _ in BY_NAME[name].configs())


def _defaults(kernel: Kernel) -> tuple[DefaultView, ...]:
    own = {p.name: p.default for p in kernel.parameters}
    last = Default(config=own, min_compute_capability=kernel.min_compute_capability)
    return tuple(
        DefaultView(
            config=dict(kernel.resolve_config(default.config)),
            buckets=default.buckets,
            dtypes=default.dtypes or kernel.dtypes,
            min_compute_capability=default.min_compute_capability,
            symmetric=default.symmetric,
        )
        for default in (*kernel.defaults, last)
    )


@cache
def _resources(name: str) -> tuple[ResourcesView, ...]:
    table = records_of(name)
    return tuple(
        ResourcesView(
            dtype=record.dtype,
            config=dict(record.config),
            static_shared_bytes=record.static_shared_bytes,
            dynamic_shared_bytes=record.dynamic_shared_bytes,
            architectures={arch: UsageView(**asdict(usage)) for arch, usage in record.usage.items()},
        )
        for record in (table.records if table else ())
    )


@cache
def _best(name: str) -> tuple[BestView, ...]:
    return tuple(
        BestView(
            device=found.device,
            dtype=found.entry.dtype,
            m=found.entry.m,
            n=found.entry.n,
            k=found.entry.k,
            config=dict(found.row.config),
            gflops=found.row.gflops,
            fraction_of_baseline=found.row.fraction_of_baseline,
            library=found.library.kernel if found.library else None,
            fraction_of_library=found.fraction_of_library,
        )
        for found in best_results(name)
    )


def find(name: str) -> Kernel:
    """Raises NotFound."""
    if name not in BY_NAME:
        raise NotFound(f"There is no kernel of that name; there are: {', '.join(BY_NAME)}.", field="name")
    return BY_NAME[name]
