"""Finds the likely cause of a product that failed its check. The product is recomputed in memory that is cleared first.
If it is then right, or wrong in a different way, the device is to blame, because every kernel sums in a fixed order. If
it is wrong in the same way, bit for bit, the kernel may be to blame. A request could provoke that on purpose, so it
counts against a device only once per kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jobs.errors import JobFailed, MatmulError, OperandOutOfRange, VerificationFailed
from jobs.models import Verification
from kernels.model.numerics import ACCURACY_RANGE, Problem
from kernels.selection.candidates import Choice
from worker.check.elementwise import Operands


class Again(NamedTuple):
    """The recomputed product."""

    is_right: bool
    digest: int


class Mismatch(VerificationFailed):
    """The product did not pass its check, so it is not returned."""

    kernel: str | None = None  # the kernel that may be the cause

    def explain(self, choice: Choice, again: Callable[[], Again]) -> None:
        """`again` makes the product once more, by the same kernel."""
        try:
            second = again()
            is_repeated = not second.is_right and again() == second
        except MatmulError:
            is_repeated = True  # not known, so nothing is held against the device
        self.kernel = choice.kernel.name if is_repeated else None


def failed_check(choice: Choice, problem: Problem, elements: Operands, verification: Verification) -> JobFailed:
    """The reason: operands that the kernel's class does not reach, or else a wrong product."""
    accuracy = choice.kernel.accuracy[problem.dtype]
    if accuracy in ACCURACY_RANGE:
        limit = ACCURACY_RANGE[accuracy][1]
        largest = max(elements.a.largest(), elements.b.largest())
        if largest > limit:
            return OperandOutOfRange(
                f"{choice.kernel.name} computes in {accuracy}, which ends at {limit:g}, and an operand has elements of "
                f"{largest:.6g}; scale the operands, or take a kernel of another class."
            )
    return Mismatch(
        f"The product did not pass its check and is not returned: its residual is {verification.residual:.3g} "
        f"where rounding explains {verification.threshold:.3g}."
    )


def wrong_epilogue(count: int) -> VerificationFailed:
    """A·B passed its check, but this many elements do not follow from it."""
    return VerificationFailed(
        f"The product did not pass its check and is not returned: {count} of its elements are not what alpha·A·B + "
        "beta·C gives, with the bias and the activation that were asked for."
    )
