"""A bench on the CPU: its kernels timed by the host's clock. Its product is a fresh array each time, as in the service,
so allocating it is part of what is timed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from jobs.benchmarks.cases import Case
from jobs.benchmarks.records import CopyFigures, LaunchFigures
from jobs.benchmarks.spec import CacheState, DataSpec
from jobs.errors import KernelUnavailable
from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.catalog import BY_NAME
from kernels.model.kernel import DeviceTraits
from kernels.model.numerics import DTYPES, Problem
from worker.check.checkable import HostProduct
from worker.check.elements import as_exact, as_float64, core
from worker.check.host_matrix import HostMatrix
from worker.check.rounding import rounding_of
from worker.check.views.as_real import in_blocks, real_matrices, real_view, signs_of
from worker.cpu.bench_operands import operand, stored
from worker.cpu.kernels import CPU_KERNELS, Multiply
from worker.cpu.usage import ProcessorTimes, last_cache_bytes
from worker.device.bench import Bench, Prepared, ProductErrors, Sample, Watched, product_errors

CPU = DeviceTraits("cpu")
MIN_FLUSH_BYTES = 64 << 20
SAMPLED_ROWS = 128  # rows over which the error is computed
BLOCK_ELEMENTS = 1 << 22  # of the float64 product at a time
FLOAT64_ROUNDOFF = 2.0**-53
MUCH_ELSEWHERE = 0.15  # share of all cores' time used by other processes above which a case is contended


class CpuBench(Bench):
    """The operands of one problem in this process's memory, the last product beside them."""

    def __init__(self, problem: Problem, data: DataSpec) -> None:
        self.problem = problem
        batch = problem.product_shape[:-2]
        self.a = operand(data, problem.dtype, (*batch, problem.m, problem.k), 0)
        self.b = operand(data, problem.dtype, (*batch, problem.k, problem.n), 1)
        self.c: Array = np.zeros(problem.product_shape, STORAGE_DTYPES[problem.product_dtype])

    def prepare(self, case: Case) -> Prepared:
        if (reason := BY_NAME[case.kernel].unsupported_because(CPU)) is not None:
            raise KernelUnavailable(reason)
        return _PreparedCpu(self, CPU_KERNELS[case.kernel])

    def flush(self) -> None:
        """Overwrites the contents of the caches."""
        self._flushed[...] += 1

    @cached_property
    def _flushed(self) -> Array:
        """Ones, so that its pages exist."""
        return np.ones(max(MIN_FLUSH_BYTES, 2 * last_cache_bytes()), np.uint8)

    def poison(self) -> None:
        if DTYPES[self.problem.product_dtype].is_integer:
            self.c.fill(np.iinfo(self.c.dtype).min)
        else:
            nan = complex(np.nan, np.nan) if DTYPES[self.problem.product_dtype].is_complex else np.nan
            self.c[...] = stored(np.array(nan), self.problem.product_dtype)

    def matrices(self) -> HostProduct:
        problem = self.problem
        matrices = (
            HostMatrix(core(self.a, transposed=False), problem.dtype),
            HostMatrix(core(self.b, transposed=False), problem.dtype),
            HostMatrix(core(self.c, transposed=False), problem.product_dtype),
        )
        return HostProduct(*real_matrices(problem, *matrices))

    def errors_vs_float64(self) -> ProductErrors | None:
        """The errors of the first product of a batch."""
        problem = self.problem
        if DTYPES[problem.dtype].is_integer:
            return None
        rows = np.unique(np.linspace(0, problem.m - 1, SAMPLED_ROWS).astype(int))
        a, b, c = (core(matrix, transposed=False)[0] for matrix in (self.a, self.b, self.c))
        exact = as_exact(a[rows], problem.dtype) @ as_exact(b, problem.dtype)
        of_rows = np.square(np.abs(as_exact(c[rows], problem.product_dtype) - exact)).sum(axis=1)
        return product_errors(of_rows, np.square(np.abs(exact)).sum(axis=1))

    def largest_error_ratio(self) -> float:
        ratio = self._integer_ratio if DTYPES[self.problem.dtype].is_integer else self._float_ratio
        rows = max(1, BLOCK_ELEMENTS // self.problem.n)
        return max(ratio(slice(start, start + rows)) for start in range(0, self.problem.m, rows))

    def _integer_ratio(self, rows: slice) -> float:
        """The error ratio of integers, compared modulo 2³²; sums modulo 2⁶⁴ suffice for that."""
        a, c = (matrix[..., rows, :] for matrix in (self.a, self.c))
        exact = (a.astype(np.int64) @ self.b.astype(np.int64)).astype(np.int32)
        return 0.0 if np.array_equal(exact, c) else float("inf")

    def _float_ratio(self, rows: slice) -> float:
        """Each element's distance from float64's, over k·u·|A|·|B| + u_out·|C|: the bound for any order of summation
        (Higham, "Accuracy and Stability of Numerical Algorithms", section 3.5)."""
        rounding = rounding_of(self.problem, BY_NAME["cpu_blas"].accuracy[self.problem.dtype])
        (a, b, c), problem = self._real(rows), self.problem.as_real
        with np.errstate(all="ignore"):  # what overflows is seen and counts as wrong
            exact, sizes = a @ b, np.abs(a) @ np.abs(b)
            granted = problem.k * (rounding.accumulate + FLOAT64_ROUNDOFF) * sizes + rounding.output * np.abs(exact)
            distance = np.abs(c - exact)
            ratios = np.where(distance == 0.0, 0.0, distance / (granted + rounding.underflow))
        return float(np.nan_to_num(ratios, nan=np.inf).max(initial=0.0))

    def _real(self, rows: slice) -> tuple[Array, Array, Array]:
        """A and C's rows and B, of complex matrices as those of `Problem.as_real`, in float64."""
        a, b, c = self.a[..., rows, :], self.b, self.c[..., rows, :]
        if DTYPES[self.problem.dtype].is_complex:
            blocks = in_blocks(core(b, transposed=False), signs_of(self.problem))
            a, b, c = real_view(a), blocks.reshape(*b.shape[:-2], *blocks.shape[1:]), real_view(c)
        real = self.problem.as_real
        return as_float64(a, real.dtype), as_float64(b, real.dtype), as_float64(c, real.product_dtype)

    def copies(self, *, pageable: bool) -> CopyFigures | None:
        return None

    def energy_mj(self, prepared: Prepared, window_s: float) -> float | None:
        return None

    @contextmanager
    def watch(self) -> Iterator[Watched]:
        _ = self._flushed  # made here: the first flush should not spend the time allowed to samples on page faults
        watched, before = Watched(), ProcessorTimes.now()
        yield watched
        watched.contended = before.others_share(ProcessorTimes.now()) > MUCH_ELSEWHERE


class _PreparedCpu(Prepared):
    def __init__(self, bench: CpuBench, multiply: Multiply) -> None:
        self._bench, self._multiply = bench, multiply
        self.launch = LaunchFigures()
        self.compile_ms = 0.0

    def sample(self, reps: int, cache: CacheState) -> Sample:
        """Each launch finds the caches as asked, so each is timed by itself."""
        bench, spent_ns = self._bench, 0
        for _ in range(reps):
            if cache == "cold":
                bench.flush()
            started_ns = time.perf_counter_ns()
            bench.c = self._multiply(bench.problem, bench.a, bench.b, None)
            spent_ns += time.perf_counter_ns() - started_ns
        return Sample(time_us=spent_ns / reps / 1e3, sm_clock_mhz=None, launch_us=0.0)
