"""The interface of a device that stacks the operands of several jobs, and brings each product to its own place."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from jobs.matrices.interface import MatrixWriter, Place
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from worker.device.cancellable_lock import never_cancelled
from worker.device.operands import StackedOperand
from worker.device.runner import Product, Runner


class StackedProduct(Product):
    """The products of several jobs, computed as one with a batch axis."""

    @property
    @abstractmethod
    def item_digests(self) -> Sequence[int]:
        """The digest of each job's product, taken before the check begins."""

    @abstractmethod
    def store_item(self, index: int, writer: MatrixWriter) -> None:
        """As `store`, of one job's product. `writer` was made with its place."""


class StackingRunner(Runner):
    """A device that copies operands from where they are stored, without a copy of this process in between."""

    @abstractmethod
    def stacks(self, problem: Problem) -> bool:
        """Whether that takes less time than to stack the operands here."""

    @abstractmethod
    def compute_stacked(
        self,
        problem: Problem,
        choice: Choice,
        operands: tuple[StackedOperand, StackedOperand],
        places: Sequence[Place | None],
        *,
        check_cancelled: Callable[[], None] = never_cancelled,
        zero_output: bool = False,
    ) -> AbstractContextManager[StackedProduct]:
        """As `compute`, for a batch of A and B, each of equally shaped items. `places`: of each product; None where the
        store has none. Then, and where the device cannot write to them, `store_item` copies through this process."""
