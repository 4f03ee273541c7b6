"""What multiplies a complex product, or the real one that it is."""

from __future__ import annotations

from kernels.model.kernel import NO_CONFIG, ComposedKernel, CudaKernel, DeviceTraits
from kernels.model.numerics import Problem
from kernels.selection.choose import Choice, choose


def real_choice(choice: Choice, problem: Problem, traits: DeviceTraits) -> Choice:
    """In the class that the complex product is to have; of a library that has complex products of its own, its real
    ones. Raises NoKernelError, ConfigError."""
    kernel, accuracy = choice.kernel, choice.kernel.accuracy[problem.dtype]
    if not isinstance(kernel, ComposedKernel):
        return choose(kernel.name, NO_CONFIG, problem.as_real, accuracy, traits)
    if choice.config.get("emulated"):
        return choose(kernel.emulators[problem.dtype].name, NO_CONFIG, problem.as_real, accuracy, traits)
    return choose("auto", NO_CONFIG, problem.as_real, accuracy, traits)


def inner_problem(inner: Choice, problem: Problem) -> Problem:
    """What that choice multiplies of a complex product: a kernel of ours may take it as it is."""
    return inner.kernel.inner_problem(problem) if isinstance(inner.kernel, CudaKernel) else problem.as_real
