"""Two runs, case by case: faster, slower, same, or not to be told from these samples.

The rule is NVBench's robust one. A case is an interval, fastest sample to third quartile (to the slowest where no
quartile was kept), around its median. **Faster** or **slower**: the intervals lie 0.5 % or more apart, in time and,
where both clocks are known, in cycles too, so that a clock alone makes no difference. **Same**: medians within 0.5 %,
half of the shorter interval or more inside the other, and neither wider than 2 % of its median. Same, too, where both
intervals lie within 0.5 % of each other from end to end: NVBench asks for the overlap there as well, and then the more
precise two runs are, the less often are they told to be the same. Where a run's rounds
differ among themselves by more than 0.5 %, medians may differ by as much, up to 2 %: such a difference is seen without
any change. Else **ambiguous**, as is a case whose noise a run does not tell. **Unusable**: a run has no right figure
for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from analysis.comparison.environment import Difference, differences
from analysis.curves import config_key
from analysis.measurement import Interval, Measurement
from analysis.result_models import Results
from analysis.results import measurements

Verdict = Literal["faster", "slower", "same", "ambiguous", "unusable"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
GAP = 1.005  # least ratio of times that is a difference
OVERLAP = 0.5  # of the shorter interval
DISPERSION = 0.02  # of the median


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Measurements taken together, and what they were taken in."""

    name: str
    measurements: Sequence[Measurement]
    environment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseComparison:
    """What became of one case. Ratios are speeds, after over before: above 1 is faster."""

    before: Measurement
    after: Measurement
    verdict: Verdict
    ratio: float | None
    ratio_interval: Interval | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Of two runs; cases in the order of the first."""

    cases: tuple[CaseComparison, ...]
    only_before: tuple[Measurement, ...]
    only_after: tuple[Measurement, ...]
    environment: tuple[Difference, ...]

    @property
    def counts(self) -> dict[Verdict, int]:
        """Of every verdict, also those that none has."""
        found = Counter(case.verdict for case in self.cases)
        return {verdict: found[verdict] for verdict in VERDICTS}


def run_of(results: Results) -> Run:
    """A benchmark's results as one of two runs; the device's versions are part of what it was taken in."""
    device = {name: results.device.get(name) for name in ("name", "uuid", "versions")}
    return Run(
        name=results.job.title or results.job.id,
        measurements=measurements(results),
        environment={**results.environment, "device": device},
    )


def case_of(measurement: Measurement) -> Hashable:
    """Equal for the same case of two runs, whatever device they ran on."""
    shape = (measurement.m, measurement.n, measurement.k, measurement.batch)
    return measurement.label, measurement.kernel, config_key(measurement.config), measurement.dtype, shape


def compare(before: Run, after: Run) -> Comparison:
    """Of a case that a run holds more than once, the first counts."""
    old, new = _by_case(before), _by_case(after)
    return Comparison(
        cases=tuple(compare_case(one, new[case]) for case, one in old.items() if case in new),
        only_before=tuple(one for case, one in old.items() if case not in new),
        only_after=tuple(one for case, one in new.items() if case not in old),
        environment=differences(before.environment, after.environment),
    )


def _by_case(run: Run) -> dict[Hashable, Measurement]:
    found: dict[Hashable, Measurement] = {}
    for measurement in run.measurements:
        found.setdefault(case_of(measurement), measurement)
    return found


def compare_case(before: Measurement, after: Measurement) -> CaseComparison:
    if (missing := _missing(before, after)) is not None:
        return CaseComparison(
            before=before, after=after, verdict="unusable", ratio=None, ratio_interval=None, why=missing
        )
    old, new = before.interval_ms, after.interval_ms
    verdict, why = judge(before, after) if old and new else ("ambiguous", "Its noise is not known in both runs.")
    return CaseComparison(
        before=before,
        after=after,
        verdict=verdict,
        ratio=_median(before) / _median(after),
        ratio_interval=Interval(old.lo / new.hi, old.hi / new.lo) if old and new else None,
        why=why,
    )


def _missing(before: Measurement, after: Measurement) -> str | None:
    for when, one in (("first", before), ("second", after)):
        if one.status != "ok" or not one.kernel_ms:
            return f"The {when} run has no figure for it ({one.status})."
    return None


def judge(before: Measurement, after: Measurement) -> tuple[Verdict, str]:
    """Of two cases with known intervals: the verdict, and the figures it rests on."""
    gap = _gap(_interval(before), _interval(after))
    if abs(gap) >= GAP - 1:
        return _apart(before, after, gap)
    return _close_together(before, after)


def _apart(before: Measurement, after: Measurement, gap: float) -> tuple[Verdict, str]:
    told = f"its intervals lie {100 * abs(gap):.1f} % apart"
    old_clock, new_clock = before.sm_clock_mhz, after.sm_clock_mhz
    if old_clock and new_clock:
        in_cycles = _gap(_times(_interval(before), old_clock), _times(_interval(after), new_clock))
        if abs(in_cycles) < GAP - 1 or (in_cycles > 0) != (gap > 0):
            clocks = f"{old_clock:.0f} and {new_clock:.0f} MHz"
            return "ambiguous", f"In time {told}, but not in cycles: the clocks were {clocks}."
        told = f"In time and in cycles {told}."
    else:
        told = f"In time {told}; the clocks are not known."
    return ("faster" if gap > 0 else "slower"), told


def _close_together(before: Measurement, after: Measurement) -> tuple[Verdict, str]:
    whole = _from_end_to_end(_interval(before), _interval(after))
    if whole <= GAP - 1:
        return "same", f"All of both intervals within {100 * whole:.2f} %."
    apart = max(_median(before), _median(after)) / min(_median(before), _median(after)) - 1
    overlap = _overlap(_interval(before), _interval(after))
    spread = max(_spread(before), _spread(after))
    told = (
        f"medians {100 * apart:.1f} % apart, {100 * overlap:.0f} % of the shorter interval in the other, "
        f"intervals of up to {100 * spread:.1f} % of the median."
    )
    allowed = max(GAP - 1, min(DISPERSION, max(_between_rounds(before), _between_rounds(after))))
    same = apart <= allowed and overlap >= OVERLAP and spread <= DISPERSION
    return ("same" if same else "ambiguous"), told.capitalize()


def _between_rounds(measurement: Measurement) -> float:
    """How far the medians of its rounds lie apart, over the fastest; 0 where they are not known."""
    rounds = measurement.round_ms
    return max(rounds) / min(rounds) - 1 if rounds else 0.0


def _gap(before: Interval, after: Interval) -> float:
    """Between two intervals, over the end it starts from: above 0 where the second is faster, 0 where they touch."""
    if after.hi < before.lo:
        return before.lo / after.hi - 1
    return -(after.lo / before.hi - 1) if after.lo > before.hi else 0.0


def _from_end_to_end(one: Interval, other: Interval) -> float:
    """Of both intervals, over the fastest end."""
    return max(one.hi, other.hi) / min(one.lo, other.lo) - 1


def _overlap(one: Interval, other: Interval) -> float:
    """Part of the shorter that lies in the other; a point lies in it or not."""
    common = min(one.hi, other.hi) - max(one.lo, other.lo)
    shorter = min(one.hi - one.lo, other.hi - other.lo)
    return max(0.0, common) / shorter if shorter > 0 else float(common >= 0)


def _interval(measurement: Measurement) -> Interval:
    assert measurement.interval_ms is not None
    return measurement.interval_ms


def _times(interval: Interval, clock_mhz: float) -> Interval:
    """Thousands of cycles."""
    return Interval(interval.lo * clock_mhz, interval.hi * clock_mhz)


def _median(measurement: Measurement) -> float:
    assert measurement.kernel_ms
    return measurement.kernel_ms


def _spread(measurement: Measurement) -> float:
    interval = _interval(measurement)
    return (interval.hi - interval.lo) / _median(measurement)
