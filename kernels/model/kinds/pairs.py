"""What a kernel computes for a complex product: some take complex elements as pairs of a real type of theirs."""

from __future__ import annotations

from kernels.model.kernel import CudaKernel, Kernel
from kernels.model.numerics import Problem


def inner_problem(kernel: Kernel, problem: Problem) -> Problem:
    """The problem that a kernel computes for a complex product: the product itself, or the equivalent real one."""
    if not isinstance(kernel, CudaKernel) or not kernel.takes_pairs:
        return problem.as_real
    is_left = kernel.fallback is not None and kernel.fallback.always(problem)
    return problem.as_real if is_left else problem
