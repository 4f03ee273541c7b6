"""Operands of a worker before they are copied to the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from jobs.errors import OperandDamaged
from jobs.formats.elements import Array
from jobs.matrices.digest import digest_of
from jobs.matrices.interface import StoredMatrix
from jobs.matrices.slot_memory import SlotMemory
from kernels.model.numerics import DTypeName
from worker.check.elements import widen


class HostOperand:
    """An operand in stored form. `id` identifies its contents if a device may cache it for the next job. `digest` is
    that of the bytes that were sent (`jobs/matrices/digest.py`); None if none were sent.
    """

    def __init__(self, elements: Array, id: str | None = None, digest: int | None = None) -> None:
        self.id = id
        self.shape: tuple[int, ...] = elements.shape
        self._elements = elements
        self._digest = digest

    @property
    def elements(self) -> Array:
        return self._elements

    @property
    def digest(self) -> int | None:
        return self._digest

    @property
    def memory(self) -> SlotMemory | None:
        """The slot that the elements lie in, where the store keeps it for others."""
        return None

    @property
    def expected_digest(self) -> int:
        """The digest that a copy of the operand must have."""
        return digest_of(self.elements) if self.digest is None else self.digest

    def known_digest(self, digest: int) -> None:
        """Sets the digest known from an earlier job, so that nothing has to be opened to read it."""

    @property
    def parts(self) -> tuple[HostOperand, ...]:
        """The matrices that were sent for this operand."""
        return (self,)

    @property
    def items(self) -> tuple[HostOperand, ...]:
        """The operands of the jobs that this one serves."""
        return (self,)


class StoredOperand(HostOperand):
    """A stored operand that is opened when its elements or digest are first needed; with a cached copy, a device needs
    neither.
    """

    def __init__(self, shape: tuple[int, ...], opened: Callable[[], StoredMatrix], id: str | None = None) -> None:
        self.id = id
        self.shape = shape
        self._open = opened
        self._digest = None

    @cached_property
    def _stored(self) -> StoredMatrix:
        return self._open()

    @property
    def elements(self) -> Array:
        return self._stored.elements

    @property
    def digest(self) -> int:
        return self._stored.digest if self._digest is None else self._digest

    @property
    def memory(self) -> SlotMemory | None:
        return self._stored.memory

    def known_digest(self, digest: int) -> None:
        self._digest = digest


class StackedOperand(HostOperand):
    """Operands of several jobs as one with a batch axis. Smaller ones are padded with zeros below and to the right.
    Stacked in this process's memory when that is first needed; a device may stack copies of the `items` instead."""

    def __init__(self, items: Sequence[HostOperand]) -> None:
        self.id = None
        self._items = tuple(items)
        self.shape = (len(items), *(max(sizes) for sizes in zip(*(each.shape for each in items), strict=True)))
        self._digest = None

    @cached_property
    def _stacked(self) -> Array:
        matrices = [each.elements for each in self._items]
        if len({each.shape for each in matrices}) == 1:
            return np.stack(matrices)
        elements = np.zeros(self.shape, matrices[0].dtype)
        for place, each in zip(elements, matrices, strict=True):
            place[: each.shape[0], : each.shape[1]] = each
        return elements

    @property
    def elements(self) -> Array:
        return self._stacked

    @property
    def items(self) -> tuple[HostOperand, ...]:
        return self._items

    @property
    def parts(self) -> tuple[HostOperand, ...]:
        """Itself, and what was stacked with the digests of what was sent."""
        stacked = (
            HostOperand(np.ascontiguousarray(elements[: own.shape[0], : own.shape[1]]), digest=own.digest)
            for elements, own in zip(self.elements, self._items, strict=True)
        )
        return self, *stacked


class WidenedOperand(HostOperand):
    """A 16-bit operand of a float32 product, as float32: exactly the same numbers. It has no id, for a device knows the
    shorter matrix by that."""

    def __init__(self, stored: HostOperand, dtype: DTypeName, *, is_free: bool = False) -> None:
        """`is_free`: a kernel for the shorter type may multiply what is stored, where it gives float32."""
        self.id = None
        self.shape = stored.shape
        self.stored, self.dtype, self.is_free = stored, dtype, is_free

    @cached_property
    def _widened(self) -> Array:
        return widen(self.stored.elements, self.dtype)

    @property
    def elements(self) -> Array:
        return self._widened

    @property
    def digest(self) -> int:
        """The digest of the stored elements, widened once more: what was multiplied must have it. To be read after the
        check. Raises OperandDamaged if the stored elements are not those that were sent."""
        sent = self.stored.digest
        if sent is not None and digest_of(self.stored.elements) != sent:
            raise OperandDamaged
        return digest_of(widen(self.stored.elements, self.dtype))

    @property
    def expected_digest(self) -> int:
        return self.digest
