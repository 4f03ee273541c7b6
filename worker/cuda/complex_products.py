"""A complex product computed as one real product: by the kernel that `auto` chooses for it, or by a library's real
product.

Libraries multiply each sum by an alpha of 1 + 0i, and 0 times infinity is NaN: where one part of an element is infinite
it spoils the other. If a library's product is not finite, it is recomputed as a real one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kernels.model.kernel import CudaKernel, DeviceTraits, Kernel, LibraryKernel
from kernels.model.kinds.pairs import inner_problem
from kernels.model.numerics import DTYPES, Problem
from kernels.selection.candidates import Choice
from kernels.selection.composed import real_choice
from worker.cuda.compile import Compiler
from worker.cuda.complex.matrices import RealOperands, as_real, is_finite
from worker.cuda.launch import PreparedKernels
from worker.cuda.library.cublas import Cublas
from worker.cuda.memory import DeviceMatrix, Matrices


class ComplexProducts:
    """For one thread. `traits` are read for each product, because a worker may leave kernels out."""

    def __init__(
        self, compiler: Compiler, prepared: PreparedKernels, cublas: Cublas, traits: Callable[[], DeviceTraits]
    ) -> None:
        self._compiler, self._prepared, self._cublas, self._traits = compiler, prepared, cublas, traits

    def is_spoilt(self, kernel: Kernel, product: DeviceMatrix) -> bool:
        """Whether a library may have made elements NaN that are not. Waits for the current stream."""
        is_complex = DTYPES[product.layout.dtype].is_complex
        return is_complex and isinstance(kernel, LibraryKernel) and not is_finite(self._compiler, product)

    def launcher(self, asked: Choice, problem: Problem, matrices: Matrices) -> Callable[[], None]:
        """A function that puts the product on the current stream. Trials of a first use are already done. Raises
        KernelUnavailable, DeviceFault, cupy's OutOfMemoryError."""
        a, b, c = matrices
        choice, real = real_choice(asked, problem, self._traits()), problem.as_real
        operands = RealOperands(self._compiler, problem, a, b)
        if isinstance(choice.kernel, CudaKernel) and inner_problem(choice.kernel, problem) == problem:
            prepared = self._prepared.get(choice.kernel, choice.config, problem)
            return partial(prepared.launch, as_real(a), as_real(b), as_real(c), others=operands.behind)
        real_matrices = operands.a, operands.b, as_real(c)
        if isinstance(choice.kernel, CudaKernel):
            multiply = partial(self._prepared.get(choice.kernel, choice.config, real).launch, *real_matrices)
        else:
            operands.arrange()  # what is tried is tried on the product's own elements
            self._cublas.tune(choice.kernel.name, choice.config, real, real_matrices)
            multiply = partial(self._cublas.multiply, choice.kernel.name, real, *real_matrices, choice.config)

        def launch() -> None:
            operands.arrange()
            multiply()

        return launch
