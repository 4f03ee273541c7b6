"""`tolerance` and `reproducible` of a request: whether any kernel is proven to meet them."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.errors import InvalidRequest
from kernels.model.kernel import Kernel
from kernels.model.numerics import Problem
from kernels.selection.demands import Demand, unmet
from service.bodies.options import MatmulOptions

AUTO = "auto"


def demand_of(options: MatmulOptions, *, has_c: bool) -> Demand:
    """The demand in a request's options. Raises InvalidRequest if options contradict each other."""
    if options.tolerance is None and options.tolerance_kind is not None:
        raise InvalidRequest(
            "tolerance_kind is given without tolerance; send tolerance, or leave tolerance_kind out.",
            field="tolerance_kind",
        )
    if options.tolerance is not None and options.accuracy is not None:
        raise InvalidRequest(
            "accuracy and tolerance both say how exact the product must be; send one of them.", field="tolerance"
        )
    has_epilogue = options.alpha != 1.0 or (has_c and options.beta != 0.0)
    return Demand(options.tolerance, options.tolerance_kind or "componentwise", options.reproducible, has_epilogue)


def demanded(kernels: Sequence[Kernel], options: MatmulOptions, demand: Demand, problem: Problem) -> tuple[Kernel, ...]:
    """The kernels that meet the demand for benign operands; for other operands the worker decides. Raises
    InvalidRequest.
    """
    fit = tuple(kernel for kernel in kernels if demand.is_met(kernel, problem))
    if not fit:
        where = "of the catalogue" if options.kernel == AUTO else f"called {options.kernel}"
        raise InvalidRequest(unmet(demand, kernels, problem, where), field=field_of(demand))
    return fit


def field_of(demand: Demand) -> str:
    """The field to blame if the demand cannot be met."""
    return "reproducible" if demand.tolerance is None else "tolerance"
