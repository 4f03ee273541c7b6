"""The GPU's part of a benchmark: operands of one problem, and kernels timed on them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import cupy

from jobs.benchmarks.cases import Case
from jobs.benchmarks.records import CopyFigures, LaunchFigures
from jobs.benchmarks.spec import CacheState, DataSpec
from jobs.fleet.workers import DeviceInfo
from kernels.catalog import BY_NAME
from kernels.model.kernel import CudaKernel
from kernels.model.kinds.composed import ComposedKernel
from kernels.model.numerics import DTYPES, Problem
from kernels.selection.candidates import Choice
from worker.check.checkable import Checkable
from worker.cuda.bench.copies import timed_copies
from worker.cuda.bench.energy import energy_mj
from worker.cuda.bench.figures import launch_figures
from worker.cuda.bench.nvml import Nvml
from worker.cuda.bench.operands import OperandSet, as_operands, random_set
from worker.cuda.bench.plan import MAX_LAUNCHES, rotating_sets
from worker.cuda.bench.reference import Reference
from worker.cuda.bench.sampler import Sampler
from worker.cuda.bench.watch import watched
from worker.cuda.compile import Compiler
from worker.cuda.complex.matrices import RealOperands, as_real
from worker.cuda.complex_products import ComplexProducts
from worker.cuda.gpu.faults import device_faults
from worker.cuda.launch import PreparedKernels, prepare
from worker.cuda.library.cublas import Cublas
from worker.device.bench import Bench, Prepared, ProductErrors, Sample, Watched

Put = Callable[[OperandSet], None]  # puts one product of a set on the current stream


class CudaBench(Bench):
    """Its operands are created with it. `sets[0]` is checked; a cold sample of several launches also uses copies of it,
    and ends with the first set.
    """

    def __init__(
        self, compiler: Compiler, cublas: Cublas, device: DeviceInfo, problem: Problem, data: DataSpec
    ) -> None:
        """Raises cupy's OutOfMemoryError."""
        self._compiler, self._cublas, self._device, self._problem = compiler, cublas, device, problem
        self._nvml = Nvml(device.uuid)
        # What the vendor promises under sustained load, where NVML tells it: of the highest clock a power-limited
        # device keeps too little for a rule that throws away samples. Else the clock that CUDA rates the device at.
        self.default_clock_mhz = self._nvml.default_clock_mhz() or device.max_clock_mhz
        self._sets = [random_set(compiler, problem, data)]
        self._sampler = Sampler(compiler, device.l2_bytes, device.multiprocessors or 1)
        self._last: Case | None = None

    @device_faults()
    def prepare(self, case: Case) -> Prepared:
        kernel = BY_NAME[case.kernel]
        if isinstance(kernel, ComposedKernel):
            prepared = self._composed(case, kernel)
        else:
            prepared = self._ours(case, kernel) if isinstance(kernel, CudaKernel) else self._library(case)
        prepared.put(self._sets[0])  # loads the kernel, and takes what memory it works in: not while it is timed
        cupy.cuda.get_current_stream().synchronize()
        self._last = case
        return prepared

    def _ours(self, case: Case, kernel: CudaKernel) -> CudaPrepared:
        begun = time.perf_counter()
        prepared = prepare(self._compiler, kernel, case.config, self._problem)
        compile_ms = (time.perf_counter() - begun) * 1e3

        def put(at: OperandSet) -> None:
            prepared.launch(at.a, at.b, at.c)

        figures = launch_figures(prepared.main, prepared.plan.main, self._device.multiprocessors)
        return CudaPrepared(self, case, put, figures, compile_ms)

    def _composed(self, case: Case, kernel: ComposedKernel) -> CudaPrepared:
        """Prepares a composed complex product; the memory of its real operands is kept for each set."""
        kernels = PreparedKernels(self._compiler)
        products = ComplexProducts(self._compiler, kernels, self._cublas, lambda: self._device.traits)
        launchers: dict[int, Callable[[], None]] = {}
        choice = Choice(kernel, case.config, "It is measured.")

        def put(at: OperandSet) -> None:
            if at.c.address not in launchers:
                launchers[at.c.address] = products.launcher(choice, self._problem, (at.a, at.b, at.c))
            launchers[at.c.address]()

        return CudaPrepared(self, case, put, LaunchFigures(), compile_ms=0.0)

    def _as_real(self) -> tuple[Problem, OperandSet]:
        """The problem and what is checked of it; of complex ones the real ones that they are."""
        first, problem = self._sets[0], self._problem
        if not DTYPES[problem.dtype].is_complex:
            return problem, first
        operands = RealOperands(self._compiler, problem, first.a, first.b, for_check=True)
        operands.arrange()
        return problem.as_real, OperandSet(operands.a, operands.b, as_real(first.c))

    def _library(self, case: Case) -> CudaPrepared:
        def put(at: OperandSet) -> None:
            self._cublas.multiply(case.kernel, self._problem, at.a, at.b, at.c, case.config)

        return CudaPrepared(self, case, put, LaunchFigures(), compile_ms=0.0)

    def sampled(self, case: Case, put: Put, reps: int, cache: CacheState) -> Sample:
        """Samples a prepared kernel. The last launch writes the product that is checked."""
        self._last = case
        reps = min(reps, MAX_LAUNCHES)
        count = rotating_sets(self._sets[0].bytes, self._device.l2_bytes, reps) if cache == "cold" else 1
        while len(self._sets) < count:
            self._sets.append(self._sets[0].copied())
        return self._sampler.sample(lambda after: put(self._sets[after % count]), reps, cache)

    @device_faults()
    def poison(self) -> None:
        for each in self._sets:
            each.poison()

    def matrices(self) -> Checkable:
        return as_operands(self._compiler, *self._as_real())

    @device_faults()
    def errors_vs_float64(self) -> ProductErrors | None:
        """The errors of the first product of a batch."""
        if DTYPES[self._problem.dtype].is_integer:
            return None
        return Reference(*self._as_real()).errors()

    @device_faults()
    def largest_error_ratio(self) -> float:
        """In the accuracy class of the kernel that was launched last."""
        accuracy = (self._last.accuracy if self._last is not None else None) or DTYPES[self._problem.dtype].accuracy
        problem, at = self._as_real()
        items = (Reference(problem, at, item) for item in range(problem.batch))
        return max(each.largest_ratio(accuracy) for each in items)

    @device_faults()
    def copies(self, *, pageable: bool) -> CopyFigures | None:
        figures = timed_copies(self._sets[0], pageable=pageable)
        cupy.get_default_pinned_memory_pool().free_all_blocks()
        return figures

    @device_faults()
    def energy_mj(self, prepared: Prepared, window_s: float) -> float | None:
        assert isinstance(prepared, CudaPrepared), "a bench measures what it prepared"
        time_us = prepared.sample(1, "warm").time_us
        used_mj = energy_mj(self._nvml.energy_mj, lambda: prepared.put(self._sets[0]), time_us, window_s)
        cupy.cuda.get_current_stream().synchronize()
        return used_mj

    def is_power_capped(self) -> bool:
        return self._nvml.is_power_capped()

    def watch(self) -> AbstractContextManager[Watched]:
        return watched(self._nvml)

    def close(self) -> None:
        """Lets the matrices go."""
        self._sets.clear()
        del self._sampler


class CudaPrepared(Prepared):
    """A prepared kernel, valid as long as its bench."""

    def __init__(self, bench: CudaBench, case: Case, put: Put, figures: LaunchFigures, compile_ms: float) -> None:
        self._bench, self._case, self.put = bench, case, put
        self.launch, self.compile_ms = figures, compile_ms

    @device_faults()
    def sample(self, reps: int, cache: CacheState) -> Sample:
        """At most MAX_LAUNCHES at once. Raises KernelUnavailable, OutOfDeviceMemory, DeviceFault."""
        return self._bench.sampled(self._case, self.put, reps, cache)
