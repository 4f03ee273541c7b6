"""What a request demands of its product beside an accuracy class, and who may serve it."""

from __future__ import annotations

from jobs.models import MatmulRequest
from kernels.catalog import BY_NAME, CATALOG
from kernels.model.kernel import Kernel
from kernels.selection.demands import Demand

AUTO = "auto"


def demand_of(request: MatmulRequest) -> Demand:
    """Nothing, for most."""
    return Demand(request.tolerance, request.tolerance_kind, request.reproducible, request.has_epilogue)


def may_serve(request: MatmulRequest) -> tuple[Kernel, ...]:
    """Kernels that may compute it, on operands that are benign to them."""
    kernels = CATALOG if request.kernel == AUTO else (BY_NAME[request.kernel],)
    demand, problem = demand_of(request), request.problem
    return tuple(
        kernel
        for kernel in kernels
        if problem.dtype in kernel.accuracy
        and (demand.tolerance is not None or kernel.takes(problem.dtype, request.accuracy))
        and demand.is_met(kernel, problem)
    )
