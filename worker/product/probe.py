"""Measures a few kernels at a shape that is in no table, so that `auto` knows the fastest one there.

A table says at best what is likely between its shapes; where a library's kernel changes, or how many parts it cuts k
into, only measuring tells. PyTorch's TunableOp and cuDNN's benchmark mode do the same at a shape's first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from jobs.benchmarks.cases import Case, expand
from jobs.benchmarks.records import CaseRecord
from jobs.benchmarks.spec import BenchmarkSpec, KernelAxis, Shape, TimingSpec
from jobs.fleet.workers import DeviceInfo
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import Kernel, LibraryKernel
from kernels.model.numerics import AccuracyName, Problem
from kernels.selection.candidates import Choice, candidates
from kernels.selection.choose import choose, contenders, preferred_of
from kernels.selection.forecast import Forecast
from kernels.selection.ranking import compared, error_ratio
from kernels.selection.tuned import Entry, Trial, TunedTable
from worker.benchmark.case_run import CaseRun, Check
from worker.benchmark.in_process import InProcess
from worker.device.runner import Runner
from worker.product.shapes import Measured

TIMING = TimingSpec(rounds=1, warmup_ms=1.0, min_samples=3, max_samples=5, min_time_s=0.0, timeout_s=1.0)
LAUNCHES = 12  # of each kernel, about: warmed up, checked twice, sampled
LONGEST_S = 2.0  # by the forecasts; a longer product is taken as the table says
LONGEST_LAUNCH_S = 0.02  # and a longer launch: a job that arrives waits for it
OTHER_OPERANDS = 1.01  # errors of two kernels over each other move by about so much with the operands


class Probe:
    """The kernels to measure at a shape, and how."""

    def __init__(self, spec: BenchmarkSpec, preferred: Kernel, device: DeviceInfo) -> None:
        self._spec, self._preferred, self._device = spec, preferred, device
        self._cases: tuple[Case, ...] = tuple(case for case in expand(spec, device) if case.skip is None)

    @property
    def products(self) -> Iterator[tuple[Choice, Problem]]:
        """The products that have to be compiled for it."""
        for case in self._cases:
            yield _choice_of(case), case.problem

    def measure(self, runner: Runner, check: Check) -> Measured:
        """Measures the kernels, as far as they are compiled: a job that arrives would wait for the compiler. One whose
        product is wrong does not count in any config, and is named if it is wrong again: once may be the device's
        doing, and all workers on the model would leave it out. No figures if the preferred kernel or a library could
        not be measured, because then there is nothing to compare with. Memory that is kept for jobs stays, and memory
        that this takes is freed.

        Raises DeviceFault, and what `check` raises.
        """
        cases = [case for case in self._cases if _is_compiled(case, runner)]
        with InProcess(runner, alone=False) as measurer:
            case_runs = [CaseRun(case, 0, 1, self._spec, self._spec.timing, self._device) for case in cases]
            records = [measurer.measure(case_run, check)[0] for case_run in case_runs]
            doubted = [run for run, record in zip(case_runs, records, strict=True) if record.status == "incorrect"]
            again = [measurer.measure(case_run, check)[0] for case_run in doubted]
        unsure = {case_run.case.kernel for case_run in doubted}
        wrong = {record.kernel for record in again if record.status == "incorrect"}
        counted = {record.case: record for record in records if _counts(record) and record.kernel not in unsure}
        needed = {self._preferred.name, *(case.kernel for case in self._cases if case.is_baseline)} - wrong
        has_all = needed <= {record.kernel for record in counted.values()}
        return Measured(tuple(_entries(counted)) if has_all else (), tuple(sorted(wrong)))


def probe_for(problem: Problem, accuracy: AccuracyName, device: DeviceInfo) -> Probe | None:
    """The probe for a shape; None if the tables leave no doubt, if measuring would take too long, or of a symmetric
    product: only whole ones are measured, which say nothing of it. Raises NoKernelError, ConfigError."""
    if problem.symmetric or not problem.flops:
        return None
    traits = device.traits
    expected = choose("auto", NO_CONFIG, problem, accuracy, traits)
    likely, fit = contenders(problem, accuracy, traits), candidates(problem, accuracy, traits)
    preferred = preferred_of(fit)
    if preferred is None or not _is_worth_it(likely, expected, preferred, problem):
        return None
    besides: dict[str, dict[str, int]] = {preferred.name: {}, expected.kernel.name: dict(expected.config)}
    besides |= {kernel.name: {} for kernel in fit if isinstance(kernel, LibraryKernel) and kernel.is_tuned}
    return Probe(_spec(likely, besides, problem), preferred, device)


def table_of(entries: tuple[Entry, ...], device: DeviceInfo) -> TunedTable:
    """The measurements at one shape in the form that `choose_from` reads."""
    return TunedTable(
        device=device.name,
        device_class=device.device_class,
        compute_capability=device.compute_capability,
        multiprocessors=device.multiprocessors,
        sources=(),
        entries=entries,
    )


def _is_worth_it(likely: Sequence[Forecast], expected: Choice, preferred: Kernel, problem: Problem) -> bool:
    """Whether there is a doubt, and time to settle it."""
    if not likely:
        return False
    alone = all(one.point.kernel is expected.kernel and one.point.config == expected.config for one in likely)
    launches_s = [problem.flops / (one.point.row.gflops * 1e9) for one in likely]
    # The library is measured besides; a forecast's speed is over its own.
    longest_s = max(launch_s * max(one.speed, 1.0) for launch_s, one in zip(launches_s, likely, strict=True))
    is_short = LAUNCHES * sum(launches_s) <= LONGEST_S and longest_s <= LONGEST_LAUNCH_S
    return is_short and not (alone and expected.kernel is preferred)


def _spec(likely: Sequence[Forecast], besides: Mapping[str, dict[str, int]], problem: Problem) -> BenchmarkSpec:
    """Each kernel is measured in the config that was best nearby and in its default one. A kernel whose configs differ
    in accuracy is measured only in the former."""
    axes = [KernelAxis(kernel=one.point.kernel.name, configs=_configs(one)) for one in likely]
    axes += [KernelAxis(kernel=name, configs=(config,)) for name, config in besides.items()]
    shape = Shape(m=problem.m, n=problem.n, k=problem.k, batch=problem.batch)
    return BenchmarkSpec(kernels=tuple(axes), shapes=(shape,), dtypes=(problem.dtype,), timing=TIMING)


def _configs(one: Forecast) -> tuple[dict[str, int], ...]:
    nearby = dict(one.point.config)
    return (nearby,) if one.point.kernel.emulated_with is not None else (nearby, {})


def _choice_of(case: Case) -> Choice:
    return Choice(BY_NAME[case.kernel], case.config, "It is measured.")


def _is_compiled(case: Case, runner: Runner) -> bool:
    """A library is there; what it has to try is part of its measurement."""
    return isinstance(BY_NAME[case.kernel], LibraryKernel) or runner.is_compiled(_choice_of(case), case.problem)


def _counts(record: CaseRecord) -> bool:
    return record.status == "ok" and not (record.contended or record.throttled)


def _entries(records: Mapping[str, CaseRecord]) -> Iterator[Entry]:
    """An entry for each accuracy class. `records` are by the id of their case."""
    classes = dict.fromkeys(record.accuracy for record in records.values() if record.accuracy is not None)
    for accuracy in classes:
        together = [record for record in records.values() if record.accuracy == accuracy]
        first = together[0]
        libraries = [record.kernel for record in together if record.case == record.baseline]
        yield Entry(
            dtype=first.dtype,
            accuracy=accuracy,
            m=first.m,
            n=first.n,
            k=first.k,
            batch=first.batch,
            baseline=libraries[0] if libraries else None,
            **compared(_trial(record, records.get(record.baseline or "")) for record in together),
        )


def _trial(record: CaseRecord, library: CaseRecord | None) -> Trial:
    assert record.gflops is not None, "what is ok has figures"
    return Trial(
        kernel=record.kernel,
        config=record.config,
        gflops=record.gflops,
        fraction_of_baseline=record.gflops / library.gflops if library and library.gflops else None,
        error_of_baseline=_error_of_library(record, library) if library else None,
    )


def _error_of_library(record: CaseRecord, library: CaseRecord) -> float | None:
    """The ratio of errors in the Frobenius norm or in the worst row, whichever is larger."""
    pairs = (record.error_vs_float64, library.error_vs_float64), (record.worst_row_error, library.worst_row_error)
    ratios = [error_ratio(None if own is None else own * OTHER_OPERANDS, other) for own, other in pairs]
    known = [ratio for ratio in ratios if ratio is not None]
    return max(known) if ratios[0] is not None and known else None
