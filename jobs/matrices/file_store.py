"""The `file` store: one file per matrix, in a directory that the API and the workers of one host share.

A file holds the elements, and after them the digests of their parts (`jobs/matrices/digest.py`), 8 bytes for each 16
KiB. It is written as `<random>.part`, and renamed when it is whole: to the matrix's name, or to `<sha256>.<random>` for
a content address. The random part allows the same contents to be deleted and uploaded again at the same time: the index
has the name of the current file, and a remover knows only the name of the file it removes. Large matrices on a tmpfs
are kept in slots, files whose memory is reused (`jobs/matrices/slots.py`); these are written as `<random>.slot`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np

from jobs.disk import UNUSABLE, FileAges, file_system, path_of, sync, tmpfs_bytes, translated_disk, write_all
from jobs.errors import InvalidSettings, StoreUnavailable
from jobs.formats.elements import STORAGE_DTYPES, Array, matrix_bytes
from jobs.matrices.file_source import KEPT_BYTES, FileNames, FileSource, KeptMaps, open_matrix
from jobs.matrices.index import Claim, Elements, MatrixIndex
from jobs.matrices.indexed_store import IndexedMatrixStore, IndexedWriter
from jobs.matrices.interface import ElementSource, MatrixWriter, Place, StoredMatrix, check_parts
from jobs.matrices.new_slots import NewSlots
from jobs.matrices.partial.place import SlotPlace
from jobs.matrices.partial.slots import PartialSlots
from jobs.matrices.plain_file import PART, PlainFile, make_private
from jobs.matrices.slot_format import SLOT_PART, label
from jobs.matrices.slot_memory import SlotMemories, SlotMemory
from jobs.matrices.slots import DISK_FREE_BYTES, Slot, Slots
from jobs.models import new_id
from kernels.model.numerics import DTypeName

F = TypeVar("F")

# File systems of disks on which writing to a mapped file that has all its memory never finds the disk full: those
# that copy on write may.
SAFE_TO_MAP = frozenset({"ext4"})
MAX_LENT_BYTES = 16 << 20  # of a slot that is sent as it lies
_OURS = re.compile(
    r"w_[0-9a-f]{32}\.(part|slot)|[a-z]{1,8}_[0-9a-f]{32}(_[0-9]{1,9})?|[0-9a-f]{64}\.w_[0-9a-f]{32}"
)  # names we give
LEFTOVER_AGE_S = 600.0  # a file not written to for this long, and not in the index, is a leftover
SLOT_LEFTOVER_AGE_S = 10.0  # the writer of a slot has it locked, except in the moment of its creation
LOOK_ROUND_S = 60.0  # how often the directory is read through for such files


class FileMatrixStore(PartialSlots, IndexedMatrixStore):
    """`free_bytes` is the most memory of free slots; None chooses it by the directory. With `keeps_maps`, slots and
    small matrices stay mapped into this process. With `syncs`, a committed matrix survives a power cut. Raises
    InvalidSettings if the directory cannot be made readable by this user alone."""

    REREADS_AT_ONCE = FINDS_LEFTOVERS = True
    SLOTS_ON_DISK: ClassVar[bool] = True  # whether a disk has slots, unless the settings say otherwise

    def __init__(
        self,
        directory: Path,
        index: MatrixIndex,
        *,
        max_matrix_bytes: int,
        free_bytes: int | None = None,
        keeps_maps: bool = False,
        syncs: bool = False,
    ) -> None:
        super().__init__(index, max_matrix_bytes)
        self.directory = directory.absolute()
        self.syncs = syncs
        make_private(self.directory)
        on_disk = free_bytes is None and self.SLOTS_ON_DISK and file_system(self.directory) in SAFE_TO_MAP
        if free_bytes is None:
            most_bytes = DISK_FREE_BYTES if on_disk else tmpfs_bytes(self.directory) // 4
            free_bytes = min(index.bounds.all_bytes // 2, most_bytes)
        self.slots = Slots(self.directory, free_bytes, on_disk=on_disk)
        self.memories = SlotMemories(free_bytes if keeps_maps else 0)
        self._new_slots = NewSlots(self.directory, self.memories)
        self._names, self._kept = FileNames(index), KeptMaps() if keeps_maps else None
        self._unchecked: list[str] = []  # file names of the last reading that were not yet compared with the index
        self._ages = FileAges()
        self._next_reading = 0.0

    def path(self, data: str) -> str:
        return path_of(self.directory, data)

    def sync(self, data: str) -> None:
        """Flushes a file and its directory entry to disk, before a job's record refers to it. Raises OSError."""
        for path in (self.path(data), self.directory) if self.syncs else ():
            sync(path)

    def check_ready(self) -> None:
        self._make_again()
        with translated_disk():
            PlainFile(self.path(new_id("w") + PART)).drop()

    def _make_again(self) -> None:
        """Creates the directory again, in case something deleted it with all its contents."""
        try:
            make_private(self.directory)
        except InvalidSettings as error:
            raise StoreUnavailable(UNUSABLE, resource="disk") from error
        with translated_disk():
            self.slots.make_directory()

    def in_directory(self, make: Callable[[], F]) -> F:
        """If the directory is gone it is created again, for the next try. Raises StoreFull, StoreUnavailable."""
        try:
            return make()
        except StoreUnavailable as error:
            if isinstance(error.__cause__, FileNotFoundError):
                self._make_again()
            raise

    def _writer(self, claim: Claim, expected_id: str | None, place: Place | None) -> MatrixWriter:
        return FileWriter(self, claim, expected_id, place)

    def remove(self, orphan: Elements) -> None:
        with translated_disk():
            self.slots.free(self.path(orphan.data))

    # ---- slots ----
    def new_memories(self) -> Iterator[SlotMemory]:
        if self.slots.max_free_bytes and not self.slots.on_disk:  # no device registers these
            with translated_disk():
                yield from self._new_slots.look()
            if (spare := self.make_spare()) is not None:
                yield spare

    def tidy_maps(self, max_bytes: int) -> None:
        self.memories.forget_gone(max_bytes)

    # ---- reading ----
    def _opened(self, matrix_id: str, size: int) -> FileSource:
        with translated_disk():
            return self._names.opened(matrix_id, lambda name: open_matrix(self.path(name), size, matrix_id))

    @contextmanager
    def _source(self, matrix_id: str, size: int) -> Iterator[ElementSource]:
        source = self._opened(matrix_id, size)
        try:
            yield source
        finally:
            source.file.close()

    @contextmanager
    def open(self, matrix_id: str, dtype: DTypeName, shape: tuple[int, ...]) -> Iterator[StoredMatrix]:
        if self._kept is not None and (kept := self._kept.find(matrix_id, shape)) is not None:
            yield kept
            return
        source = self._opened(matrix_id, matrix_bytes(dtype, shape))
        with translated_disk():
            raw, memory = source.mapped(self.memories)
            stored = StoredMatrix(raw.view(STORAGE_DTYPES[dtype]).reshape(shape), source.parts, memory)
            if self._kept is not None and 0 < raw.nbytes <= KEPT_BYTES and (name := self._names.known(matrix_id)):
                self._kept.keep(matrix_id, stored, self.path(name), source.file.fd)
        del source, raw  # the elements alone keep the file open and locked
        yield stored

    def whole(self, matrix_id: str, size: int) -> memoryview | None:
        """As `MatrixStore.whole`. What lies in a slot is not copied: it is locked as long as a view of it is left."""
        if not (self.slots.max_free_bytes and self.REREADS_AT_ONCE and self.slots.min_bytes <= size <= MAX_LENT_BYTES):
            return super().whole(matrix_id, size)
        source = self._opened(matrix_id, size)
        with translated_disk():
            lent = self.memories.lent(source.file, size) if source.is_slot else None
            if lent is not None:
                check_parts(lent.data, source.parts)
                return lent.data
        source.file.close()
        return super().whole(matrix_id, size)

    # ---- leftovers ----
    def _sweep_leftovers(self, limit: int) -> int:
        """Lists the directory every LOOK_ROUND_S, and examines `limit` of its files at a time."""
        if not self._unchecked and time.monotonic() >= self._next_reading:
            self._make_again()
            with translated_disk():
                self._unchecked = [name for name in os.listdir(self.directory) if _OURS.fullmatch(name)]
                self._ages.forget_all_but(map(self.path, self._unchecked))
                self.slots.trim()
                self.respect_bound(0)
            self._next_reading = time.monotonic() + LOOK_ROUND_S
        old = [name for name in self._unchecked[:limit] if self._is_old(name)]
        del self._unchecked[:limit]
        kept = self.index.all_elements([name.partition(".")[0] for name in old]) if old else []
        leftovers = [name for name, each in zip(old, kept, strict=True) if each is None or each.data != name]
        with translated_disk():
            removed = sum(self.slots.remove_left(self.path(name)) for name in leftovers)
        if removed:  # slots of dead writers are free now, and so within the bound
            self.room_taken()
        return removed

    def _is_old(self, name: str) -> bool:
        most_s = SLOT_LEFTOVER_AGE_S if name.endswith(SLOT_PART) else LEFTOVER_AGE_S
        with suppress(FileNotFoundError):
            return self._ages.age_s(self.path(name)) > most_s
        return False


class FileWriter(IndexedWriter):
    def __init__(self, store: FileMatrixStore, claim: Claim, expected_id: str | None, place: Place | None) -> None:
        self._files = store
        self._random = new_id("w")
        self._place = place
        self._file: Slot | PlainFile | None = None  # None before it is there, and once it has been published
        self._memory: Array | None = None  # of a slot that is mapped: to copy there takes a third of the time
        super().__init__(store, claim, expected_id)

    def _begin(self) -> None:
        if isinstance(self._place, SlotPlace):
            self._file = self._place.given()
            with translated_disk():
                os.utime(self._file.fd)  # a device that writes to it when this process dies is done before the sweep
        else:
            self._file = self._files.in_directory(self._made)

    def _made(self) -> Slot | PlainFile:
        if (slot := self._files.slot(self._claim.bytes, is_whole=self._claim.charged is None)) is not None:
            with translated_disk():
                self._memory = self._files.memories.room(slot.file, self._claim.bytes) if slot.is_whole else None
            return slot
        with translated_disk():
            return PlainFile(self._files.path(self._random + PART))

    def _put(self, view: memoryview) -> None:
        assert self._file is not None, "nothing comes after the last byte"
        if self._memory is not None:
            end = self._claim.bytes - self._missing_bytes
            np.copyto(self._memory[end - view.nbytes : end], np.frombuffer(view, np.uint8))
            return
        with translated_disk():
            write_all(self._file.fd, view, self._files.make_room)

    def _data_name(self, matrix_id: str) -> str:
        return matrix_id if self._hasher is None else f"{matrix_id}.{self._random}"

    def _settle(self, matrix_id: str, parts: bytes) -> str:
        assert self._file is not None, "a matrix is committed once"
        data = self._data_name(matrix_id)
        with translated_disk():
            os.lseek(self._file.fd, self._claim.bytes, os.SEEK_SET)  # elements may have been written elsewhere
            write_all(self._file.fd, parts, self._files.make_room)
            self._file.publish(self._files.path(data), self._claim.bytes, label(matrix_id, parts))
            self._files.sync(data)
        self._file = self._memory = None
        return data

    def _merge(self, data: str, kept_data: str) -> None:
        """The new elements replace the old ones: the contents are equal, and this one is complete even if someone
        removed the other file.
        """
        with translated_disk():
            os.replace(self._files.path(data), self._files.path(kept_data))
            self._files.sync(kept_data)

    def _drop(self) -> None:
        """A file that was already renamed is left to the sweep: the name may belong to another attempt by now."""
        file, self._file, self._memory = self._file, None, None
        if isinstance(self._place, SlotPlace) and isinstance(file, Slot):
            self._place.given_back(file)
        elif file is not None:
            with suppress(OSError):
                file.drop()
