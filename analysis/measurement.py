"""One measurement, in the form that all functions of this package take.

What a source does not say is None, never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from analysis.condition import CLEAN, Condition
from jobs.benchmarks.spec import CacheState, DataDistribution, MatrixLayout
from jobs.fleet.workers import Ceilings
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import DeviceClass
from kernels.model.numerics import AccuracyName, DTypeName, Problem
from kernels.published_records import Status

WIDEST_ACCESS_BYTES = 16  # of one load or store: rows that begin at multiples of it are fully aligned


class Interval(NamedTuple):
    """From the lower to the upper end."""

    lo: float
    hi: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What is known about the device of a measurement. A worker's description and a publication give the same fields,
    which `analysis/sources.py` reads."""

    name: str | None = None
    uuid: str | None = None
    device_class: DeviceClass = "gpu"
    compute_capability: tuple[int, int] | None = None
    multiprocessors: int | None = None
    cores: int | None = None  # float32 units in all
    clock_mhz: float | None = None  # that peaks are counted with
    memory_bus_bits: int | None = None
    memory_clock_mhz: float | None = None
    l2_bytes: int | None = None
    threads_per_multiprocessor: int | None = None  # the maximum of resident threads
    theoretical: Ceilings = field(default_factory=Ceilings)  # as the source states them
    measured: Ceilings = field(default_factory=Ceilings)

    @property
    def key(self) -> tuple[DeviceClass, str | None]:
        """Equal for measurements that may be compared."""
        return self.device_class, self.uuid or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A kernel with a config at a shape, and what is known about that run. Times are those of the median sample."""

    label: str  # name in curves: the source's, or the kernel's
    kernel: str | None  # in the catalogue
    dtype: DTypeName
    m: int
    n: int
    k: int
    batch: int = 1
    accuracy: AccuracyName | None = None  # class of the arithmetic
    config: TileConfig = field(default_factory=dict)
    device: Device
    status: Status = "ok"
    condition: Condition = CLEAN  # whether its figures may carry a conclusion
    kernel_ms: float | None = None
    gflops: float | None = None
    fastest_ms: float | None = None
    q1_ms: float | None = None
    q3_ms: float | None = None
    slowest_ms: float | None = None
    round_ms: tuple[float, ...] = ()  # medians of the rounds that it was pooled from
    h2d_ms: float | None = None
    d2h_ms: float | None = None
    registers: int | None = None  # of a thread
    local_bytes: int | None = None  # of a thread: spilled registers
    shared_bytes: int | None = None  # of a block
    occupancy: float | None = None  # 0 to 1
    resident_blocks: int | None = None  # on one multiprocessor at once
    sm_clock_mhz: float | None = None  # mean while it was timed
    error_vs_float64: float | None = None  # relative, in the Frobenius norm
    worst_row_error: float | None = None  # the same, for the row with the largest error
    dram_bytes: float | None = None  # that counters saw
    row_alignment_bytes: int | None = None  # largest power of two, up to 16, that rows begin at multiples of
    cache: CacheState | None = None  # L2 before each sample
    layout: MatrixLayout | None = None  # how rows lay on a GPU
    data: DataDistribution | None = None  # what the operands' elements were
    residual: float | None = None  # as found by the check
    residual_limit: float | None = None  # the largest one that rounding explains

    @property
    def problem(self) -> Problem:
        return Problem.in_batch(self.m, self.n, self.k, self.dtype, self.batch)

    @property
    def size(self) -> float:
        """N of a square product; for other shapes the N with as many operations."""
        return float(self.n) if self.is_square else float(self.m * self.n * self.k) ** (1 / 3)

    @property
    def is_square(self) -> bool:
        return self.m == self.n == self.k

    @property
    def interval_ms(self) -> Interval | None:
        """Fastest sample to third quartile; to the slowest sample if the quartile was not kept."""
        hi = self.q3_ms if self.q3_ms is not None else self.slowest_ms
        return Interval(self.fastest_ms, hi) if self.fastest_ms is not None and hi is not None else None

    @property
    def gflops_interval(self) -> Interval | None:
        if (times := self.interval_ms) is None or times.lo <= 0:
            return None
        return Interval(self.problem.flops / (times.hi * 1e6), self.problem.flops / (times.lo * 1e6))


def row_alignment(row_bytes: int) -> int:
    """The alignment of rows at this distance from each other."""
    return min(row_bytes & -row_bytes, WIDEST_ACCESS_BYTES) if row_bytes else WIDEST_ACCESS_BYTES


def size_of(m: int, n: int, k: int, batch: int = 1) -> str:
    """N of a square product, else m×n×k."""
    extents = str(n) if m == n == k else f"{m}×{n}×{k}"
    return extents if batch == 1 else f"{batch} of {extents}"
