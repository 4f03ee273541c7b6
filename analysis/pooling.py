"""The rounds of one case as one record: samples pooled, the worst status and every flag kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, get_args

from jobs.benchmarks.records import CaseRecord, Checked, CopyFigures, DeviceState, Samples, StopReason
from jobs.benchmarks.statistics import ci95, summarize
from kernels.published_records import Status

# From the worst to the best.
WORST_FIRST: tuple[Status, ...] = (
    "incorrect",
    "implausible",
    "launch_error",
    "compile_error",
    "oom",
    "timeout",
    "skipped",
    "ok",
)
WITH_FIGURES: frozenset[Status] = frozenset({"ok", "implausible"})
STOPS: tuple[StopReason, ...] = get_args(StopReason)  # from the best to the worst


def pooled(rounds: Sequence[CaseRecord], samples: Mapping[tuple[int, str], Samples]) -> dict[str, Any]:
    """Fields of the record that stands for all rounds (at least one); times only if every round was correct."""
    last = rounds[-1]
    worst = min(rounds, key=lambda record: WORST_FIRST.index(record.status))
    counted = [record for record in rounds if record.kernel_ms] if worst.status in WITH_FIGURES else []
    return {
        **{name: getattr(last, name) for name in CaseRecord.model_fields},
        "status": worst.status,
        "reason": worst.reason,
        **_times(last.flops, counted, samples),
        **_checks(rounds),
        "discarded": sum(record.discarded for record in rounds),
        "inner_reps": max(record.inner_reps for record in rounds),
        "stop_reason": max(
            (record.stop_reason for record in counted if record.stop_reason), key=STOPS.index, default=None
        ),
        "cpu_launch_us": mean(record.cpu_launch_us for record in rounds),
        "compile_ms": _extreme(max, (record.compile_ms for record in rounds)),
        "launch": next((r.launch for r in rounds if r.launch.grid or r.launch.registers is not None), last.launch),
        "state": _state(rounds),
        "copies": _copies([r.copies for r in rounds if r.copies]),
        "copies_pageable": _copies([r.copies_pageable for r in rounds if r.copies_pageable]),
        "energy_mj": mean(record.energy_mj for record in counted),
        "contended": any(record.contended for record in rounds),
        "throttled": any(record.throttled for record in rounds),
        "power_limited": any(record.power_limited for record in rounds),
    }


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the known values."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _times(flops: int, counted: Sequence[CaseRecord], kept: Mapping[tuple[int, str], Samples]) -> dict[str, Any]:
    """Times from all samples. If a round's samples were not kept, the round with the most samples represents
    the case."""
    names = ("kernel_ms", "gflops", "time_us", "rel_iqr", "ci95_lo_us", "ci95_hi_us", "samples")
    if not counted:
        return dict.fromkeys(names) | {"samples": 0}
    of_rounds = [kept.get((record.round, record.case), Samples()).time_us for record in counted]
    if not all(of_rounds):
        fullest = max(counted, key=lambda record: record.samples)
        lo_us, hi_us = fullest.ci95_lo_us, fullest.ci95_hi_us
        known = _enclosing((lo_us, hi_us), counted) if lo_us and hi_us else (lo_us, hi_us)
        ends = dict(zip(("ci95_lo_us", "ci95_hi_us"), known, strict=True))
        return {name: getattr(fullest, name) for name in names} | ends
    together = [time for times in of_rounds for time in times]
    times, interval = summarize(together), ci95(sorted(together))
    interval = _enclosing(interval, counted) if interval else None
    return {
        "kernel_ms": times.median / 1e3,
        "gflops": flops / (times.median * 1e3),
        "time_us": times,
        "rel_iqr": (times.q3 - times.q1) / times.median,
        "ci95_lo_us": interval[0] if interval else None,
        "ci95_hi_us": interval[1] if interval else None,
        "samples": sum(record.samples for record in counted),
    }


def _enclosing(interval: tuple[float, float], rounds: Sequence[CaseRecord]) -> tuple[float, float]:
    """The 95 % interval of the median, so wide that it encloses the median of every round: samples of a round are
    alike, and what differs from round to round is not in their spread."""
    medians = [record.kernel_ms * 1e3 for record in rounds if record.kernel_ms]
    return min(interval[0], *medians), max(interval[1], *medians)


def _checks(rounds: Sequence[CaseRecord]) -> dict[str, Any]:
    return {
        "before": _worse_check(record.before for record in rounds),
        "after": _worse_check(record.after for record in rounds),
        "error_vs_float64": _extreme(max, (record.error_vs_float64 for record in rounds)),
        "worst_row_error": _extreme(max, (record.worst_row_error for record in rounds)),
    }


def _worse_check(checks: Iterable[Checked | None]) -> Checked | None:
    known = [check for check in checks if check is not None]
    return max(known, key=lambda check: (not check.passed, check.residual or 0.0), default=None)


def _state(rounds: Sequence[CaseRecord]) -> DeviceState:
    states = [record.state for record in rounds]
    reasons: dict[str, int] = {}
    for state in states:
        for reason, held_ns in state.event_reason_ns.items():
            reasons[reason] = reasons.get(reason, 0) + held_ns
    return DeviceState(
        sm_clock_mhz=mean(state.sm_clock_mhz for state in states),
        sm_clock_min_mhz=_extreme(min, (state.sm_clock_min_mhz for state in states)),
        mem_clock_mhz=mean(state.mem_clock_mhz for state in states),
        temp_c_start=states[0].temp_c_start,
        temp_c_max=_extreme(max, (state.temp_c_max for state in states)),
        power_w_mean=mean(state.power_w_mean for state in states),
        event_reason_ns=reasons,
    )


def _extreme(choose: Callable[[list[float]], float], values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


def _copies(copies: Sequence[CopyFigures]) -> CopyFigures | None:
    """Mean times, and total bytes over total time."""
    if not copies:
        return None
    h2d_ms, d2h_ms = fmean(each.h2d_ms for each in copies), fmean(each.d2h_ms for each in copies)
    return CopyFigures(
        h2d_ms=h2d_ms,
        d2h_ms=d2h_ms,
        h2d_gb_s=fmean(each.h2d_gb_s * each.h2d_ms for each in copies) / h2d_ms if h2d_ms else copies[0].h2d_gb_s,
        d2h_gb_s=fmean(each.d2h_gb_s * each.d2h_ms for each in copies) / d2h_ms if d2h_ms else copies[0].d2h_gb_s,
    )
