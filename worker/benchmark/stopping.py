"""Decides when a case has been sampled enough. Pure: takes times, returns the reason to stop.

The two ideas are NVBench's ("stdrel"): stop when the figure is precise enough, or when more samples no longer change
how noisy it is. Here the figure is the median, its precision the interval by order statistics, and the noise the
interquartile range, because times of launches are neither symmetric nor free of outliers.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from dataclasses import dataclass, field

from jobs.benchmarks.records import StopReason
from jobs.benchmarks.spec import TimingSpec
from jobs.benchmarks.statistics import ci95, quantile, rel_iqr

ENOUGH_SAMPLES = 30  # whatever time they took together
FEW_SAMPLES, LONG_S = 5, 5.0  # this few samples are enough for long launches, once they took this long together
STEADY_SAMPLES = 64  # samples over which the noise must be constant
FLAT = 0.05  # largest change of the noise over them, relative to its maximum


@dataclass(slots=True)
class StopRule:
    """The samples of one case in one round. The median's precision counts once there are `min_samples`."""

    timing: TimingSpec
    _ordered: list[float] = field(default_factory=list)
    _total_s: float = 0.0
    _noise: deque[float] = field(default_factory=lambda: deque(maxlen=STEADY_SAMPLES))

    def add(self, time_us: float, reps: int = 1) -> None:
        """Adds a sample: microseconds per launch, and the number of launches that it is the mean of."""
        insort(self._ordered, time_us)
        self._total_s += time_us * reps / 1e6
        self._noise.append(rel_iqr(self._ordered))

    def verdict(self, elapsed_s: float) -> StopReason | None:
        """The reason to stop now; None to continue. `elapsed_s` is the wall-clock time since sampling began."""
        count = len(self._ordered)
        if self._are_enough(count):
            if self._is_precise():
                return "precise"
            if self._is_steady():
                return "noise_is_steady"
        if count >= self.timing.max_samples:
            return "max_samples"
        return "timeout" if elapsed_s >= self.timing.timeout_s else None

    def _are_enough(self, count: int) -> bool:
        if count >= FEW_SAMPLES and self._total_s >= LONG_S:
            return True
        has_time = self._total_s >= self.timing.min_time_s or count >= ENOUGH_SAMPLES
        return count >= self.timing.min_samples and has_time

    def _is_precise(self) -> bool:
        if len(self._ordered) < FEW_SAMPLES:
            return False
        interval = ci95(self._ordered) or (self._ordered[0], self._ordered[-1])  # of five samples: 94 %
        median = quantile(self._ordered, 0.5)
        return max(interval[1] - median, median - interval[0]) <= self.timing.precision * median

    def _is_steady(self) -> bool:
        if len(self._noise) < STEADY_SAMPLES:
            return False
        return max(self._noise) - min(self._noise) <= FLAT * max(self._noise)
