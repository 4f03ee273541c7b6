"""Matrices that several attempts of a job build up in slots of the `file` store."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from jobs.disk import translated_disk
from jobs.formats.elements import matrix_bytes
from jobs.matrices.index import MatrixIndex
from jobs.matrices.indexed_store import check_id
from jobs.matrices.interface import MatrixStore, Partial
from jobs.matrices.partial.place import SlotPartial, SlotPlace
from jobs.matrices.slot_format import MIN_SLOT_BYTES, SLOT_PART, slot_length
from jobs.matrices.slots import Slot, Slots
from jobs.random_hex import random_hex
from kernels.model.numerics import DTypeName

F = TypeVar("F")


class PartialSlots(MatrixStore):
    """`partial` of a store that has slots."""

    index: MatrixIndex
    slots: Slots
    max_matrix_bytes: int

    @abstractmethod
    def path(self, data: str) -> str: ...

    @abstractmethod
    def in_directory(self, make: Callable[[], F]) -> F: ...

    @abstractmethod
    def place_on(self, slot: Slot, dtype: DTypeName, shape: tuple[int, ...]) -> SlotPlace: ...

    def respect_bound(self, need_bytes: int) -> None:
        """Removes free slots that would exceed the bound on all bytes if `need_bytes` more were stored."""
        if free_bytes := self.slots.free_bytes:
            room = self.index.bounds.all_bytes - self.index.used_bytes(None) - need_bytes
            self.slots.trim(max(0, min(room, free_bytes)))

    def make_room(self) -> bool:
        """Returns the memory of all free slots to the system; True if there were any."""
        had_any = self.slots.free_bytes > 0
        self.slots.trim(0)
        return had_any

    @contextmanager
    def partial(self, name: str, dtype: DTypeName, shape: tuple[int, ...]) -> Iterator[Partial | None]:
        """Raises StoreFull, StoreUnavailable."""
        size = matrix_bytes(dtype, shape)
        if not MIN_SLOT_BYTES <= size <= self.max_matrix_bytes:
            yield None
            return
        path = self.path(check_id(name))
        with translated_disk():
            found = self.slots.find(size, path)
        slot = found or self.in_directory(lambda: self._made(size, path))
        partial = SlotPartial(self.place_on(slot, dtype, shape), is_found=found is not None)
        try:
            yield partial
        finally:
            partial.ended()

    def _made(self, size: int, path: str) -> Slot:
        """A new slot; its name is a random one if another process has the given name. Also works in a store that keeps
        no free slots.
        """
        path = self.path(f"w_{random_hex(16)}{SLOT_PART}") if os.path.exists(path) else path
        with translated_disk():
            slot = self.slots.take(size, path)
            self.respect_bound(slot_length(size) if slot is None else 0)
            return slot or self.slots.make(size, path)
