"""What `auto` takes at a shape that no table has: a few kernels are measured there, once, before the product.

A table says at best what is likely between its shapes; where a library's kernel changes, or how many parts it cuts k
into, only measuring tells. PyTorch's TunableOp and cuDNN's benchmark mode do the same at a shape's first use.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import structlog

from jobs.benchmarks.cases import expand
from jobs.benchmarks.records import CaseRecord
from jobs.benchmarks.spec import BenchmarkSpec, KernelAxis, Shape, TimingSpec
from kernels.model.kernel import NO_CONFIG, Kernel
from kernels.model.numerics import AccuracyName, Problem
from kernels.selection.choose import Choice, candidates, choose, choose_from, contenders, preferred_of
from kernels.selection.forecast import Forecast
from kernels.selection.ranking import compared, error_ratio
from kernels.selection.tuned import Entry, Trial, TunedTable
from worker.benchmark.case_run import CaseRun, Check
from worker.benchmark.in_process import InProcess
from worker.device.runner import Runner

TIMING = TimingSpec(rounds=1, warmup_ms=1.0, min_samples=3, max_samples=5, min_time_s=0.0, timeout_s=1.0)
LAUNCHES = 12  # of each kernel, about: warmed up, checked twice, sampled
LONGEST_S = 2.0  # by the forecasts; a longer product is taken as the table says
OTHER_OPERANDS = 1.01  # errors of two kernels over each other move by about so much with the operands
KEPT = 4096  # shapes

log = structlog.get_logger(__name__)


class Probes:
    """For one process, which forgets them at its end. For use by one thread."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._taken: dict[tuple[Problem, AccuracyName], Choice] = {}

    def choose(self, problem: Problem, accuracy: AccuracyName, check: Check) -> Choice:
        """As `choose("auto", …)`, from a shape's first use on by what was measured at it.

        Raises NoKernelError, ConfigError, DeviceFault, and what `check` raises.
        """
        known = self._taken.get((problem, accuracy))
        if known is None:
            known = self._chosen(problem, accuracy, check)
            if len(self._taken) == KEPT:
                self._taken.pop(next(iter(self._taken)))
            self._taken[problem, accuracy] = known
        return known

    def _chosen(self, problem: Problem, accuracy: AccuracyName, check: Check) -> Choice:
        traits = self._runner.device.traits
        expected = choose("auto", NO_CONFIG, problem, accuracy, traits)
        likely, preferred = contenders(problem, accuracy, traits), preferred_of(candidates(problem, accuracy, traits))
        if preferred is None or not _is_worth_it(likely, expected, preferred, problem):
            return expected
        started = time.monotonic()
        besides = {preferred.name: {}, expected.kernel.name: dict(expected.config)}
        table = self._measured(_spec(likely, besides, problem), preferred, check)
        chosen = choose_from([table], problem, accuracy, traits) if table is not None else expected
        seconds = round(time.monotonic() - started, 3)
        log.info("probed", shape=(problem.m, problem.n, problem.k), kernel=chosen.kernel.name, seconds=seconds)
        return chosen

    def _measured(self, spec: BenchmarkSpec, preferred: Kernel, check: Check) -> TunedTable | None:
        """None where a library, or what is preferred, could not be measured: nothing can be held against it."""
        device = self._runner.device
        cases = [case for case in expand(spec, device) if case.skip is None]
        with InProcess(self._runner, alone=False) as measurer:
            case_runs = (CaseRun(case, 0, 1, spec, spec.timing, device) for case in cases)
            records = [measurer.measure(case_run, check)[0] for case_run in case_runs]
        counted = {record.case: record for record in records if _counts(record)}
        needed = {preferred.name, *(case.kernel for case in cases if case.is_baseline)}
        if not needed <= {record.kernel for record in counted.values()}:
            return None
        return TunedTable(
            device=device.name,
            device_class=device.device_class,
            compute_capability=device.compute_capability,
            multiprocessors=device.multiprocessors,
            sources=(),
            entries=tuple(_entries(counted)),
        )


def _is_worth_it(likely: Sequence[Forecast], expected: Choice, preferred: Kernel, problem: Problem) -> bool:
    """Whether there is a doubt, and time to settle it."""
    if not likely:
        return False
    alone = all(one.point.kernel is expected.kernel and one.point.config == expected.config for one in likely)
    launches_s = (problem.flops / (one.point.row.gflops * 1e9) for one in likely)
    return not (alone and expected.kernel is preferred) and LAUNCHES * sum(launches_s) <= LONGEST_S


def _spec(likely: Sequence[Forecast], besides: Mapping[str, dict[str, int]], problem: Problem) -> BenchmarkSpec:
    """Each kernel in the config that was best nearby and in its default one here. One whose configs differ in how exact
    they are stands for each of them."""
    axes = [KernelAxis(kernel=one.point.kernel.name, configs=_configs(one)) for one in likely]
    axes += [KernelAxis(kernel=name, configs=(config,)) for name, config in besides.items()]
    shape = Shape(m=problem.m, n=problem.n, k=problem.k, batch=problem.batch)
    return BenchmarkSpec(kernels=tuple(axes), shapes=(shape,), dtypes=(problem.dtype,), timing=TIMING)


def _configs(one: Forecast) -> tuple[dict[str, int], ...]:
    nearby = dict(one.point.config)
    return (nearby,) if one.point.kernel.emulated_with is not None else (nearby, {})


def _counts(record: CaseRecord) -> bool:
    return record.status == "ok" and not (record.contended or record.throttled)


def _entries(records: Mapping[str, CaseRecord]) -> Iterator[Entry]:
    """One for each accuracy class, of records by the id of their case."""
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
    """In the Frobenius norm or in the worst row, whichever is the more."""
    pairs = (record.error_vs_float64, library.error_vs_float64), (record.worst_row_error, library.worst_row_error)
    ratios = [error_ratio(None if own is None else own * OTHER_OPERANDS, other) for own, other in pairs]
    known = [ratio for ratio in ratios if ratio is not None]
    return max(known) if ratios[0] is not None and known else None
