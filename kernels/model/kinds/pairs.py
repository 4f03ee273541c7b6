"""Kernels that multiply complex elements as they lie, as pairs of a real type of theirs."""

from __future__ import annotations

from kernels.model.kernel import CudaKernel, Kernel
from kernels.model.numerics import DTYPES, DTypeName, Problem


def pair_dtypes(kernel: CudaKernel) -> tuple[DTypeName, ...]:
    """Complex types that it takes so."""
    return tuple(each.name for each in DTYPES.values() if kernel.takes_pairs and each.part in kernel.accuracy)


def inner_problem(kernel: Kernel, problem: Problem) -> Problem:
    """The problem that a kernel computes for a complex product: the product itself, or the equivalent real one."""
    if not isinstance(kernel, CudaKernel) or not kernel.takes_pairs:
        return problem.as_real
    is_left = kernel.fallback is not None and kernel.fallback.always(problem)
    return problem.as_real if is_left else problem
