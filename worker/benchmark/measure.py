"""One case in one round, on any device: compile, prove, warm up, sample, prove again, record."""

from __future__ import annotations

from typing import Any

from jobs.benchmarks.records import CaseRecord
from jobs.benchmarks.statistics import ci95, rel_iqr, spread
from jobs.errors import KernelUnavailable
from kernels.catalog import BY_NAME
from kernels.model.numerics import AccuracyName
from kernels.published_records import Status
from worker.benchmark.proof import proved, why_wrong
from worker.benchmark.sampling import Taken, mean_and_least, reps_for, take, warm_up
from worker.benchmark.turn import Check, Result, Turn
from worker.device.bench import Bench, Prepared, Watched
from worker.device.roof import roof_of

LEAST_SAMPLES = 3  # that a case may end with when its time is up: a median of fewer means nothing
ROOF_SLACK = 1.02  # faster than so many times what the device can do at all: the clock or the count is wrong


def measure(bench: Bench, turn: Turn, check: Check) -> Result:
    """The case's record and samples. A wrong product has no figures.

    Raises KernelUnavailable (at its launch), OutOfDeviceMemory, MemoryError, DeviceFault, and what `check` raises.
    """
    try:
        prepared = bench.prepare(turn.case)
    except KernelUnavailable as error:
        return turn.without_figures("compile_error", error.detail)
    known: dict[str, Any] = {"launch": prepared.launch, "compile_ms": prepared.compile_ms}
    problem, accuracy = turn.case.problem, _accuracy(turn)
    check()
    bench.poison()
    prepared.sample(1, "warm")
    known["before"] = proved(bench, problem, accuracy, turn.spec)
    if not known["before"].passed:
        return turn.without_figures("incorrect", why_wrong(known["before"]), **known)
    if turn.round == 0:
        known["error_vs_float64"] = bench.error_vs_float64()
    taken, watched = _sampled(bench, prepared, turn, check)
    known |= _of_sampling(turn, taken, watched)
    if len(taken.kept) < min(LEAST_SAMPLES, turn.timing.min_samples):
        return turn.without_figures("timeout", _why_so_few(taken, turn), **known)
    known["after"] = proved(bench, problem, accuracy, turn.spec)
    if not known["after"].passed:
        return turn.without_figures("incorrect", f"While it was timed: {why_wrong(known['after'])}", **known)
    check()
    if turn.round == 0:
        known |= _extras(bench, prepared, turn)
    return _timed(turn, taken, known), taken.samples


def _accuracy(turn: Turn) -> AccuracyName:
    accuracy = turn.case.accuracy
    assert accuracy is not None, "a case without an accuracy class is skipped, not measured"
    return accuracy


def _sampled(bench: Bench, prepared: Prepared, turn: Turn, check: Check) -> tuple[Taken, Watched]:
    """The product is poisoned before the first sample, so that what is proved afterwards was written while timed."""
    estimate_us = warm_up(prepared, turn.timing, check)
    reps = reps_for(estimate_us, turn.device.device_class)
    bench.poison()
    with bench.watch() as watched:
        taken = take(bench, prepared, turn.timing, reps, check)
    return taken, watched


def _of_sampling(turn: Turn, taken: Taken, watched: Watched) -> dict[str, Any]:
    """What is recorded of the samples besides their times."""
    mean_mhz, least_mhz = mean_and_least(taken.clocks_mhz)
    on_gpu = turn.device.device_class == "gpu"
    return {
        "samples": len(taken.kept),
        "discarded": taken.discarded,
        "inner_reps": taken.reps,
        "stop_reason": taken.stop_reason,
        "cpu_launch_us": taken.launch_us if taken.kept and on_gpu else None,
        "state": watched.state.model_copy(update={"sm_clock_mhz": mean_mhz, "sm_clock_min_mhz": least_mhz}),
        "contended": watched.contended,
        "throttled": watched.throttled or taken.many_discarded,
        "power_limited": watched.power_limited,
    }


def _why_so_few(taken: Taken, turn: Turn) -> str:
    timing, least = turn.timing, min(LEAST_SAMPLES, turn.timing.min_samples)
    told = f"Only {len(taken.kept)} of at least {least} samples were taken in {timing.timeout_s:g} s"
    if taken.discarded:
        return f"{told}; {taken.discarded} more were thrown away, for the clock was far below its default."
    return f"{told}; allow it more, or make the product smaller."


def _extras(bench: Bench, prepared: Prepared, turn: Turn) -> dict[str, Any]:
    """Copies and energy, where they are asked for."""
    found: dict[str, Any] = {}
    spec = turn.spec
    if spec.transfers.enabled:
        found["copies"] = bench.copies(pageable=False)
        if spec.transfers.pageable:
            found["copies_pageable"] = bench.copies(pageable=True)
    if spec.energy.enabled:
        found["energy_mj"] = bench.energy_mj(prepared, spec.energy.window_s)
    return found


def _timed(turn: Turn, taken: Taken, known: dict[str, Any]) -> CaseRecord:
    times = spread(taken.times_us)
    ordered = sorted(taken.times_us)
    interval = ci95(ordered)
    gflops = turn.case.problem.flops / times.median / 1e3
    status, reason = _judged(turn, gflops)
    return turn.record(
        status,
        reason,
        kernel_ms=times.median / 1e3,
        gflops=gflops,
        time_us=times,
        rel_iqr=rel_iqr(ordered),
        ci95_lo_us=interval[0] if interval else None,
        ci95_hi_us=interval[1] if interval else None,
        **known,
    )


def _judged(turn: Turn, gflops: float) -> tuple[Status, str | None]:
    """`implausible` above the device's roof, with the figures that say so."""
    roof = roof_of(BY_NAME[turn.case.kernel], turn.device, _accuracy(turn), turn.case.problem.dtype)
    if roof is None or gflops <= ROOF_SLACK * roof:
        return "ok", None
    return "implausible", f"{gflops:.0f} GFLOPS are more than the {roof:.0f} that the device can do."
