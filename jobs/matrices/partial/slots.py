"""Slots of the `file` store: new ones, places, and matrices that several attempts of a job build up in them."""

from __future__ import annotations

import errno
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from jobs.disk import translated_disk
from jobs.formats.elements import STORAGE_DTYPES, matrix_bytes
from jobs.matrices.index import MatrixIndex
from jobs.matrices.indexed_store import check_id
from jobs.matrices.interface import MatrixStore, Partial, Place
from jobs.matrices.partial.place import SlotPartial, SlotPlace
from jobs.matrices.slot_format import MIN_SLOT_BYTES, SLOT_PART, slot_length
from jobs.matrices.slot_memory import SlotMemories, SlotMemory
from jobs.matrices.slots import Slot, Slots
from jobs.models import new_id
from jobs.random_hex import random_hex
from kernels.model.numerics import DTypeName

F = TypeVar("F")

SPARE_FROM_BYTES = 16 << 20  # of a product; the memory of a smaller one is made in less than 5 ms


class PartialSlots(MatrixStore):
    """What a store with slots does with them."""

    index: MatrixIndex
    slots: Slots
    memories: SlotMemories
    max_matrix_bytes: int
    _placed_bytes = 0  # of the last large product, until there is a spare slot for the next

    @abstractmethod
    def path(self, data: str) -> str: ...

    @abstractmethod
    def in_directory(self, make: Callable[[], F]) -> F: ...

    def slot(self, size: int, *, is_whole: bool = True) -> Slot | None:
        """A slot for `size` bytes; None for a matrix that gets a plain file. Without `is_whole`, and on a disk, a new
        one gets memory as it is written to. Raises StoreFull."""
        if size < self.slots.min_bytes or not self.slots.max_free_bytes:
            return None
        path = self.path(new_id("w") + SLOT_PART)
        with translated_disk():
            if (slot := self.slots.take(size, path)) is not None:
                return slot
            self.respect_bound(slot_length(size) if is_whole else 0)
            is_whole = is_whole and not self.slots.on_disk
            try:
                return self.slots.make(size, path, is_whole=is_whole)
            except OSError as error:
                if error.errno != errno.ENOSPC or not self.make_room():
                    raise
            return self.slots.make(size, path, is_whole=is_whole)

    def room_taken(self) -> None:
        with translated_disk():
            self.respect_bound(0)

    def _free_slot(self, size: int) -> Slot | None:
        """One that there is already: on a disk, mapping a new one takes longer than writing to a file."""
        with translated_disk():
            is_large = size >= self.slots.min_bytes
            return self.slots.take(size, self.path(new_id("w") + SLOT_PART)) if is_large else None

    @contextmanager
    def place(self, dtype: DTypeName, shape: tuple[int, ...]) -> Iterator[Place | None]:
        size = matrix_bytes(dtype, shape)
        find = self._free_slot if self.slots.on_disk else self.slot
        self._placed_bytes = size if size >= SPARE_FROM_BYTES else self._placed_bytes
        slot = self.in_directory(lambda: find(size)) if size <= self.max_matrix_bytes else None
        if slot is None:
            yield None
            return
        place = self.place_on(slot, dtype, shape)
        try:
            yield place
        finally:
            if place.slot is not None:
                with suppress(OSError):  # then the sweep finds it
                    place.slot.drop()

    def make_spare(self) -> SlotMemory | None:
        """Makes a free slot for another product as large as the last one, so that it need not wait for new memory.
        None if there is a free one already, or no room for it. Raises StoreUnavailable, OSError."""
        size, self._placed_bytes = self._placed_bytes, 0
        length = slot_length(size)
        if not size or self.slots.has_free(length) or not self._has_room_to_spare(length):
            return None
        with translated_disk():
            slot = self.slots.make(size, self.path(new_id("w") + SLOT_PART))
            try:
                return self.memories.of(slot.file.fd)
            finally:
                slot.drop()

    def _has_room_to_spare(self, length: int) -> bool:
        """Whether this slot, and another one for the product after the next, would push nothing out."""
        free_bytes = self.slots.free_bytes
        within_free = free_bytes + length <= self.slots.max_free_bytes
        return within_free and self.index.used_bytes(None) + free_bytes + 2 * length <= self.index.bounds.all_bytes

    def place_on(self, slot: Slot, dtype: DTypeName, shape: tuple[int, ...]) -> SlotPlace:
        with translated_disk():
            memory = self.memories.of(slot.file.fd)
        raw = memory.array(slot.file, matrix_bytes(dtype, shape), writable=True)
        return SlotPlace(raw.view(STORAGE_DTYPES[dtype]).reshape(shape), memory, slot)

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
