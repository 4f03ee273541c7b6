"""Demands on a product besides its class (an error within a tolerance, or the same bits everywhere), and the kernels
that are proven to meet them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from kernels.catalog import BY_NAME, CATALOG
from kernels.model.bounds import BENIGN, Magnitudes, compounded, proven_bound
from kernels.model.kernel import Kernel
from kernels.model.numerics import DTYPES, AccuracyName, Problem

AUTO = "auto"
ToleranceKind = Literal["componentwise", "normwise"]
EPILOGUE_ROUNDOFF = 2.0**-51  # of two multiplications and an addition in float64, with room
SHORT_ROUNDOFF = 2.0**-24  # 16-bit types are rounded by way of float32


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand on every element. With an epilogue it applies to alpha·A·B + beta·C, and errors are relative to
    |alpha|·|A|·|B| + |beta|·|C|, or to the same with norms.
    """

    tolerance: float | None = None
    kind: ToleranceKind = "componentwise"
    reproducible: bool = False
    has_epilogue: bool = False

    def __bool__(self) -> bool:
        return self.tolerance is not None or self.reproducible

    def bound(self, kernel: Kernel, problem: Problem, a: Magnitudes = BENIGN, b: Magnitudes = BENIGN) -> float | None:
        """The bound of the requested kind; None if nothing is proven."""
        proven = proven_bound(kernel, problem, a, b)
        bound = proven.componentwise if self.kind == "componentwise" else proven.normwise
        if bound is None or not self.has_epilogue or DTYPES[problem.dtype].is_integer:
            return bound
        output = DTYPES[problem.product_dtype]
        short = SHORT_ROUNDOFF if output.itemsize == 2 else 0.0
        return compounded(bound, EPILOGUE_ROUNDOFF, output.unit_roundoff, short)

    def is_met(self, kernel: Kernel, problem: Problem, a: Magnitudes = BENIGN, b: Magnitudes = BENIGN) -> bool:
        """Whether the kernel meets the demand for operands of these magnitudes; by default, the most benign ones."""
        if self.reproducible and not kernel.is_reproducible(problem.dtype):
            return False
        if self.tolerance is None:
            return True
        bound = self.bound(kernel, problem, a, b)
        return bound is not None and bound <= self.tolerance

    def best(
        self, kernels: Iterable[Kernel], problem: Problem, a: Magnitudes = BENIGN, b: Magnitudes = BENIGN
    ) -> tuple[float, Kernel] | None:
        """The lowest bound of these kernels, and its kernel; only of reproducible kernels, if that is demanded."""
        bounds = [
            (bound, kernel)
            for kernel in kernels
            if problem.dtype in kernel.accuracy
            and (not self.reproducible or kernel.is_reproducible(problem.dtype))
            and (bound := self.bound(kernel, problem, a, b)) is not None
        ]
        return min(bounds, key=lambda each: each[0], default=None)


NOTHING = Demand()


class Demanding(Protocol):
    """A request for a product, as far as it matters here."""

    @property
    def kernel(self) -> str: ...
    @property
    def accuracy(self) -> AccuracyName: ...
    @property
    def problem(self) -> Problem: ...
    @property
    def tolerance(self) -> float | None: ...
    @property
    def tolerance_kind(self) -> ToleranceKind: ...
    @property
    def reproducible(self) -> bool: ...
    @property
    def has_epilogue(self) -> bool: ...


def demand_of(request: Demanding) -> Demand:
    """The request's demand; for most requests there is none."""
    return Demand(request.tolerance, request.tolerance_kind, request.reproducible, request.has_epilogue)


def may_serve(request: Demanding) -> tuple[Kernel, ...]:
    """The kernels that may compute it, for benign operands."""
    kernels = CATALOG if request.kernel == AUTO else (BY_NAME[request.kernel],)
    demand, problem = demand_of(request), request.problem
    return tuple(
        kernel
        for kernel in kernels
        if problem.dtype in kernel.accuracy
        and kernel.takes_scales_of(problem)
        and (demand.tolerance is not None or kernel.takes(problem.dtype, request.accuracy))
        and demand.is_met(kernel, problem)
    )


def unmet(
    demand: Demand,
    kernels: Iterable[Kernel],
    problem: Problem,
    where: str,
    a: Magnitudes = BENIGN,
    b: Magnitudes = BENIGN,
) -> str:
    """A sentence for a caller whose demand none of these kernels meets. `where`: as in "here", "of the catalogue"."""
    if demand.tolerance is None:
        return (
            f"No kernel {where} gives products of {problem.dtype} operands the same bits on every device; the CPU's "
            "cpu_exact does, for real floats, and every kernel for integers."
        )
    best = demand.best(kernels, problem, a, b)
    found = f"the best proven bound is {best[0]:.3g}, of {best[1].name}" if best else "nothing is proven of any"
    return (
        f"No kernel {where} is proven to multiply these {problem.dtype} operands, with k = {problem.k}, within a "
        f"{demand.kind} tolerance of {demand.tolerance:.3g}; {found}."
    )
