"""When sampling ends, and the statistics that decide it."""

from __future__ import annotations

import itertools
import math
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.benchmarks.records import StopReason
from jobs.benchmarks.spec import TimingSpec
from jobs.benchmarks.statistics import ci95, quantile, rel_iqr, summarize
from worker.benchmark.stopping import ENOUGH_SAMPLES, FEW_SAMPLES, STEADY_SAMPLES, StopRule

TIMES = st.floats(0.1, 1e6)
MANY = st.lists(TIMES, min_size=1, max_size=200)


def stopped(times_us: list[float], timing: TimingSpec, reps: int = 1) -> tuple[int, StopReason | None]:
    """How many samples were taken, and why no more."""
    rule = StopRule(timing)
    for count, time_us in enumerate(times_us, 1):
        rule.add(time_us, reps)
        reason = rule.verdict(0.0)
        if reason is not None:
            return count, reason
    return len(times_us), None


@given(MANY)
def test_quantiles_are_numpy_s(times: list[float]) -> None:
    ordered = sorted(times)
    for share in (0.0, 0.25, 0.5, 0.75, 0.95, 1.0):
        assert quantile(ordered, share) == pytest.approx(float(np.quantile(times, share)), rel=1e-9)


@given(MANY)
def test_a_spread_is_in_order(times: list[float]) -> None:
    found = summarize(times)
    assert found.min <= found.q1 <= found.median <= found.q3 <= found.p95 <= found.max
    assert found.min == min(times) and found.max == max(times)
    assert found.mean == pytest.approx(float(np.mean(times)))
    assert found.stdev == pytest.approx(float(np.std(times, ddof=1)) if len(times) > 1 else 0.0, abs=1e-6)


@pytest.mark.parametrize("count", range(1, 60))
def test_the_interval_of_the_median_is_the_narrowest_that_holds_95_percent(count: int) -> None:
    interval = ci95(list(map(float, range(1, count + 1))))
    ranks = [j for j in range(1, count // 2 + 1) if 2 * sum(comb(count, i) for i in range(j)) <= 0.05 * 2**count]
    assert interval == ((max(ranks), count + 1 - max(ranks)) if ranks else None)
    assert (interval is None) == (count < 6)


def test_the_interval_holds_the_median_of_what_is_sampled_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    draws = rng.lognormal(size=(4000, 25))
    held = sum(low <= 1.0 <= high for low, high in filter(None, (ci95(sorted(each)) for each in draws)))
    assert 0.95 <= held / len(draws) <= 0.97  # 0.9567 by the binomial


@given(st.lists(TIMES, min_size=1, max_size=120), st.integers(1, 40), st.integers(0, 80))
def test_never_too_few_and_never_too_many(times: list[float], least: int, more: int) -> None:
    timing = TimingSpec(min_samples=least, max_samples=least + more, min_time_s=0, precision=0.01)
    count, reason = stopped(times, timing)
    if reason is None:
        assert count == len(times) < timing.max_samples
    else:
        assert least <= count <= timing.max_samples
    if reason == "max_samples":
        assert count == timing.max_samples


@given(st.lists(st.floats(1.0, 2.0), min_size=6, max_size=120), st.floats(0.001, 0.5))
def test_precise_means_precise(times: list[float], precision: float) -> None:
    timing = TimingSpec(min_samples=6, max_samples=5000, min_time_s=0, precision=precision)
    count, reason = stopped(times, timing)
    if reason == "precise":
        ordered = sorted(times[:count])
        interval = ci95(ordered)
        assert interval is not None
        median = quantile(ordered, 0.5)
        assert max(interval[1] / median - 1, 1 - interval[0] / median) <= precision * (1 + 1e-9)


def test_equal_times_are_precise_at_the_least_number_of_samples() -> None:
    timing = TimingSpec(min_samples=10, min_time_s=0)
    assert stopped([5.0] * 100, timing) == (10, "precise")


def test_the_least_time_counts_all_launches_and_30_samples_do_in_any_case() -> None:
    timing = TimingSpec(min_samples=10, min_time_s=0.3)
    assert stopped([1e3] * 100, timing) == (ENOUGH_SAMPLES, "precise")  # 30 ms in all
    assert stopped([1e3] * 100, timing, reps=25) == (12, "precise")  # 12 · 25 ms
    assert stopped([0.2e6] * 100, timing) == (10, "precise")


def test_few_long_launches_are_enough_where_they_agree() -> None:
    timing = TimingSpec(min_samples=10, precision=0.005, timeout_s=600)
    assert stopped([1.5e6] * 100, timing) == (FEW_SAMPLES, "precise")
    apart = [1.5e6, 1.52e6] * 50
    count, _ = stopped(apart, timing)
    assert count > FEW_SAMPLES


def test_two_levels_are_noise_that_grows_no_less() -> None:
    timing = TimingSpec(min_samples=10, max_samples=500, precision=0.005)
    count, reason = stopped(list(itertools.islice(itertools.cycle([100.0, 110.0]), 500)), timing)
    assert reason == "noise_is_steady"
    assert STEADY_SAMPLES <= count < 100


def test_noise_that_still_changes_is_no_reason_to_stop() -> None:
    timing = TimingSpec(min_samples=10, max_samples=150, precision=1e-6)
    rising = [100.0 * math.exp(0.02 * i) for i in range(150)]
    assert stopped(rising, timing) == (150, "max_samples")


def test_time_runs_out() -> None:
    rule = StopRule(TimingSpec(timeout_s=2.0))
    rule.add(1.0)
    assert rule.verdict(1.9) is None
    assert rule.verdict(2.0) == "timeout"


def test_the_noise_is_relative() -> None:
    assert rel_iqr([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 3)
    assert rel_iqr([0.0, 0.0]) == 0.0
