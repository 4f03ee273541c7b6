"""Two runs, case by case: faster, slower, same, or not decided by these samples.

A case that was disturbed in either run (`analysis/condition.py`), or not measured alike in both, such as with a warm
cache and a cold one (`alike.py`), is **not comparable**, whatever its samples say, and the cause is the first thing
said of it.

The rule is NVBench's robust one. A case is an interval, fastest sample to third quartile (to the slowest where no
quartile was kept), around its median. **Faster** or **slower**: the intervals lie 0.5 % or more apart, in time and,
where both clocks are known, in cycles too, so that a clock alone makes no difference. **Same**: medians within 0.5 %,
half of the shorter interval or more inside the other, and neither wider than 2 % of its median. Two cases are also the
same if their intervals lie within 0.5 % of each other from end to end. NVBench asks for the overlap there too; then the
more precise two runs are, the less often they count as the same. If the rounds of a run differ from each other by more
than 0.5 %, medians may differ by as much, up to 2 %, because rounds differ so without any change. All else is
**ambiguous**, as is a case whose noise a run did not record. **Unusable**: a run has no correct figure for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from analysis.comparison.alike import unlike
from analysis.comparison.environment import Difference, differences
from analysis.curves import config_key
from analysis.measurement import Interval, Measurement
from analysis.result_models import Results
from analysis.results import measurements
from analysis.sources import from_publication
from kernels.published_records import Publication

Verdict = Literal["faster", "slower", "same", "ambiguous", "not comparable", "unusable"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
GAP = 1.005  # the smallest ratio of times that counts as a difference
OVERLAP = 0.5  # of the shorter interval
DISPERSION = 0.02  # of the median


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Measurements taken together, and their environment."""

    name: str
    measurements: Sequence[Measurement]
    environment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseComparison:
    """The verdict on one case. Ratios are speeds, after over before: above 1 means faster."""

    before: Measurement
    after: Measurement
    verdict: Verdict
    ratio: float | None
    ratio_interval: Interval | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs compared; cases in the order of the first."""

    cases: tuple[CaseComparison, ...]
    only_before: tuple[Measurement, ...]
    only_after: tuple[Measurement, ...]
    environment: tuple[Difference, ...]

    @property
    def counts(self) -> dict[Verdict, int]:
        """Cases by verdict; 0 for a verdict that no case has."""
        counted = Counter(case.verdict for case in self.cases)
        return {verdict: counted[verdict] for verdict in VERDICTS}


def run_of(results: Results) -> Run:
    """A benchmark's results as one of two runs. The device's versions belong to its environment."""
    device = {name: results.device.get(name) for name in ("name", "uuid", "versions")}
    return Run(
        name=results.job.title or results.job.id,
        measurements=measurements(results),
        environment={**results.environment, "device": device},
    )


def run_of_publication(publication: Publication) -> Run:
    """Published results as one of two runs. What they do not say about their environment is left out."""
    device = {"name": publication.device.name, "versions": dict(publication.device.versions)}
    return Run(name=publication.title, measurements=from_publication(publication), environment={"device": device})


def case_of(measurement: Measurement) -> Hashable:
    """A key that is equal for the same case in two runs, whatever device they ran on."""
    shape = (measurement.m, measurement.n, measurement.k, measurement.batch)
    return measurement.label, measurement.kernel, config_key(measurement.config), measurement.dtype, shape


def compare(before: Run, after: Run) -> Comparison:
    """If a run has a case more than once, its first result counts."""
    old, new = _by_case(before), _by_case(after)
    return Comparison(
        cases=tuple(compare_case(measurement, new[case]) for case, measurement in old.items() if case in new),
        only_before=tuple(measurement for case, measurement in old.items() if case not in new),
        only_after=tuple(measurement for case, measurement in new.items() if case not in old),
        environment=differences(before.environment, after.environment),
    )


def _by_case(run: Run) -> dict[Hashable, Measurement]:
    first: dict[Hashable, Measurement] = {}
    for measurement in run.measurements:
        first.setdefault(case_of(measurement), measurement)
    return first


def compare_case(before: Measurement, after: Measurement) -> CaseComparison:
    if (missing := _missing(before, after)) is not None:
        return CaseComparison(
            before=before, after=after, verdict="unusable", ratio=None, ratio_interval=None, why=missing
        )
    old, new = before.interval_ms, after.interval_ms
    verdict, why = judge(before, after) if old and new else ("ambiguous", "Its noise is not known in both runs.")
    if causes := [cause for cause in (_disturbed(before, after), unlike(before, after)) if cause]:
        verdict, why = "not comparable", " ".join((*causes, why))
    return CaseComparison(
        before=before,
        after=after,
        verdict=verdict,
        ratio=_median(before) / _median(after),
        ratio_interval=Interval(old.lo / new.hi, old.hi / new.lo) if old and new else None,
        why=why,
    )


def _missing(before: Measurement, after: Measurement) -> str | None:
    for when, measurement in (("first", before), ("second", after)):
        if measurement.status != "ok" or not measurement.kernel_ms:
            return f"The {when} run has no figure for it ({measurement.status})."
    return None


def _disturbed(before: Measurement, after: Measurement) -> str | None:
    """What disturbed the case, and in which run."""
    sentences = (
        f"{run}: {measurement.condition.sentence}"
        for run, measurement in (("Before", before), ("After", after))
        if not measurement.condition.is_clean
    )
    return " ".join(sentences) or None


def judge(before: Measurement, after: Measurement) -> tuple[Verdict, str]:
    """The verdict on two cases with known intervals, and the figures behind it."""
    gap = _gap(_interval(before), _interval(after))
    if abs(gap) >= GAP - 1:
        return _apart(before, after, gap)
    return _close_together(before, after)


def _apart(before: Measurement, after: Measurement, gap: float) -> tuple[Verdict, str]:
    finding = f"its intervals lie {100 * abs(gap):.1f} % apart"
    old_clock, new_clock = before.sm_clock_mhz, after.sm_clock_mhz
    if old_clock and new_clock:
        in_cycles = _gap(_times(_interval(before), old_clock), _times(_interval(after), new_clock))
        if abs(in_cycles) < GAP - 1 or (in_cycles > 0) != (gap > 0):
            clocks = f"{old_clock:.0f} and {new_clock:.0f} MHz"
            return "ambiguous", f"In time {finding}, but not in cycles: the clocks were {clocks}."
        why = f"In time and in cycles {finding}."
    else:
        why = f"In time {finding}; the clocks are not known."
    return ("faster" if gap > 0 else "slower"), why


def _close_together(before: Measurement, after: Measurement) -> tuple[Verdict, str]:
    whole = _from_end_to_end(_interval(before), _interval(after))
    if whole <= GAP - 1:
        return "same", f"All of both intervals within {100 * whole:.2f} %."
    difference = max(_median(before), _median(after)) / min(_median(before), _median(after)) - 1
    overlap = _overlap(_interval(before), _interval(after))
    widest = max(_relative_interval(before), _relative_interval(after))
    figures = (
        f"medians {100 * difference:.1f} % apart, {100 * overlap:.0f} % of the shorter interval in the other, "
        f"intervals of up to {100 * widest:.1f} % of the median."
    )
    allowed = max(GAP - 1, min(DISPERSION, max(_between_rounds(before), _between_rounds(after))))
    same = difference <= allowed and overlap >= OVERLAP and widest <= DISPERSION
    return ("same" if same else "ambiguous"), figures.capitalize()


def _between_rounds(measurement: Measurement) -> float:
    """The largest difference between medians of rounds, relative to the fastest; 0 if they are not known."""
    rounds = measurement.round_ms
    return max(rounds) / min(rounds) - 1 if rounds else 0.0


def _gap(before: Interval, after: Interval) -> float:
    """The gap between two intervals, relative to the end it starts from: positive if the second is faster, 0 if they
    touch."""
    if after.hi < before.lo:
        return before.lo / after.hi - 1
    return -(after.lo / before.hi - 1) if after.lo > before.hi else 0.0


def _from_end_to_end(before: Interval, after: Interval) -> float:
    """The extent of both intervals together, relative to the fastest end."""
    return max(before.hi, after.hi) / min(before.lo, after.lo) - 1


def _overlap(before: Interval, after: Interval) -> float:
    """The part of the shorter interval that lies in the other, 0 to 1; a point is inside or not."""
    common = min(before.hi, after.hi) - max(before.lo, after.lo)
    shorter = min(before.hi - before.lo, after.hi - after.lo)
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


def _relative_interval(measurement: Measurement) -> float:
    interval = _interval(measurement)
    return (interval.hi - interval.lo) / _median(measurement)
