"""Chooses the kernel for a product with a tolerance, or with the same bits everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jobs.errors import OperandOutOfRange
from jobs.models import MatmulRequest
from jobs.requests.bounds import ErrorBound
from kernels.catalog import BY_NAME
from kernels.model.bounds import Magnitudes, any_magnitudes
from kernels.model.kernel import Kernel, LibraryKernel
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from kernels.selection.choose import choose
from kernels.selection.demands import Demand, demand_of, may_serve, unmet
from worker.device.runner import Runner
from worker.product.auto import AutoChoices

Measure = Callable[[], tuple[Magnitudes, Magnitudes]]


@dataclass(frozen=True, slots=True)
class Demanded:
    """The chosen kernel, the alternatives, and the bound proven for these operands."""

    choice: Choice
    fit: tuple[Kernel, ...]
    demand: Demand
    problem: Problem
    magnitudes: tuple[Magnitudes, Magnitudes]

    def bound(self, kernel: str) -> ErrorBound | None:
        value = self.demand.bound(BY_NAME[kernel], self.problem, *self.magnitudes)
        return None if value is None else ErrorBound(kind=self.demand.kind, value=value)


def choose_demanded(
    request: MatmulRequest, attempt: int, runner: Runner, auto: AutoChoices, measure: Measure
) -> Demanded:
    """Chooses a kernel. `measure` returns the operands' magnitudes; it is called only if they matter to a possible
    kernel.

    Raises OperandOutOfRange, NoKernelError, ConfigError, and what `measure` does.
    """
    problem, demand, traits = request.problem, demand_of(request), runner.device.traits
    there = [
        kernel
        for kernel in may_serve(request)
        if kernel.unsupported_because(traits, problem.dtype) is None and kernel.name in runner.kernels
    ]
    magnitudes = any_magnitudes(problem.dtype), any_magnitudes(problem.dtype)
    fit = [kernel for kernel in there if demand.is_met(kernel, problem, *magnitudes)]
    if demand.tolerance is not None and len(fit) < len(there):
        magnitudes = measure()
        fit = [kernel for kernel in there if demand.is_met(kernel, problem, *magnitudes)]
    if not fit:
        raise OperandOutOfRange(unmet(demand, _all_of(request, runner), problem, "here", *magnitudes))
    choice = _choice(request, _fresh(fit, attempt), runner, auto)
    demanded = Demanded(choice, tuple(fit), demand, problem, magnitudes)
    return replace(demanded, choice=replace(choice, why=_why(demanded)))


def _all_of(request: MatmulRequest, runner: Runner) -> Sequence[Kernel]:
    names = runner.kernels if request.kernel == "auto" else (request.kernel,)
    return [BY_NAME[name] for name in names]


def _fresh(fit: Sequence[Kernel], attempt: int) -> Sequence[Kernel]:
    """After a failed attempt, only this project's kernels: a library would fail in the same way again."""
    ours = [kernel for kernel in fit if not isinstance(kernel, LibraryKernel)]
    return ours if attempt > 1 and ours else fit


def _choice(request: MatmulRequest, fit: Sequence[Kernel], runner: Runner, auto: AutoChoices) -> Choice:
    if request.kernel != "auto":
        accuracy = BY_NAME[request.kernel].accuracy[request.problem.dtype]
        return choose(request.kernel, request.config, request.problem, accuracy, runner.device.traits)
    return auto.choose_among(fit, request.problem, request.accuracy)


def _why(demanded: Demanded) -> str:
    why, bound = demanded.choice.why.removesuffix("."), demanded.bound(demanded.choice.kernel.name)
    if bound is not None:
        why += f"; its error is proven to be within {bound.value:.3g}, {bound.kind}"
    if demanded.demand.reproducible:
        why += "; its products have the same bits on every device"
    return f"{why}."
