"""The retry of a product after the device's memory was full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jobs.errors import OutOfDeviceMemory
from jobs.models import MatmulRequest
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import Kernel
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice, candidates
from kernels.selection.choose import preferred_of
from worker.device.runner import DoesNotFit, Runner


def second_try(
    request: MatmulRequest,
    problem: Problem,
    choice: Choice,
    runner: Runner,
    full: OutOfDeviceMemory,
    among: Sequence[Kernel] | None = None,
) -> Choice | None:
    """The choice for a second try, or None. `auto` takes the kernel that needs least memory besides the matrices, the
    first in order of preference if several do; `among`: only one of these. Otherwise the same choice again, unless it
    is known not to fit."""
    if request.kernel == "auto" and (lighter := _lightest(request, problem, runner, among, below=choice)) is not None:
        why = f"auto: the device's memory has no room for {choice.kernel.name} here, so {lighter.kernel.name} is taken."
        return replace(lighter, why=why)
    return None if isinstance(full, DoesNotFit) else choice


def _lightest(
    request: MatmulRequest, problem: Problem, runner: Runner, among: Sequence[Kernel] | None, *, below: Choice
) -> Choice | None:
    traits = runner.device.traits
    fit = candidates(problem, request.accuracy, traits, runner.kernels) if among is None else among
    choices = {kernel.name: Choice(kernel, kernel.resolve_config(NO_CONFIG, problem, traits), "") for kernel in fit}
    need = {name: runner.kernel_bytes(choice, problem) for name, choice in choices.items()}
    smallest = min(need.values(), default=0)
    if smallest >= runner.kernel_bytes(below, problem):
        return None
    kernel = preferred_of(kernel for kernel in fit if need[kernel.name] == smallest)
    return None if kernel is None else choices[kernel.name]
