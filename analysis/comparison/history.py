"""One case over many runs, with marks where it became significantly slower or faster.

A run is compared with at least eight earlier runs on the same device in the same environment that were measured alike
(`alike.py`). It is a **regression** if its median time is above their third quartile by more than three interquartile
ranges, and by 0.5 % or more; an **improvement** if it is below their first quartile in the same way. If all clocks are
known, the same must be true of cycles, so that a change of clock alone is not marked. A disturbed run
(`analysis/condition.py`) is not marked, and no later run is compared with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import quantiles
from typing import Literal

from analysis.comparison.alike import how_measured
from analysis.comparison.compare import GAP, Run, case_of
from analysis.comparison.environment import fingerprint
from analysis.measurement import Measurement

Mark = Literal["regression", "improvement"]
MIN_RUNS = 8
FENCE = 3.0  # interquartile ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPoint:
    """A case in one run, and the number of earlier runs that it was compared with."""

    run: str
    measurement: Measurement
    compared_with: int
    mark: Mark | None


def history(runs: Sequence[Run], case: Measurement) -> tuple[HistoryPoint, ...]:
    """Runs in order of time, without those that have no valid figure for the case."""
    wanted, points = case_of(case), []
    earlier: dict[Hashable, list[Measurement]] = {}
    for run in runs:
        measurement = next((each for each in run.measurements if case_of(each) == wanted and _usable(each)), None)
        if measurement is not None:
            how = tuple(how_measured(measurement).values())
            past = earlier.setdefault((measurement.device.key, how, fingerprint(run.environment)), [])
            is_clean = measurement.condition.is_clean
            found = mark(past, measurement) if is_clean else None
            points.append(HistoryPoint(run=run.name, measurement=measurement, compared_with=len(past), mark=found))
            if is_clean:
                past.append(measurement)
    return tuple(points)


def _usable(measurement: Measurement) -> bool:
    return measurement.status == "ok" and bool(measurement.kernel_ms)


def mark(past: Sequence[Measurement], now: Measurement) -> Mark | None:
    if len(past) < MIN_RUNS:
        return None
    in_time = _outside([_ms(each) for each in past], _ms(now))
    if all(each.sm_clock_mhz for each in (*past, now)):
        return in_time if _outside([_cycles(each) for each in past], _cycles(now)) == in_time else None
    return in_time


def _outside(past: Sequence[float], now: float) -> Mark | None:
    q1, _, q3 = quantiles(past, method="inclusive")
    reach = FENCE * (q3 - q1)
    if now > q3 + reach and now > GAP * q3:
        return "regression"
    return "improvement" if now < q1 - reach and now < q1 / GAP else None


def _ms(measurement: Measurement) -> float:
    return measurement.kernel_ms or 0.0


def _cycles(measurement: Measurement) -> float:
    return _ms(measurement) * (measurement.sm_clock_mhz or 0.0)
