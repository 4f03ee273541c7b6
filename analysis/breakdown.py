"""Copies and kernel: the share of the time that each takes, and the size above which the kernel takes longer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from typing import Literal

from analysis.curves import Curve
from analysis.measurement import Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """The times of one product: copied to the device, multiplied, copied back, without overlap."""

    measurement: Measurement
    h2d_ms: float
    kernel_ms: float
    d2h_ms: float
    h2d_gb_s: float | None  # 10⁹ bytes a second; None if the copy was too fast to be timed
    d2h_gb_s: float | None

    @property
    def total_ms(self) -> float:
        return self.h2d_ms + self.kernel_ms + self.d2h_ms

    @property
    def shares(self) -> tuple[float, float, float]:
        """Shares of h2d, kernel and d2h, 0 to 1."""
        return self.h2d_ms / self.total_ms, self.kernel_ms / self.total_ms, self.d2h_ms / self.total_ms

    @property
    def gflops_with_copies(self) -> float:
        return self.measurement.problem.flops / (self.total_ms * 1e6)

    @property
    def kernel_over_copies(self) -> float | None:
        copies = self.h2d_ms + self.d2h_ms
        return self.kernel_ms / copies if copies > 0 else None


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The size above which the kernel takes longer than the copies: at `size`, or below or above all measured sizes."""

    where: Literal["at", "below", "above"]
    size: float
    sentence: str


def breakdown(measurement: Measurement) -> Breakdown | None:
    """None if a time is unknown or the kernel time is 0."""
    h2d_ms, kernel_ms, d2h_ms = measurement.h2d_ms, measurement.kernel_ms, measurement.d2h_ms
    if measurement.status != "ok" or h2d_ms is None or d2h_ms is None or not kernel_ms:
        return None
    problem = measurement.problem
    return Breakdown(
        measurement=measurement,
        h2d_ms=h2d_ms,
        kernel_ms=kernel_ms,
        d2h_ms=d2h_ms,
        h2d_gb_s=_gb_s(problem.operand_bytes, h2d_ms),
        d2h_gb_s=_gb_s(problem.product_bytes, d2h_ms),
    )


def breakdowns(measurements: Iterable[Measurement]) -> tuple[Breakdown, ...]:
    """The breakdowns of all measurements with known times."""
    return tuple(known for measurement in measurements if (known := breakdown(measurement)) is not None)


def break_even(curve: Curve) -> BreakEven | None:
    """The smallest size from which the kernel takes longer than the copies at every measured size. Between two sizes
    the ratio is interpolated as a power of N, because operations (N³) over bytes (N²) are such a power. None if no
    copies are known.
    """
    known = ((split.measurement.size, split.kernel_over_copies) for split in breakdowns(curve.points))
    ratios = [(size, ratio) for size, ratio in known if ratio is not None]
    return _crossing(ratios) if ratios else None


def _crossing(ratios: Sequence[tuple[float, float]]) -> BreakEven:
    (first, first_ratio), (last, last_ratio) = ratios[0], ratios[-1]
    if last_ratio < 1:
        return BreakEven("above", last, f"Copies take longer than the kernel up to {last:.0f}, the largest measured.")
    steps = [(low, high) for low, high in pairwise(ratios) if low[1] < 1 <= high[1]]
    if not steps:
        sentence = (
            f"The kernel takes {first_ratio:.2f} times as long as the copies at {first:.0f}, the smallest measured."
        )
        return BreakEven("below", first, sentence)
    size = _between(*steps[-1])
    return BreakEven("at", size, f"From about {size:.0f} on the kernel takes longer than the copies.")


def _between(low: tuple[float, float], high: tuple[float, float]) -> float:
    """The size at which the ratio is 1."""
    (size, ratio), (next_size, next_ratio) = low, high
    share = -log(ratio) / (log(next_ratio) - log(ratio))
    return exp(log(size) + share * (log(next_size) - log(size)))


def _gb_s(moved_bytes: int, ms: float) -> float | None:
    return moved_bytes / (ms * 1e6) if ms > 0 else None
