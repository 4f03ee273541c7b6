"""A device that is not there: its products are right or wrong, its times and clocks what the test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from jobs.benchmarks.cases import Case
from jobs.benchmarks.records import CaseRecord, LaunchFigures
from jobs.benchmarks.spec import BenchmarkSpec, CacheState, DataSpec
from jobs.benchmarks.statistics import ci95, summarize
from jobs.fleet.workers import Ceilings, DeviceInfo
from jobs.formats.elements import Array
from jobs.settings import Settings
from kernels.model.numerics import Problem
from worker.benchmark.case_run import CaseRun
from worker.cpu.bench import CpuBench
from worker.cpu.runner import CpuRunner
from worker.device.bench import Bench, Prepared, Sample, Watched
from worker.product import probe

DEFAULT_CLOCK_MHZ = 1000.0
H200 = DeviceInfo(
    name="Simulated H200",
    device_class="gpu",
    compute_capability=(9, 0),
    multiprocessors=132,
    memory_bytes=141 << 30,
    shared_bytes_per_block=232_448,
    theoretical=Ceilings(gflops={"float32": 60_000.0}),
)


def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe is not cut short because this machine, other than the device, takes its time."""
    monkeypatch.setattr(probe, "TIMING", probe.TIMING.model_copy(update={"timeout_s": 600.0}))


@dataclass
class Behaviour:
    """How the device answers. `time_us` and `clock_mhz` are asked with the number of the sample, from 0."""

    time_us: Callable[[int], float] = lambda _: 100.0
    clock_mhz: Callable[[int], float | None] = lambda _: DEFAULT_CLOCK_MHZ
    on_prepare: Callable[[Case], None] = lambda _: None
    on_sample: Callable[[Case, int], None] = lambda case, number: None
    wrong_from: int | None = None  # number of the first sample that writes a wrong product
    lazy_from: int | None = None  # and of the first that writes none
    power_capped: bool = False
    watched: Watched = field(default_factory=Watched)
    benches: int = 0  # that were opened
    samples: list[tuple[str, int, CacheState]] = field(default_factory=list)  # kernel, reps, cache of each


class SimulatedBench(CpuBench):
    """Products by the CPU, computed once and copied for every sample; times from the behaviour."""

    default_clock_mhz = DEFAULT_CLOCK_MHZ

    def __init__(self, problem: Problem, data: DataSpec, behaviour: Behaviour) -> None:
        super().__init__(problem, data)
        self.behaviour = behaviour
        self._product: Array | None = None

    def flush(self) -> None:
        """Nothing to be written over."""

    def prepare(self, case: Case) -> Prepared:
        self.behaviour.on_prepare(case)
        return _Simulated(self, case)

    def multiply(self) -> None:
        if self._product is None:
            super().prepare(Case("cpu_blas", {}, self.problem)).sample(1, "warm")
            self._product = self.c
        self.c = self._product.copy()

    def is_power_capped(self) -> bool:
        return self.behaviour.power_capped

    @contextmanager
    def watch(self) -> Iterator[Watched]:
        yield self.behaviour.watched


class _Simulated(Prepared):
    def __init__(self, bench: SimulatedBench, case: Case) -> None:
        self._bench, self._case = bench, case
        self._taken = 0
        self.launch = LaunchFigures(registers=64)
        self.compile_ms = 1.0

    def sample(self, reps: int, cache: CacheState) -> Sample:
        behaviour, number = self._bench.behaviour, self._taken
        self._taken += 1
        behaviour.samples.append((self._case.kernel, reps, cache))
        behaviour.on_sample(self._case, number)
        if behaviour.lazy_from is None or number < behaviour.lazy_from:
            self._bench.multiply()
        if behaviour.wrong_from is not None and number >= behaviour.wrong_from:
            self._bench.c[0, 0] += 1000
        return Sample(behaviour.time_us(number), behaviour.clock_mhz(number), launch_us=3.0)


class SimulatedRunner(CpuRunner):
    """A GPU that multiplies as the CPU does."""

    def __init__(self, behaviour: Behaviour | None = None, device: DeviceInfo = H200) -> None:
        super().__init__(Settings(cpu_threads=1))
        self.device = device
        self.behaviour = behaviour or Behaviour()

    @contextmanager
    def bench(self, problem: Problem, data: DataSpec, *, alone: bool = True) -> Iterator[Bench]:
        self.behaviour.benches += 1
        yield SimulatedBench(problem, data, self.behaviour)


def spec_of(**fields: object) -> BenchmarkSpec:
    """A quick one: small products, ten samples, no warm-up to speak of."""
    timing = {"warmup_ms": 0, "min_samples": 10, "max_samples": 40, "min_time_s": 0, "rounds": 2}
    told: dict[str, object] = {"shapes": [32], "kernels": ["naive"], "baseline": "none", "timing": timing} | fields
    return BenchmarkSpec.model_validate(told)


def case_run_of(spec: BenchmarkSpec | None = None, round_number: int = 0, **case: Any) -> CaseRun:
    """A case_run of `naive` at N = 32."""
    spec = spec or spec_of()
    asked = replace(Case("naive", {"block_x": 16, "block_y": 16}, Problem(32, 32, 32, "float32")), **case)
    return CaseRun(asked, round_number, 1, spec, spec.timing, H200)


def record_of(case_run: CaseRun, times_us: Sequence[float], **figures: Any) -> CaseRecord:
    """As measured with those times."""
    times, interval = summarize(times_us), ci95(sorted(times_us))
    low, high = interval or (None, None)
    ms = times.median / 1e3
    return case_run.record("ok", None, time_us=times, kernel_ms=ms, ci95_lo_us=low, ci95_hi_us=high, **figures)
