"""Multiplies matrices on one GPU by any kind of kernel: a CUDA kernel, a library, or a product composed of others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.model.kernel import CudaKernel
from kernels.model.kinds.composed import ComposedKernel
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from worker.cuda.compile import Compiler
from worker.cuda.complex_products import ComplexProducts
from worker.cuda.epilogue.on_device import EpilogueOnDevice
from worker.cuda.gpu.kernel_clock import Meanwhile, ThreadClock
from worker.cuda.launch import PreparedKernels
from worker.cuda.library.cublas import Cublas
from worker.cuda.library.scaled import multiplication
from worker.cuda.memory import Matrices, clear_padding
from worker.cuda.scaled.on_device import ScalesOnDevice


class Multiplier:
    """Launches products on the current stream and times them. Safe to share between threads, each of which has a clock
    of its own."""

    def __init__(
        self,
        compiler: Compiler,
        prepared: PreparedKernels,
        cublas: Cublas,
        composed: ComplexProducts,
        clocks: ThreadClock,
    ) -> None:
        self._compiler, self._prepared, self._cublas, self._composed = compiler, prepared, cublas, composed
        self._clocks = clocks

    def kernel_ms(
        self,
        problem: Problem,
        choice: Choice,
        matrices: Matrices,
        *,
        epilogue: EpilogueOnDevice | None,
        scales: ScalesOnDevice | None,
        before: Callable[[], None],
        meanwhile: Meanwhile,
    ) -> float:
        """Computes A·B, and the epilogue behind it, and returns their device time in ms once the product is done.

        `before` and `meanwhile` are as in `KernelClock.kernel_ms`. Raises what these do, and KernelUnavailable,
        DeviceFault, cupy's OutOfMemoryError.
        """
        kernel, product = choice.kernel, matrices[2]
        multiply, is_loaded = self._launcher(problem, choice, matrices, scales)

        def launch() -> None:
            multiply()
            if epilogue is not None:
                epilogue.launch()

        def followed() -> Any:
            if not isinstance(kernel, CudaKernel):
                clear_padding(product)  # the padding is uninitialised, and the product may be an operand later
            return meanwhile()

        kernel_ms = self.timed_ms(launch, is_loaded=is_loaded, before=before, meanwhile=followed)
        if self._composed.is_spoilt(kernel, product):
            multiply = self._composed.launcher(choice, problem, matrices)
            kernel_ms += self.timed_ms(launch, is_loaded=False, before=before, meanwhile=followed)
        return kernel_ms

    def timed_ms(
        self, launch: Callable[[], None], *, is_loaded: bool = True, before: Callable[[], None], meanwhile: Meanwhile
    ) -> float:
        """`KernelClock.kernel_ms`, by this thread's clock."""
        return self._clocks.clock.kernel_ms(launch, is_loaded=is_loaded, before=before, meanwhile=meanwhile)

    def _launcher(
        self, problem: Problem, choice: Choice, matrices: Matrices, scales: ScalesOnDevice | None
    ) -> tuple[Callable[[], None], bool]:
        """A function that puts A·B on the current stream, and whether all that it launches is loaded."""
        kernel, config = choice.kernel, choice.config
        if isinstance(kernel, ComposedKernel):
            return self._composed.launcher(choice, problem, matrices), True
        if isinstance(kernel, CudaKernel):
            argument = None if scales is None else scales.argument
            return partial(self._prepared.get(kernel, config, problem).launch, *matrices, scales=argument), True
        if scales is not None:
            return multiplication(self._compiler, self._cublas, kernel, problem, scales, matrices), True
        self._cublas.tune(kernel.name, config, problem, matrices)
        is_loaded = self._cublas.has_multiplied(kernel.name, problem)
        return partial(self._cublas.multiply, kernel.name, problem, *matrices, config), is_loaded
