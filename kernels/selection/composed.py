"""What multiplies the real product that a complex one is made of."""

from __future__ import annotations

from kernels.model.kernel import NO_CONFIG, ComposedKernel, DeviceTraits
from kernels.model.numerics import Problem
from kernels.selection.choose import Choice, choose


def real_choice(kernel: ComposedKernel, problem: Problem, traits: DeviceTraits) -> Choice:
    """In the class that the complex product is to have. Raises NoKernelError."""
    return choose("auto", NO_CONFIG, problem.as_real, kernel.accuracy[problem.dtype], traits)
