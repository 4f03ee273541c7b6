"""What the check of a product with a fused epilogue needs of that epilogue: `worker.cuda.epilogue.fused_check` has it,
`sketch.py` and `recheck.py` call it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from worker.check.elementwise import Added
from worker.cuda.check.sketch_argument import SketchParameters
from worker.cuda.check.sketch_plan import SketchPlan
from worker.cuda.memory import DeviceMatrix


class CheckedEpilogue(Protocol):
    """What comes before and after the sketch of a product with an epilogue of its kernel's, on the current stream."""

    @property
    def alpha(self) -> float: ...

    @property
    def beta(self) -> float: ...

    @property
    def c(self) -> DeviceMatrix | None: ...

    @property
    def bias(self) -> DeviceMatrix | None: ...

    @property
    def bias_steps(self) -> tuple[int, int]:
        """From row to row, and from column to column, of the product."""

    @property
    def added(self) -> Added:
        """For single elements, which the host computes again."""

    def weigh(self, peaks: int) -> None:
        """Adds to the sums of squares of B's columns, at that address, what is added to the product's."""

    def judge(self, address_of: Callable[[str], int], plan: SketchPlan, parameters: SketchParameters) -> None:
        """Compares projections. `address_of` gives those of the sketch's arrays."""
