"""A CPU that stacks the operands of several jobs as a GPU does, and brings each product to its own place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from jobs.formats.elements import Array
from jobs.matrices.digest import as_bytes, digest_of, part_count, part_digests
from jobs.matrices.interface import MatrixWriter, Place
from jobs.settings import Settings
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from worker.cpu.runner import CpuProduct, CpuRunner
from worker.device.cancellable_lock import never_cancelled
from worker.device.operands import StackedOperand
from worker.device.stacked import StackedProduct, StackingRunner


class StackingCpu(CpuRunner, StackingRunner):
    """`launches`: how many products each launch of several had. The faults are as of `FaultyRunner`."""

    jobs_under_way = 3
    max_launch_bytes = 256 << 20

    def __init__(
        self,
        settings: Settings,
        *,
        after_product: Callable[[Array], object] = lambda c: None,
        after_check: Callable[[Array], object] = lambda c: None,
    ) -> None:
        super().__init__(settings)
        self._after_product, self._after_check = after_product, after_check
        self.launches: list[int] = []

    def max_alike(self, one: Problem) -> int:
        return self.max_launch_bytes // max(1, one.operand_bytes + one.product_bytes)

    def stacks(self, problem: Problem) -> bool:
        return True

    @contextmanager
    def compute_stacked(
        self,
        problem: Problem,
        choice: Choice,
        operands: tuple[StackedOperand, StackedOperand],
        places: Sequence[Place | None],
        *,
        check_cancelled: Callable[[], None] = never_cancelled,
        zero_output: bool = False,
    ) -> Iterator[StackedProduct]:
        self.launches.append(problem.batch)
        with self.compute(problem, choice, *operands, check_cancelled=check_cancelled) as product:
            assert isinstance(product, CpuProduct)
            stacked = _Stacked(problem, operands, product._c, places, self._after_check, product)
            self._after_product(product._c)
            yield stacked


class _Stacked(CpuProduct, StackedProduct):
    def __init__(
        self,
        problem: Problem,
        operands: Sequence[StackedOperand],
        c: Array,
        places: Sequence[Place | None],
        after_check: Callable[[Array], object],
        product: CpuProduct,
    ) -> None:
        super().__init__(problem, operands, c, c, kernel_ms=1.0, device_lock=product.device_lock)
        self._places, self._after_check = places, after_check
        self._digests = [digest_of(each) for each in c]

    @property
    def item_digests(self) -> Sequence[int]:
        return self._digests

    def store_item(self, index: int, writer: MatrixWriter) -> None:
        if not index:
            self._after_check(self._c)
        place, data = self._places[index], np.ascontiguousarray(self._c[index])
        if place is None:
            writer.write(data.data.cast("B"))
        else:
            place.elements[...] = data
            lies_there = as_bytes(place.elements)
            writer.fill(part_digests(lies_there, part_count(lies_there.nbytes)))
