"""A complex product as one real one, by whichever kernel `auto` takes for that."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kernels.model.kernel import ComposedKernel, CudaKernel, DeviceTraits
from kernels.model.numerics import Problem
from kernels.selection.composed import real_choice
from worker.cuda.compile import Compiler
from worker.cuda.complex.matrices import RealOperands, as_real
from worker.cuda.launch import PreparedKernels
from worker.cuda.library.cublas import Cublas
from worker.cuda.memory import DeviceMatrix


class ComplexProducts:
    """For one thread."""

    def __init__(self, compiler: Compiler, prepared: PreparedKernels, cublas: Cublas, traits: DeviceTraits) -> None:
        self._compiler, self._prepared, self._cublas, self._traits = compiler, prepared, cublas, traits

    def launcher(
        self, kernel: ComposedKernel, problem: Problem, matrices: tuple[DeviceMatrix, DeviceMatrix, DeviceMatrix]
    ) -> Callable[[], None]:
        """What puts the product on the current stream. All that is tried at a first use has been. Raises
        KernelUnavailable, DeviceFault, cupy's OutOfMemoryError."""
        a, b, c = matrices
        choice, real = real_choice(kernel, problem, self._traits), problem.as_real
        operands = RealOperands(self._compiler, problem, a, b)
        three = operands.a, operands.b, as_real(c)
        if isinstance(choice.kernel, CudaKernel):
            multiply = partial(self._prepared.get(choice.kernel, choice.config, real).launch, *three)
        else:
            operands.arrange()  # what is tried is tried on the product's own elements
            self._cublas.tune(choice.kernel.name, choice.config, real, three)
            multiply = partial(self._cublas.multiply, choice.kernel.name, real, *three, choice.config)

        def launch() -> None:
            operands.arrange()
            multiply()

        return launch
