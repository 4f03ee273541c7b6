"""Measures cases in this process; operands are made once for all cases of a problem."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from jobs.benchmarks.spec import DataSpec
from jobs.errors import DeviceFault, JobFailed, OutOfDeviceMemory
from kernels.model.numerics import Problem
from worker.benchmark.case_run import CaseRun, Check, Result
from worker.benchmark.measure import measure
from worker.device.bench import Bench
from worker.device.runner import Runner

NO_MEMORY = "Operands and product do not fit in the worker's memory."


class InProcess:
    """A context; at its end the last problem's operands are freed. `alone`: as in `Runner.bench`."""

    def __init__(self, runner: Runner, *, alone: bool = True) -> None:
        self._runner, self._alone = runner, alone
        self._problem: tuple[Problem, DataSpec] | None = None
        self._context: AbstractContextManager[Bench] | None = None
        self._bench: Bench | None = None

    def measure(self, case_run: CaseRun, check: Check) -> Result:
        """Measures a case. Raises DeviceFault, and what `check` raises; any other error is in the record."""
        try:
            return self._measure(case_run, check)
        except DeviceFault:
            raise
        except OutOfDeviceMemory as error:
            return case_run.without_figures("oom", error.detail)
        except MemoryError:
            return case_run.without_figures("oom", NO_MEMORY)
        except JobFailed as error:
            return case_run.without_figures("launch_error", error.detail)

    def _measure(self, case_run: CaseRun, check: Check) -> Result:
        bench = self._bench_for(case_run.case.problem, case_run.spec.data)
        try:
            return measure(bench, case_run, check)
        except BaseException as error:
            # The bench's context translates errors of the device's library and frees its memory.
            self._close(error)
            raise

    def _bench_for(self, problem: Problem, data: DataSpec) -> Bench:
        if self._bench is None or self._problem != (problem, data):
            self._close(None)
            context = self._runner.bench(problem, data, alone=self._alone)
            self._bench = context.__enter__()
            self._problem, self._context = (problem, data), context
        return self._bench

    def _close(self, error: BaseException | None) -> None:
        context, self._context, self._bench = self._context, None, None
        if context is not None:
            context.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._close(error)
