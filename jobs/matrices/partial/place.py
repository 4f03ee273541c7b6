"""Slots in which a matrix is computed, before a writer stores it."""

from __future__ import annotations

import os
from contextlib import suppress

from jobs.disk import translated_disk
from jobs.formats.elements import Array
from jobs.matrices.interface import Partial, Place
from jobs.matrices.slot_memory import SlotMemory
from jobs.matrices.slots import Slot

MARK_BYTES = 8


class SlotPlace(Place):
    def __init__(self, elements: Array, memory: SlotMemory, slot: Slot) -> None:
        super().__init__(elements, memory)
        self.slot: Slot | None = slot  # until a writer takes it

    def given(self) -> Slot:
        """Hands the slot over to a writer, which must publish it or give it back."""
        assert self.slot is not None, "a place is for one matrix"
        slot, self.slot = self.slot, None
        return slot

    def given_back(self, slot: Slot) -> None:
        """What was written by its matrix is still there."""
        self.slot = slot


class SlotPartial(Partial):
    def __init__(self, place: SlotPlace, *, is_found: bool) -> None:
        self.place: SlotPlace = place
        self.is_found = is_found

    @property
    def mark(self) -> int:
        """The last bytes of the slot, where a stored matrix has its trailer's checksum."""
        with translated_disk():
            return int.from_bytes(os.pread(self._slot.fd, MARK_BYTES, self._slot.length - MARK_BYTES), "little")

    @mark.setter
    def mark(self, mark: int) -> None:
        with translated_disk():
            os.pwrite(self._slot.fd, mark.to_bytes(MARK_BYTES, "little"), self._slot.length - MARK_BYTES)

    @property
    def _slot(self) -> Slot:
        assert self.place.slot is not None, "it is not stored yet"
        return self.place.slot

    def touch(self) -> None:
        """Updates the file's time: the sweep removes files that were not written to for long."""
        if (slot := self.place.slot) is not None:
            with suppress(OSError):
                os.utime(slot.fd)

    def ended(self) -> None:
        if (slot := self.place.slot) is None:
            return
        if self.is_kept:
            self.touch()
            slot.file.close()
        else:
            with suppress(OSError):  # then the sweep finds it
                slot.drop()
