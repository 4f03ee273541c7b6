"""The schema of a published results file: its source, the device, and flat records. Unknown is null, never guessed.

One schema for what others published and for our own recorded runs. The descriptions are the API manual's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kernels.model.kernel import DeviceClass, DeviceTraits
from kernels.model.numerics import DTypeName

Status = Literal[
    "ok", "incorrect", "implausible", "compile_error", "launch_error", "oom", "timeout", "skipped"
]  # what became of one measurement
ConditionKind = Literal["clean", "contended", "throttled", "not converged", "no figure"]  # it was measured in
Basis = Literal["model", "measured"]
Extent = Literal["multiprocessor", "device"]


def _says(description: str, *examples: Any) -> dict[str, Any]:
    return {"description": description, **({"examples": list(examples)} if examples else {})}


_SECTION = _says("Where it stands in the source: a section or a table.", "Q4.a, comparison with BLAS and cuBLAS")
_NOTE = _says("What a reader should know of it, in this project's words.")
_KERNEL = _says("Name in this service's catalogue; null where there is none.", "register_tiled")
_SIZE_INFERRED = _says("The source does not print the size beside the figure; it follows from other figures.")
_APPROXIMATE = _says("The source gives it as a rough figure.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """The authors and source of the results, as far as known."""

    title: str | None = field(metadata=_says("Title that the source has.", "CUDA Matrix Multiplication Lab Report"))
    authors: tuple[str, ...] = field(metadata=_says("As stated; none where the source names nobody."))
    source: str | None = field(metadata=_says("What the source is: a course's report, a file of this repository."))
    date: str | None = field(metadata=_says("As stated: a year, or a date as YYYY-MM-DD.", "2025"))
    note: str | None = field(default=None, metadata=_NOTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDevice:
    """What the results were measured on, as the source describes it."""

    name: str | None = field(metadata=_says("Model name.", "NVIDIA T4"))
    device_class: DeviceClass = field(metadata=_says("`gpu` or `cpu`."))
    architecture: str | None = field(default=None, metadata=_says("Name of its generation.", "Turing"))
    compute_capability: tuple[int, int] | None = field(default=None, metadata=_says("Major and minor.", [8, 6]))
    multiprocessors: int | None = field(default=None, metadata=_says("Streaming multiprocessors."))
    fp32_cores: int | None = field(default=None, metadata=_says("Float units in all."))
    fp32_cores_per_multiprocessor: int | None = field(default=None, metadata=_says("Float units of an SM."))
    int32_cores_per_multiprocessor: int | None = field(default=None, metadata=_says("Integer units of an SM."))
    clock_mhz: float | None = field(default=None, metadata=_says("SM clock that the peak is counted with."))
    memory_bytes: int | None = field(default=None, metadata=_says("Device memory in all."))
    memory_kind: str | None = field(default=None, metadata=_says("Kind of memory.", "HBM2"))
    memory_bus_bits: int | None = field(default=None, metadata=_says("Memory bus width."))
    memory_clock_mhz: int | None = field(default=None, metadata=_says("Memory clock."))
    memory_gb_s: float | None = field(default=None, metadata=_says("Peak bandwidth, 10⁹ bytes a second."))
    measured_memory_gb_s: float | None = field(
        default=None, metadata=_says("Sustained bandwidth, 10⁹ bytes a second, as measured by anyone the source cites.")
    )
    l2_bytes: int | None = field(default=None, metadata=_says("L2 cache."))
    shared_bytes_per_block: int | None = field(default=None, metadata=_says("Shared memory one block may have."))
    shared_bytes_per_multiprocessor: int | None = field(default=None, metadata=_says("Shared memory of an SM."))
    registers_per_block: int | None = field(default=None, metadata=_says("32-bit registers of one block."))
    registers_per_multiprocessor: int | None = field(default=None, metadata=_says("32-bit registers of an SM."))
    warp_size: int | None = field(default=None, metadata=_says("Threads of a warp."))
    max_threads_per_block: int | None = field(default=None, metadata=_says("Most threads of a block."))
    max_threads_per_multiprocessor: int | None = field(default=None, metadata=_says("Most threads resident on an SM."))
    max_warps_per_multiprocessor: int | None = field(default=None, metadata=_says("Most warps resident on an SM."))
    max_block: tuple[int, int, int] | None = field(default=None, metadata=_says("Largest block: x, y, z."))
    max_grid: tuple[int, int, int] | None = field(default=None, metadata=_says("Largest grid: x, y, z."))
    peak_gflops: Mapping[DTypeName, float] = field(
        default_factory=dict, metadata=_says("Theoretical GFLOPS by element type.", {"float32": 7680.0})
    )
    versions: Mapping[str, str] = field(default_factory=dict, metadata=_says("Driver and library versions."))
    note: str | None = field(default=None, metadata=_NOTE)

    @property
    def traits(self) -> DeviceTraits:
        return DeviceTraits(
            self.device_class,
            self.compute_capability or (0, 0),
            self.shared_bytes_per_block or 0,
            self.multiprocessors or 0,
            self.name or "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRecord:
    """One cell of a table: a kernel at a size, and what is known of that run."""

    kernel: str | None = field(metadata=_KERNEL)
    label: str = field(metadata=_says("Name that the source gives it.", "V3 shared memory tiling"))
    section: str = field(metadata=_SECTION)
    device_class: DeviceClass = field(default="gpu", metadata=_says("`cpu` for a CPU library's column."))
    dtype: DTypeName | None = field(default=None, metadata=_says("Element type of the operands."))
    config: Mapping[str, int] = field(
        default_factory=dict,
        metadata=_says("Tile config in the catalogue's parameters, where it is known.", {"tile": 16}),
    )
    block_x: int | None = field(default=None, metadata=_says("Threads of a block along x."))
    block_y: int | None = field(default=None, metadata=_says("Threads of a block along y."))
    m: int | None = field(default=None, metadata=_says("Rows of A and C."))
    n: int | None = field(default=None, metadata=_says("Columns of B and C."))
    k: int | None = field(default=None, metadata=_says("Columns of A, rows of B."))
    size_inferred: bool = field(default=False, metadata=_SIZE_INFERRED)
    status: Status = field(default="ok", metadata=_says("`ok`, or why there is no figure."))
    reason: str | None = field(default=None, metadata=_says("What went wrong, where the status is not `ok`."))
    condition: ConditionKind = field(
        default="clean",
        metadata=_says("`clean`, or what disturbed the measurement, so that it carries no conclusion."),
    )
    gflops: float | None = field(default=None, metadata=_says("2·m·n·k / kernel time / 10⁹.", 3640.449137))
    approximate: bool = field(default=False, metadata=_APPROXIMATE)
    kernel_ms: float | None = field(default=None, metadata=_says("Kernel time."))
    h2d_ms: float | None = field(default=None, metadata=_says("Copy to the device."))
    d2h_ms: float | None = field(default=None, metadata=_says("Copy back."))
    total_ms: float | None = field(default=None, metadata=_says("Copies and kernel."))
    samples: int | None = field(default=None, metadata=_says("Timed samples that the figure is the median of."))
    sm_clock_mhz: float | None = field(default=None, metadata=_says("Mean SM clock while it was timed."))
    speedup: float | None = field(default=None, metadata=_says("Speed-up that the source prints.", 1.34))
    speedup_over: str | None = field(default=None, metadata=_says("Label of what the speed-up is over."))
    fraction_of_cublas: float | None = field(
        default=None, metadata=_says("Speed over cuBLAS' at the same shape and element type, in the same run.")
    )
    interval_ms: tuple[float, float] | None = field(
        default=None, metadata=_says("Fastest sample and third quartile of the kernel time.")
    )
    error_vs_float64: float | None = field(
        default=None, metadata=_says("Relative error against the float64 product, in the Frobenius norm.")
    )
    worst_row_error: float | None = field(default=None, metadata=_says("The same of the row that is off the most."))
    registers: int | None = field(default=None, metadata=_says("Registers of a thread."))
    local_bytes: int | None = field(default=None, metadata=_says("Local memory of a thread: spilled registers."))
    shared_bytes: int | None = field(default=None, metadata=_says("Shared memory of a block."))
    occupancy: float | None = field(default=None, metadata=_says("Resident warps over the most an SM holds, 0 to 1."))
    compute_pct: float | None = field(default=None, metadata=_says("Profiler: compute throughput, % of peak."))
    sm_busy_pct: float | None = field(default=None, metadata=_says("Profiler: SM busy, %."))
    repeats: str | None = field(
        default=None, metadata=_says("Section where this same measurement stands first; null for a measurement's own.")
    )
    note: str | None = field(default=None, metadata=_NOTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """A roof that the source draws or computes, with the figures it uses."""

    label: str = field(metadata=_says("Which roof.", "sustained bandwidth"))
    dtype: DTypeName = field(metadata=_says("Element type of the peak."))
    peak_gflops: float = field(metadata=_says("Compute roof."))
    memory_gb_s: float = field(metadata=_says("Bandwidth as the arithmetic uses it, 10⁹ bytes a second."))
    section: str = field(metadata=_SECTION)
    ridge_flop_per_byte: float | None = field(
        default=None, metadata=_says("Intensity where the roofs meet, as printed.")
    )
    q_flop_per_word: float | None = field(
        default=None, metadata=_says("The same for a word of four bytes, as printed.")
    )
    note: str | None = field(default=None, metadata=_NOTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intensity:
    """A point's place on the roofline's axis, as the source has it."""

    label: str = field(metadata=_says("What it is the intensity of."))
    flop_per_byte: float = field(metadata=_says("Arithmetic intensity, as printed."))
    basis: Basis = field(metadata=_says("`model`: counted from the algorithm. `measured`: from a measured speed."))
    section: str = field(metadata=_SECTION)
    kernel: str | None = field(default=None, metadata=_KERNEL)
    n: int | None = field(default=None, metadata=_says("Size of the square product."))
    size_inferred: bool = field(default=False, metadata=_SIZE_INFERRED)
    flop_per_word: float | None = field(default=None, metadata=_says("The same for a word of four bytes, as printed."))
    gflops: float | None = field(default=None, metadata=_says("Speed of the point."))
    note: str | None = field(default=None, metadata=_NOTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLevel:
    """A level of the memory hierarchy, as the source tabulates it; its figures are rough."""

    level: str = field(metadata=_says("Name.", "shared memory"))
    size_bytes: int = field(metadata=_says("Size."))
    size_of: Extent = field(metadata=_says("What has that size."))
    latency_cycles: float = field(metadata=_says("Latency."))
    bandwidth_gb_s: float = field(metadata=_says("Bandwidth of the whole device, 10⁹ bytes a second."))
    scope: str = field(metadata=_says("Who shares it.", "block"))
    section: str = field(metadata=_SECTION)
    note: str | None = field(default=None, metadata=_NOTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """A figure quoted from the source's text."""

    quantity: str = field(metadata=_says("What it is, in this project's words.", "share of the peak"))
    value: float = field(metadata=_says("The figure; a range's first."))
    unit: str = field(metadata=_says("Its unit.", "GFLOPS"))
    section: str = field(metadata=_SECTION)
    value_to: float | None = field(default=None, metadata=_says("A range's last."))
    kernel: str | None = field(default=None, metadata=_KERNEL)
    n: int | None = field(default=None, metadata=_says("Size of the square product."))
    approximate: bool = field(default=False, metadata=_APPROXIMATE)
    note: str | None = field(default=None, metadata=_NOTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note on a section: what it leaves out, or where the source contradicts itself."""

    section: str = field(metadata=_SECTION)
    text: str = field(metadata=_says("In this project's words."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """One source's results. A field that is left out has its default."""

    name: str = field(metadata=_says("Name in the path.", "t4_register_tile_2025"))
    title: str = field(metadata=_says("What was measured, in one line."))
    report: str | None = field(
        metadata=_says("Number by which the catalogue's `origin` names it; null for others.", "000")
    )
    citation: Citation = field(metadata=_says("Whose results these are."))
    device: PublishedDevice = field(metadata=_says("What they were measured on."))
    records: tuple[PublishedRecord, ...] = field(metadata=_says("Cell by cell, in the source's order."))
    rooflines: tuple[Roofline, ...] = field(default=(), metadata=_says("Roofs that the source computes."))
    intensities: tuple[Intensity, ...] = field(default=(), metadata=_says("Arithmetic intensities it states."))
    memory_levels: tuple[MemoryLevel, ...] = field(default=(), metadata=_says("Its table of the memory hierarchy."))
    quoted: tuple[Quoted, ...] = field(default=(), metadata=_says("Figures in its prose."))
    notes: tuple[Note, ...] = field(default=(), metadata=_says("Remarks on its sections."))
