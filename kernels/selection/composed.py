"""Chooses the kernel for the real product from which a complex one is computed."""

from __future__ import annotations

from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import DeviceTraits
from kernels.model.kinds.composed import ComposedKernel
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from kernels.selection.choose import choose


def real_choice(choice: Choice, problem: Problem, traits: DeviceTraits) -> Choice:
    """The choice for the real product, in the class of the complex one; for a library with complex products of its own,
    its real ones. Raises NoKernelError, ConfigError."""
    kernel, accuracy = choice.kernel, choice.kernel.accuracy[problem.dtype]
    if not isinstance(kernel, ComposedKernel):
        return choose(kernel.name, NO_CONFIG, problem.as_real, accuracy, traits)
    if choice.config.get("emulated"):
        return choose(kernel.emulators[problem.dtype].name, NO_CONFIG, problem.as_real, accuracy, traits)
    return choose("auto", NO_CONFIG, problem.as_real, accuracy, traits)
