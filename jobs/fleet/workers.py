"""Live workers: each one's device and the kernels it serves, as reported by its heartbeat."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from pydantic import Field

from jobs.base import Strict
from kernels.model.entry.left_out import LeftOut
from kernels.model.kernel import DeviceClass, DeviceTraits, Kernel
from kernels.model.numerics import DTypeName


class Ceilings(Strict):
    """Upper bounds of a device. Unknown is null, never guessed."""

    memory_gb_s: float | None = Field(None, description="Device memory, read plus written, in 10⁹ bytes a second.")
    gflops: dict[DTypeName, float] = Field(default_factory=dict, description="Arithmetic by element type, GFLOPS.")


class LeftOutKernel(Strict):
    """A kernel that a worker does not offer for operands of one type, because it could not run when the worker
    started."""

    kernel: str = Field(description="Kernel.", examples=["cublas_fp8_blocks"])
    dtype: DTypeName = Field(description="Element type of the operands.")
    reason: str = Field(description="Why it could not, as a sentence.")


class DeviceInfo(Strict):
    """What a worker runs on. Unknown is null."""

    __slots__ = ("_kept",)  # no field, so that no copy takes it along

    name: str = Field(description="Model name.", examples=["NVIDIA H200"])
    device_class: DeviceClass = Field(description="`gpu` or `cpu`.")
    index: int | None = Field(None, description="Which GPU of its host; null for a CPU.")
    uuid: str | None = Field(None, description="The GPU's own id.")
    gpus: int = Field(1, description="GPUs that compute large products together, this one among them; 1 for a CPU.")
    libraries: tuple[str, ...] = Field((), description="Libraries there that not every worker has, as in `cublasmp`.")
    left_out: tuple[LeftOutKernel, ...] = Field(
        (), description="Kernels that could not run there when the worker started, so it serves without them."
    )
    compute_capability: tuple[int, int] | None = Field(None, description="Major and minor.", examples=[[9, 0]])
    multiprocessors: int | None = Field(None, description="Streaming multiprocessors.")
    cores: int | None = Field(None, description="CPU cores that the BLAS may use, for a CPU.")
    memory_bytes: int | None = Field(None, description="Device memory in all.")
    shared_bytes_per_block: int | None = Field(None, description="Shared memory one block may ask for.")
    registers_per_block: int | None = Field(None, description="32-bit registers of one block.")
    l2_bytes: int | None = Field(None, description="L2 cache.")
    max_clock_mhz: int | None = Field(None, description="Highest SM clock.")
    memory_clock_mhz: int | None = Field(None, description="Memory clock.")
    memory_bus_bits: int | None = Field(None, description="Memory bus width.")
    theoretical: Ceilings = Field(default_factory=Ceilings, description="Roofs from the device's attributes.")
    measured: Ceilings = Field(default_factory=Ceilings, description="Roofs as measured here.")
    versions: dict[str, str] = Field(default_factory=dict, description="Driver, runtime and library versions.")

    @property
    def traits(self) -> DeviceTraits:
        """Asked for some times for each product, so they are kept. A copy derives its own."""
        try:  # not by way of pydantic, as in `MatmulRequest`
            return object.__getattribute__(self, "_kept")  # type: ignore[no-any-return]
        except AttributeError:
            kept = self._derived_traits()
            object.__setattr__(self, "_kept", kept)
            return kept

    def _derived_traits(self) -> DeviceTraits:
        return DeviceTraits(
            self.device_class,
            self.compute_capability or (0, 0),
            self.shared_bytes_per_block or 0,
            self.multiprocessors or 0,
            self.name,
            self.gpus,
            self.libraries,
            tuple(LeftOut(each.kernel, each.dtype, each.reason) for each in self.left_out),
        )


class Telemetry(Strict):
    """The device's state at the last heartbeat. Unknown is null."""

    temperature_c: float | None = Field(None, description="Degrees Celsius.")
    power_w: float | None = Field(None, description="Watts.")
    clock_mhz: float | None = Field(None, description="SM clock now.")
    memory_free_bytes: int | None = Field(None, description="Device memory not taken.")
    throttle_reasons: tuple[str, ...] = Field((), description="Why the clock is held down, in NVML's words.")


WorkerState = Literal["ready", "busy", "unavailable", "quarantined", "misplaced", "drained"]
OUT_OF_SERVICE = ("unavailable", "quarantined", "misplaced", "drained")  # a state of another version is none of these


class WorkerInfo(Strict):
    """One live worker."""

    id: str = Field(description="The worker's name: host, device, process.")
    state: WorkerState = Field(
        description="`ready`: its readiness product was right and it waits. Out of service are `unavailable`, whose "
        "device does not answer or failed that product, or whose parent process does not run, `quarantined`, whose "
        "products came out wrong twice, and `misplaced`, which keeps matrices in another store than the service, and "
        "`drained`, which an operator told to end its jobs and take no more."
    )
    reason: str | None = Field(None, description="Why it is out of service; null where it serves.")
    device: DeviceInfo = Field(description="What it runs on.")
    queue: str = Field(description="Queue it takes products from.")
    bench_queue: str = Field("", description="Queue it takes benchmarks from: one for each model of device.")
    kernels: tuple[str, ...] = Field(description="Kernels it serves.")
    job: str | None = Field(
        None, description="Job it runs now; another key's is shown to operators alone, and null to others."
    )
    verified_products: int = Field(0, description="Products it computed and checked since it started.")
    verified_today: int = Field(0, description="Of these, those of today (UTC).")
    started_at: datetime = Field(description="When its process started (UTC).")
    seen_at: datetime = Field(description="Its last heartbeat (UTC).")
    lease_s: float = Field(description="How long it counts as live after a heartbeat.")
    telemetry: Telemetry = Field(default_factory=Telemetry, description="Its device's state.")
    store: str = Field("", description="Which matrix store it uses; the service has the same one.")
    settings: dict[str, int | float | str] = Field(
        default_factory=dict, description="Those of its settings that should be as the API's."
    )

    def runs_one_of(self, kernels: Iterable[Kernel], dtype: DTypeName) -> bool:
        """Whether it serves one of these kernels, and its device supports the element type."""
        traits = self.device.traits
        return any(each.name in self.kernels and each.unsupported_because(traits, dtype) is None for each in kernels)

    @property
    def serves(self) -> bool:
        """Whether it takes jobs."""
        return self.state not in OUT_OF_SERVICE


def why_unserved(kernel: Kernel, workers: Iterable[WorkerInfo], dtype: DTypeName | None = None) -> str | None:
    """A sentence saying what these workers lack to serve the kernel, or operands of the type, if one has a suitable
    device; None if one serves it or no reason is known.
    """
    devices = [worker.device.traits for worker in workers if worker.device.device_class == kernel.device_class]
    reasons = [kernel.unsupported_because(device, dtype) for device in devices]
    return next(iter(reasons), None) if all(reasons) else None
