"""Which kernel would compute a product, and what is proven of it, without computing it. For worker threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field

from jobs.base import Strict
from jobs.errors import InvalidConfig, NoWorkerForKernel
from jobs.requests.bounds import ErrorBound
from jobs.requests.operands import are_transposes
from kernels.model.bounds import any_magnitudes
from kernels.model.entry.config import ConfigError
from kernels.model.kernel import DeviceTraits, Kernel
from kernels.model.numerics import OPERAND_FLAGS, AccuracyName
from kernels.selection.candidates import Choice, NoKernelError
from kernels.selection.choose import choose, choose_from
from kernels.selection.triangles import ONE_TRIANGLE, computes_triangle
from kernels.selection.tuned import TABLES
from service.bodies.reader import NEEDED, MatmulInput
from service.context import Context
from service.submit.operands import OperandResolver
from service.submit.placement import choose_queue
from service.submit.plan import AUTO, ProductPlan


class ProductDryRun(Strict):
    """The result of a dry run: the kernel and device that would compute the product."""

    kernel: str = Field(description="Kernel that the tables shipped with the service choose.", examples=["cpu_blas"])
    config: dict[str, int] = Field(description="Its full tile config.")
    why: str = Field(description="Why this kernel, in one sentence.")
    accuracy: AccuracyName = Field(description="Error class that it computes in.")
    device: str = Field(description="Model of device that it would run on.", examples=["NVIDIA H200"])
    error_bound: ErrorBound | None = Field(
        description="What is proven of every element's error on operands whose sums neither overflow nor underflow; "
        "null without `tolerance` and `reproducible`."
    )
    otherwise: str | None = Field(
        description="Kernel that is taken instead where the operands' magnitudes, which the worker measures, do not "
        "let that bound hold; null where it always holds, or where no kernel there takes such operands."
    )


def dry_run(context: Context, operands: OperandResolver, asked: MatmulInput) -> ProductDryRun:
    """The dry run of a product. Raises InvalidRequest and its subclasses, NoWorkers, NoWorkerForKernel."""
    plan, workers = _planned(operands, asked), context.workers.now()
    queue = choose_queue(asked.options, plan, workers)
    able = [each for each in workers if each.queue == queue and each.runs_one_of(plan.kernels, plan.problem.dtype)]
    if not able:
        raise NoWorkerForKernel("Only workers of another version may serve this; what they take is not known here.")
    traits = able[0].device.traits
    there = [
        kernel
        for kernel in plan.kernels
        if kernel.name in able[0].kernels and kernel.unsupported_because(traits, plan.problem.dtype) is None
    ]
    try:
        choice = _choice(asked, plan, there, traits)
    except (NoKernelError, ConfigError) as error:
        raise InvalidConfig(str(error)) from error
    bound = plan.demand.bound(choice.kernel, plan.problem) if plan.demand else None
    is_halved = computes_triangle(choice.kernel, choice.config, plan.problem)
    return ProductDryRun(
        kernel=choice.kernel.name,
        config=dict(choice.config),
        why=f"{choice.why} {ONE_TRIANGLE}" if is_halved else choice.why,
        accuracy=choice.kernel.accuracy[plan.problem.dtype],
        device=able[0].device.name,
        error_bound=None if bound is None else ErrorBound(kind=plan.demand.kind, value=bound),
        otherwise=_otherwise(plan, choice.kernel, there, traits),
    )


def _planned(operands: OperandResolver, asked: MatmulInput) -> ProductPlan:
    """The plan, which also recognises the product of a matrix and its own transpose, as the job would."""
    plan, options = operands.plan(asked), asked.options
    a, b = (operands.refer(getattr(asked, name), name, plan.operand_dtype, in_record=False) for name in NEEDED)
    is_all = not options.activation and not options.output_dtype and options.alpha == 1.0 and len(asked.operands) == 2
    if not is_all or not are_transposes(a, b, {name: getattr(options, name) for name in OPERAND_FLAGS}):
        return plan
    return replace(plan, problem=replace(plan.problem, symmetric=True))


def _choice(asked: MatmulInput, plan: ProductPlan, there: Sequence[Kernel], traits: DeviceTraits) -> Choice:
    if asked.options.kernel != AUTO or not plan.demand:
        return choose(asked.options.kernel, asked.options.config, plan.problem, plan.accuracy, traits)
    return choose_from(TABLES, plan.problem, plan.accuracy, traits, among=there)


def _otherwise(plan: ProductPlan, taken: Kernel, there: Sequence[Kernel], traits: DeviceTraits) -> str | None:
    any_operand = any_magnitudes(plan.problem.dtype)
    sure = [kernel for kernel in there if plan.demand.is_met(kernel, plan.problem, any_operand, any_operand)]
    if taken in sure or not sure:
        return None
    return choose_from(TABLES, plan.problem, plan.accuracy, traits, among=sure).kernel.name
