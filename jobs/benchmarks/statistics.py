"""Statistics of samples: quantiles, their spread, and the interval of the median.

Quantiles interpolate linearly between the closest ranks (definition 7 of Hyndman and Fan, "Sample quantiles in
statistical packages", 1996), as numpy and R do by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb
from statistics import fmean, stdev

from jobs.benchmarks.records import SampleStatistics


def quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile at `share` (0 to 1) of at least one value, in ascending order."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def summarize(times_us: Sequence[float]) -> SampleStatistics:
    """Statistics of at least one sample, in any order."""
    ordered = sorted(times_us)
    return SampleStatistics(
        min=ordered[0],
        q1=quantile(ordered, 0.25),
        median=quantile(ordered, 0.5),
        q3=quantile(ordered, 0.75),
        p95=quantile(ordered, 0.95),
        max=ordered[-1],
        mean=fmean(ordered),
        stdev=stdev(ordered) if len(ordered) > 1 else 0.0,
    )


def rel_iqr(ordered: Sequence[float]) -> float:
    """(q3 − q1) / median of values in ascending order; 0 if the median is 0."""
    median = quantile(ordered, 0.5)
    return (quantile(ordered, 0.75) - quantile(ordered, 0.25)) / median if median else 0.0


def ci95(ordered: Sequence[float]) -> tuple[float, float] | None:
    """95 % interval of the median of rising values; None for fewer than 6, which have none.

    By order statistics, so whatever the distribution: of n samples the number below the true median is binomial with
    p = ½, hence the j-th smallest and the j-th largest enclose it with probability 1 − 2·P(Bin(n, ½) < j). Narrowest
    pair that reaches 95 % (David and Nagaraja, "Order Statistics", section 7.1).
    """
    rank = _rank(len(ordered))
    return (ordered[rank - 1], ordered[-rank]) if rank else None


@lru_cache(maxsize=8192)
def _rank(count: int) -> int:
    """The largest j with P(Bin(count, ½) < j) at most 1/40; 0 where there is none. Exact, in units of 2^-count."""
    rank, below = 0, 1
    while 40 * below <= 2**count:
        rank += 1
        below += comb(count, rank)
    return rank
