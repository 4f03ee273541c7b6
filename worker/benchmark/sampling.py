"""Samples one prepared kernel: warms up, samples until the stop rule is satisfied, and discards samples at a low
clock.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from statistics import fmean, median

from jobs.benchmarks.records import Samples, StopReason
from jobs.benchmarks.spec import TimingSpec
from jobs.errors import KernelUnavailable
from kernels.model.kernel import DeviceClass
from worker.benchmark.case_run import Check
from worker.benchmark.stopping import StopRule
from worker.device.bench import Bench, Prepared, Sample

MIN_LAUNCHES = 3  # of a warm-up
STEADY_LAUNCHES = 5  # launches whose median must be stable
STEADY = 0.01  # largest relative change of that median
LONGEST_WARM_UP = 4.0  # multiple of the spec's `warmup_ms` if times do not become stable

# Least length of a sample, in microseconds, so that the clock's own steps are half a percent of it: CUDA events count
# in steps of about 0.5 µs, the CPU's clock in steps of about 50 ns.
MIN_SAMPLE_US: dict[DeviceClass, float] = {"gpu": 100.0, "cpu": 10.0}

MAX_REPS = 100  # no launch is shorter than a microsecond
MIN_TIME_US = 1e-6  # that counts: what is shorter took no time at all

SLOW_CLOCK = 0.75  # of the default clock; below it a sample does not count (NVBench's rule)
MANY_DISCARDED = 0.20  # share of discarded samples above which the device counts as throttled
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.5  # for the clock to recover after a discarded sample
CHECK_EVERY_S = 0.05


@dataclass(slots=True)
class SampleSet:
    """The result of sampling."""

    reps: int
    kept: list[Sample] = field(default_factory=list)
    discarded: int = 0
    stop_reason: StopReason = "timeout"

    @property
    def times_us(self) -> list[float]:
        return [sample.time_us for sample in self.kept]

    @property
    def clocks_mhz(self) -> list[float]:
        """The clock of each sample; empty if the device does not report it."""
        clocks = [sample.sm_clock_mhz for sample in self.kept if sample.sm_clock_mhz is not None]
        return clocks if len(clocks) == len(self.kept) else []

    @property
    def launch_us(self) -> float:
        return median(sample.launch_us for sample in self.kept)

    @property
    def many_discarded(self) -> bool:
        return self.discarded > MANY_DISCARDED * (self.discarded + len(self.kept))

    @property
    def samples(self) -> Samples:
        """The samples as they are stored, rounded to a tenth of a nanosecond."""
        return Samples(
            time_us=tuple(round(time_us, 4) for time_us in self.times_us),
            sm_clock_mhz=tuple(round(clock, 1) for clock in self.clocks_mhz),
        )


def warm_up(prepared: Prepared, timing: TimingSpec, check: Check) -> float:
    """Launches until times are stable; returns the approximate time of one launch in microseconds. Raises
    KernelUnavailable, and what `check` raises.

    At least `warmup_ms` and three launches, until the median of the last five moves by less than 1 %; at most four
    times `warmup_ms`.
    """
    started = time.monotonic()
    times_us: list[float] = []
    while True:
        check()
        times_us.append(_timed(prepared.sample(1, "warm")).time_us)
        spent_ms = (time.monotonic() - started) * 1e3
        enough = len(times_us) >= MIN_LAUNCHES and spent_ms >= timing.warmup_ms
        if (enough and _at_rest(times_us)) or spent_ms >= LONGEST_WARM_UP * timing.warmup_ms:
            return median(times_us[-STEADY_LAUNCHES:])


def _at_rest(times_us: list[float]) -> bool:
    now, before = times_us[-STEADY_LAUNCHES:], times_us[-STEADY_LAUNCHES - 1 : -1]
    return len(before) == STEADY_LAUNCHES and abs(median(now) - median(before)) <= STEADY * median(before)


def reps_for(time_us: float, device_class: DeviceClass) -> int:
    """The number of launches in one sample."""
    return min(MAX_REPS, max(1, math.ceil(MIN_SAMPLE_US[device_class] / max(time_us, 1e-3))))


def take(bench: Bench, prepared: Prepared, timing: TimingSpec, reps: int, check: Check) -> SampleSet:
    """Takes samples until the stop rule ends it. Raises DeviceFault, KernelUnavailable, and what `check` raises.
    Samples at a clock lowered by the power cap count, because that is the device's real speed on such work.
    """
    taken, rule, pause_s = SampleSet(reps), StopRule(timing), FIRST_PAUSE_S
    started = time.monotonic()
    while True:
        check()
        sample = _timed(prepared.sample(reps, timing.cache), min_us=MIN_TIME_US)
        if _is_slow(sample, bench.default_clock_mhz) and not bench.is_power_capped():
            taken.discarded += 1
            _pause(pause_s, check)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        else:
            taken.kept.append(sample)
            rule.add(sample.time_us, reps)
            pause_s = FIRST_PAUSE_S
        reason = rule.verdict(time.monotonic() - started)
        if reason is not None:
            taken.stop_reason = reason
            return taken


def _timed(sample: Sample, min_us: float = 0.0) -> Sample:
    """The sample. Raises KernelUnavailable where the device's clock went backwards or stood still."""
    if not min_us <= sample.time_us < math.inf:
        raise KernelUnavailable(f"The device's clock counted {sample.time_us:g} µs, so it cannot be timed here.")
    return sample


def _is_slow(sample: Sample, default_clock_mhz: float | None) -> bool:
    if default_clock_mhz is None or sample.sm_clock_mhz is None:
        return False
    return sample.sm_clock_mhz < SLOW_CLOCK * default_clock_mhz


def _pause(seconds: float, check: Check) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, CHECK_EVERY_S))
        check()


def mean_and_min(clocks_mhz: list[float]) -> tuple[float | None, float | None]:
    """The mean and minimum clock during sampling; unknown if the device did not report it."""
    return (fmean(clocks_mhz), min(clocks_mhz)) if clocks_mhz else (None, None)
