"""Measures one case in one round, on any device: compile, check, warm up, sample, check again, record."""

from __future__ import annotations

from typing import Any

from jobs.benchmarks.records import CaseRecord
from jobs.benchmarks.statistics import ci95, rel_iqr, summarize
from jobs.errors import KernelUnavailable
from kernels.catalog import BY_NAME
from kernels.model.numerics import AccuracyName
from kernels.published_records import Status
from worker.benchmark.case_run import CaseRun, Check, Result
from worker.benchmark.check import check_product, why_wrong
from worker.benchmark.sampling import SampleSet, mean_and_min, reps_for, take, warm_up
from worker.device.bench import Bench, Prepared, Watched
from worker.device.roof import roof_of

MIN_SAMPLES = 3  # needed when a case runs out of time: a median of fewer means nothing
ROOF_SLACK = 1.02  # a speed above this multiple of the peak means that the clock or the count is wrong


def measure(bench: Bench, case_run: CaseRun, check: Check) -> Result:
    """The case's record and samples. A wrong product has no figures.

    Raises KernelUnavailable (at its launch), OutOfDeviceMemory, MemoryError, DeviceFault, and what `check` raises.
    """
    try:
        prepared = bench.prepare(case_run.case)
    except KernelUnavailable as error:
        return case_run.without_figures("compile_error", error.detail)
    known: dict[str, Any] = {"launch": prepared.launch, "compile_ms": prepared.compile_ms}
    problem, accuracy = case_run.case.problem, _accuracy(case_run)
    check()
    bench.poison()
    prepared.sample(1, "warm")
    known["before"] = check_product(bench, problem, accuracy, case_run.spec)
    if not known["before"].passed:
        return case_run.without_figures("incorrect", why_wrong(known["before"]), **known)
    check()
    if case_run.round == 0:
        known |= _errors(bench)
    taken, watched = _take_samples(bench, prepared, case_run, check)
    known |= _of_sampling(case_run, taken, watched)
    if len(taken.kept) < min(MIN_SAMPLES, case_run.timing.min_samples):
        return case_run.without_figures("timeout", _why_so_few(taken, case_run), **known)
    known["after"] = check_product(bench, problem, accuracy, case_run.spec)
    if not known["after"].passed:
        return case_run.without_figures("incorrect", f"While it was timed: {why_wrong(known['after'])}", **known)
    check()
    if case_run.round == 0:
        known |= _extras(bench, prepared, case_run)
    return _record_of(case_run, taken, known), taken.samples


def _accuracy(case_run: CaseRun) -> AccuracyName:
    accuracy = case_run.case.accuracy
    assert accuracy is not None, "a case without an accuracy class is skipped, not measured"
    return accuracy


def _take_samples(bench: Bench, prepared: Prepared, case_run: CaseRun, check: Check) -> tuple[SampleSet, Watched]:
    """The product is poisoned before the first sample, so that what is checked afterwards was written while timed."""
    estimate_us = warm_up(prepared, case_run.timing, check)
    reps = reps_for(estimate_us, case_run.device.device_class)
    bench.poison()
    with bench.watch() as watched:
        taken = take(bench, prepared, case_run.timing, reps, check)
    return taken, watched


def _errors(bench: Bench) -> dict[str, float]:
    """The errors of the current product, as fields of a record."""
    errors = bench.errors_vs_float64()
    return {} if errors is None else {"error_vs_float64": errors.frobenius, "worst_row_error": errors.worst_row}


def _of_sampling(case_run: CaseRun, taken: SampleSet, watched: Watched) -> dict[str, Any]:
    """The record's fields about sampling, except the times."""
    mean_mhz, min_mhz = mean_and_min(taken.clocks_mhz)
    on_gpu = case_run.device.device_class == "gpu"
    return {
        "samples": len(taken.kept),
        "discarded": taken.discarded,
        "inner_reps": taken.reps,
        "stop_reason": taken.stop_reason,
        "cpu_launch_us": taken.launch_us if taken.kept and on_gpu else None,
        "state": watched.state.model_copy(update={"sm_clock_mhz": mean_mhz, "sm_clock_min_mhz": min_mhz}),
        "contended": watched.contended,
        "throttled": watched.throttled or taken.many_discarded,
        "power_limited": watched.power_limited,
    }


def _why_so_few(taken: SampleSet, case_run: CaseRun) -> str:
    timing, min_samples = case_run.timing, min(MIN_SAMPLES, case_run.timing.min_samples)
    sentence = f"Only {len(taken.kept)} of at least {min_samples} samples were taken in {timing.timeout_s:g} s"
    if taken.discarded:
        return f"{sentence}; {taken.discarded} more were thrown away, for the clock was far below its default."
    return f"{sentence}; allow it more, or make the product smaller."


def _extras(bench: Bench, prepared: Prepared, case_run: CaseRun) -> dict[str, Any]:
    """Copies and energy, if the spec asks for them."""
    found: dict[str, Any] = {}
    spec = case_run.spec
    if spec.transfers.enabled:
        found["copies"] = bench.copies(pageable=False)
        if spec.transfers.pageable:
            found["copies_pageable"] = bench.copies(pageable=True)
    if spec.energy.enabled:
        found["energy_mj"] = bench.energy_mj(prepared, spec.energy.window_s)
    return found


def _record_of(case_run: CaseRun, taken: SampleSet, known: dict[str, Any]) -> CaseRecord:
    times = summarize(taken.times_us)
    ordered = sorted(taken.times_us)
    interval = ci95(ordered)
    gflops = case_run.case.problem.flops / times.median / 1e3
    status, reason = _status_of(case_run, gflops)
    return case_run.record(
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


def _status_of(case_run: CaseRun, gflops: float) -> tuple[Status, str | None]:
    """Marks a speed above the device's roof as `implausible`, keeping its figures as evidence."""
    roof = roof_of(BY_NAME[case_run.case.kernel], case_run.device, _accuracy(case_run), case_run.case.problem.dtype)
    if roof is None or gflops <= ROOF_SLACK * roof:
        return "ok", None
    return "implausible", f"{gflops:.0f} GFLOPS are more than the {roof:.0f} that the device can do."
