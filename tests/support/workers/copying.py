"""Runners for one child in the test's process: with a fault at a chosen place, and with copies as a GPU keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobs.formats.elements import Array
from jobs.matrices.interface import MatrixWriter, Place
from jobs.settings import Settings
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from worker.cpu.blas import multiply
from worker.cpu.runner import CpuProduct, CpuRunner
from worker.cuda.operand_cache import Copies, OfferedProducts, OperandCache
from worker.device.cancellable_lock import LockRequest, never_cancelled
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue, Product


def flip(array: Array, *, position: int = 0) -> None:
    """Flips the lowest bit of one byte, where the array lies: of a float, a change far below any tolerance."""
    array.reshape(-1).view(np.uint8)[position] ^= 1


class FaultyRunner(CpuRunner):
    """A fault happens once the product is made, before its check; or once it was checked, on its way out."""

    def __init__(
        self,
        settings: Settings,
        *,
        after_product: Callable[[Array], None] = lambda c: None,
        after_check: Callable[[Array], None] = lambda c: None,
    ) -> None:
        super().__init__(settings)
        self._after_product, self._after_check = after_product, after_check

    @contextmanager
    def compute(self, problem: Problem, choice: Choice, *operands: Any, **more: Any) -> Iterator[Product]:
        with super().compute(problem, choice, *operands, **more) as product:
            assert isinstance(product, CpuProduct)
            c, store, chunks = product._c, product.store, product.chunks
            self._after_product(c)

            def stored(writer: MatrixWriter) -> None:
                if product._place is not None:  # else it is stored chunk by chunk
                    self._after_check(c)
                store(writer)

            def read() -> Iterator[memoryview]:
                self._after_check(c)
                return chunks()

            product.store, product.chunks = stored, read  # type: ignore[method-assign]
            yield product


@dataclass(frozen=True, slots=True)
class _Layout:
    bytes: int


@dataclass(frozen=True, slots=True)
class HostCopy:
    """Stands in for memory of a device."""

    elements: Array
    layout: _Layout


class CopyingRunner(CpuRunner):
    """Multiplies copies of the operands, and keeps them, with the cache that the GPU worker has."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.cache: OperandCache[HostCopy] = OperandCache(1 << 20)
        self.offered = OfferedProducts(self.cache)
        self.uploads = 0
        self.upload: Callable[[Array], Array] = np.array

    @contextmanager
    def compute(
        self,
        problem: Problem,
        choice: Choice,
        a: HostOperand,
        b: HostOperand,
        place: Place | None = None,
        *,
        epilogue: Epilogue | None = None,
        check_cancelled: Callable[[], None] = never_cancelled,
        zero_output: bool = False,
    ) -> Iterator[Product]:
        self.offered.next_product((a, b))
        copies = [self._copy(operand) for operand in (a, b)]
        device_lock = self._device_lock.request(check_cancelled)
        c = multiply(problem, copies[0].elements, copies[1].elements)
        sent = [
            HostOperand(copy.elements, operand.id, operand.expected_digest)
            for operand, copy in zip((a, b), copies, strict=True)
        ]
        made = Copies(self.cache, sent, copies)
        yield _CopiedProduct(problem, sent[0], sent[1], c, made, self.offered, device_lock)

    def product_ended(self, matrix_id: str, *, awaited: bool) -> None:
        self.offered.ended(matrix_id, awaited=awaited)

    def _copy(self, operand: HostOperand) -> HostCopy:
        kept = None if operand.id is None else self.cache.get(operand.id)
        if kept is not None:
            operand.known_digest(kept.digest)
            return kept.copy
        self.uploads += 1
        return HostCopy(self.upload(operand.elements), _Layout(operand.elements.nbytes))


class _CopiedProduct(CpuProduct):
    def __init__(
        self,
        problem: Problem,
        a: HostOperand,
        b: HostOperand,
        c: Array,
        copies: Copies[HostCopy],
        offered: OfferedProducts[HostCopy],
        device_lock: LockRequest,
    ) -> None:
        super().__init__(problem, (a, b), c, c, kernel_ms=1.0, device_lock=device_lock)
        self._copies, self._offered = copies, offered

    def keep_operands(self) -> None:
        self._copies.keep()

    def drop_operands(self) -> None:
        self._copies.drop()

    def offer(self, matrix_id: str) -> None:
        self._offered.offer(matrix_id, HostCopy(self._c, _Layout(self._c.nbytes)), self.digest)
