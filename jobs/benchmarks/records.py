"""What a worker records for a benchmark: one measurement for each case in each round, as soon as it is taken.

Names are those of the published records (`kernels/published_records.py`) where they mean the same. Unknown is null.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from jobs.base import Strict
from jobs.benchmarks.spec import CacheState, MatrixLayout, VerifyMode
from kernels.model.kernel import DeviceClass
from kernels.model.numerics import AccuracyName, DTypeName
from kernels.published_records import Status

StopReason = Literal[
    "precise",  # the median's interval is narrow enough
    "noise_is_steady",  # it is not, and more samples do not narrow the spread
    "max_samples",
    "timeout",
]


class SampleStatistics(Strict):
    """Statistics of the samples of one case, in microseconds per launch."""

    min: float = Field(description="Fastest.")
    q1: float = Field(description="First quartile.")
    median: float = Field(description="Median.")
    q3: float = Field(description="Third quartile.")
    p95: float = Field(description="95th percentile.")
    max: float = Field(description="Slowest.")
    mean: float = Field(description="Mean.")
    stdev: float = Field(description="Standard deviation.")


class LaunchFigures(Strict):
    """Device resources of a launch; null where a library does not report them."""

    grid: tuple[int, int, int] | None = Field(None, description="Blocks along x, y, z.")
    block: tuple[int, int, int] | None = Field(None, description="Threads of a block along x, y, z.")
    dyn_smem_bytes: int | None = Field(None, description="Dynamic shared memory of a block.")
    static_smem_bytes: int | None = Field(None, description="Static shared memory of a block.")
    registers: int | None = Field(None, description="Registers of a thread.")
    local_bytes: int | None = Field(None, description="Local memory of a thread: spilled registers.")
    resident_blocks: int | None = Field(None, description="Blocks that one multiprocessor holds at once.")
    occupancy: float | None = Field(None, description="Resident warps over the most, 0 to 1.")
    waves: float | None = Field(None, description="Blocks over those that run at once.")


class CopyFigures(Strict):
    """Copies of operands and product, medians. Not overlapped with the kernel."""

    h2d_ms: float = Field(description="Both operands to the device.")
    d2h_ms: float = Field(description="The product back.")
    h2d_gb_s: float = Field(description="10⁹ bytes a second.")
    d2h_gb_s: float = Field(description="10⁹ bytes a second.")


class DeviceState(Strict):
    """The device while a case was timed."""

    sm_clock_mhz: float | None = Field(None, description="SM clock, mean over the samples.")
    sm_clock_min_mhz: float | None = Field(None, description="SM clock of the slowest sample.")
    mem_clock_mhz: float | None = Field(None, description="Memory clock.")
    temp_c_start: float | None = Field(None, description="Degrees Celsius before.")
    temp_c_max: float | None = Field(None, description="Degrees Celsius, most seen.")
    power_w_mean: float | None = Field(None, description="Watts, mean.")
    event_reason_ns: dict[str, int] = Field(
        default_factory=dict, description="How long the clock was held down, by reason."
    )


class Checked(Strict):
    """A product's check."""

    mode: VerifyMode = Field(description="How it was checked.")
    passed: bool = Field(description="Whether it was right.")
    residual: float | None = Field(None, description="Largest relative disagreement.")
    threshold: float | None = Field(None, description="Largest that rounding explains.")


class CaseRecord(Strict):
    """One case in one round."""

    case: str = Field(description="Id of the case: kernel, config, element type and shape.")
    round: int = Field(description="From 0.")
    attempt: int = Field(description="Attempt of the job that measured it.")
    kernel: str = Field(description="Name in the catalogue.")
    config: dict[str, int] = Field(default_factory=dict, description="Full tile config.")
    device_class: DeviceClass = Field(description="`gpu` or `cpu`.")
    dtype: DTypeName = Field(description="Element type of the operands.")
    accuracy: AccuracyName | None = Field(None, description="Class of the arithmetic.")
    m: int = Field(description="Rows of A and C.")
    n: int = Field(description="Columns of B and C.")
    k: int = Field(description="Columns of A, rows of B.")
    batch: int = Field(1, description="Products in one launch.")
    layout: MatrixLayout = Field("padded", description="How rows lie: at a padded pitch, or `dense`.")
    baseline: str | None = Field(None, description="Id of the case it is held against.")
    status: Status = Field(description="`ok`, or why there are no figures.")
    reason: str | None = Field(None, description="What went wrong, in a sentence.")
    cache: CacheState = Field(description="L2 before each sample.")
    flops: int = Field(description="2·m·n·k·batch, or 8·m·n·k·batch of complex numbers.")
    bytes_min: int = Field(description="Operands and product, each once.")
    # Times and speeds are set only for status `ok`, and for `implausible`, so that one can see why.
    kernel_ms: float | None = Field(None, description="Median.")
    gflops: float | None = Field(None, description="flops / kernel_ms / 10⁶.")
    time_us: SampleStatistics | None = Field(None, description="Statistics of the samples.")
    rel_iqr: float | None = Field(None, description="(q3 − q1) / median.")
    ci95_lo_us: float | None = Field(None, description="95 % interval of the median, by order statistics.")
    ci95_hi_us: float | None = Field(None, description="Its other end.")
    samples: int = Field(0, description="Samples kept.")
    discarded: int = Field(0, description="Samples thrown away: the clock was far down.")
    inner_reps: int = Field(1, description="Launches in one sample.")
    stop_reason: StopReason | None = Field(None, description="Why sampling ended.")
    cpu_launch_us: float | None = Field(None, description="What putting one launch on the stream costs Python.")
    compile_ms: float | None = Field(None, description="Compiling the kernel, or reading it from the cache.")
    launch: LaunchFigures = Field(default_factory=LaunchFigures, description="What it takes of the device.")
    state: DeviceState = Field(default_factory=DeviceState, description="The device meanwhile.")
    copies: CopyFigures | None = Field(None, description="From page-locked memory.")
    copies_pageable: CopyFigures | None = Field(None, description="From ordinary memory.")
    energy_mj: float | None = Field(None, description="Millijoules of one launch.")
    before: Checked | None = Field(None, description="Check before timing.")
    after: Checked | None = Field(None, description="Check of the last timed product.")
    error_vs_float64: float | None = Field(
        None, description="Relative error against the float64 product on some rows, in the Frobenius norm."
    )
    worst_row_error: float | None = Field(
        None, description="The same of the row that is off the most: a lost row hides in the norm of a large product."
    )
    contended: bool = Field(False, description="Another process was on the device.")
    throttled: bool = Field(False, description="Heat or power brake held the clock down, or many samples were dropped.")
    power_limited: bool = Field(False, description="The power cap held the clock down; usual for large products.")


class Samples(Strict):
    """The samples behind a measurement, in the order they were taken."""

    time_us: tuple[float, ...] = Field((), description="Microseconds of one launch.")
    sm_clock_mhz: tuple[float, ...] = Field((), description="SM clock during each; none on a CPU.")


class Ceiling(Strict):
    """One roof, measured."""

    name: str = Field(description="What it bounds.", examples=["dram_copy", "l2_copy", "fma_float32", "tensor_bf16"])
    unit: Literal["GFLOPS", "GB/s"] = Field(description="Unit: 10⁹ operations, or bytes, a second.")
    value: float | None = Field(description="Measured; null where it could not be.")
    theoretical: float | None = Field(None, description="From the device's attributes; null where unknown.")
    dtype: DTypeName | None = Field(None, description="Element type, of arithmetic.")
    time_us: SampleStatistics | None = Field(None, description="Statistics of the samples.")
    sm_clock_mhz: float | None = Field(None, description="Mean SM clock meanwhile.")
    reason: str | None = Field(None, description="Why there is no value.")
    note: str | None = Field(None, description="How it was measured.")


class AttemptInfo(Strict):
    """One attempt at a benchmark: who measured, on what, with what software."""

    attempt: int = Field(description="Which.")
    worker: str = Field(description="Its worker.")
    started_at: str = Field(description="UTC, ISO 8601.")
    found: int = Field(description="Measurements that were there already, from attempts before.")
    device: dict[str, Any] = Field(description="As GET /v1/devices describes it.")
    environment: dict[str, Any] = Field(default_factory=dict, description="Clocks, limits, versions, host.")


class BenchmarkSummary(Strict):
    """The outcome of a benchmark, in its job's record."""

    cases: int = Field(description="Cases in all.")
    measurements: int = Field(description="Measurements taken: cases times rounds.")
    by_status: dict[str, int] = Field(default_factory=dict, description="Cases by what became of them.")
    attempts: int = Field(1, description="Attempts that it took; more than one where a worker was lost.")
    warnings: tuple[str, ...] = Field((), description="What a reader of the results should know.")
