"""A matrix's file, open for reading: either a plain file, which contains only elements and digests, or a slot."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from jobs.disk import translated_disk
from jobs.errors import MatrixDamaged, MatrixNotFound
from jobs.formats.elements import Array
from jobs.matrices.digest import PART_DIGEST_BYTES
from jobs.matrices.file_lock import SHARED, LockedFile, open_file
from jobs.matrices.index import MatrixIndex
from jobs.matrices.indexed_store import check_id, is_address
from jobs.matrices.interface import ElementSource, StoredMatrix, parts_bytes
from jobs.matrices.slot_format import (
    LABEL_BYTES,
    MIN_SLOT_BYTES,
    NAMED_BYTES,
    TRAILER_BYTES,
    label,
    slot_length,
    trailer,
)
from jobs.matrices.slot_memory import SlotMemories, SlotMemory, is_on_disk

POPULATE: int = getattr(mmap, "MAP_POPULATE", 0)  # Linux: map all pages at once instead of one fault after the other
# A slot that is being deleted is locked and loses its name. It may also be locked briefly by a process that found it
# free, was delayed, and does not know yet that another process took it and stored a matrix in it.
LOCKED_S, LOOK_AGAIN_S = 0.2, 0.001
KEPT_BYTES = 64 << 10  # of a small matrix that stays mapped
MAX_KEPT = 256
MAX_KNOWN_NAMES = 1024  # of files of contents: some 400 KiB

Opened = TypeVar("Opened")


class FileSource(ElementSource):
    """Reads `size` bytes of elements. A matrix that is deleted from now on can still be read."""

    def __init__(self, file: LockedFile, size: int, *, is_slot: bool) -> None:
        self.file = file
        self._size = size
        self.is_slot = is_slot

    @cached_property
    def parts(self) -> Array:  # type: ignore[override]  # read when it is asked for
        return np.frombuffer(self.read(self._size, self._size + parts_bytes(self._size)), "<u8")

    def digests(self, first: int, after: int) -> Array:
        """Only these are read: all of a large matrix's take megabytes."""
        begin = self._size + first * PART_DIGEST_BYTES
        return np.frombuffer(self.read(begin, begin + (after - first) * PART_DIGEST_BYTES), "<u8")

    def read(self, start: int, stop: int) -> bytes:
        """Reads these bytes, by several calls if necessary: one `pread` returns at most 2 GiB, and no more than the
        file has.
        """
        pieces: list[bytes] = []
        while start < stop:
            with translated_disk():
                piece = os.pread(self.file.fd, stop - start, start)
            if not piece:
                raise MatrixNotFound
            pieces.append(piece)
            start += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_into(self, buffer: memoryview, start: int) -> memoryview:
        done = 0
        while done < len(buffer):
            with translated_disk():
                count = os.preadv(self.file.fd, [buffer[done:]], start + done)
            if not count:
                raise MatrixNotFound
            done += count
        return buffer

    def mapped(self, memories: SlotMemories) -> tuple[Array, SlotMemory | None]:
        """The elements, uint8, read-only, and the slot's memory. The array outlives this object. Raises OSError."""
        if self.is_slot:
            memory = memories.of(self.file.fd, reads=True)
            return memory.array(self.file, self._size, writable=False), memory
        flags = mmap.MAP_SHARED | POPULATE
        raw = mmap.mmap(self.file.fd, self._size, flags=flags, prot=mmap.PROT_READ) if self._size else b""
        return np.frombuffer(raw, np.uint8), None


def open_matrix(path: str, size: int, matrix_id: str) -> FileSource:
    """Raises MatrixNotFound, also where the file is not one of a matrix of `size` bytes, or its label has another's id;
    MatrixDamaged where that has other digests; OSError."""
    given_up_at = time.monotonic() + LOCKED_S
    while True:
        file = open_file(path, os.O_RDWR)
        if file is None:
            raise MatrixNotFound
        length = os.fstat(file.fd).st_size
        if length == size + parts_bytes(size):
            return FileSource(file, size, is_slot=False)
        if size < MIN_SLOT_BYTES or length != slot_length(size):
            raise MatrixNotFound
        if not file.lock(SHARED):
            if time.monotonic() > given_up_at:
                raise MatrixNotFound
            file.close()
            time.sleep(LOOK_AGAIN_S)
            continue
        if not file.is_at(path):  # between opening and locking it was deleted, and may be another matrix by now
            file.close()
            continue
        if os.pread(file.fd, TRAILER_BYTES, length - TRAILER_BYTES) != trailer(size):
            raise MatrixNotFound
        source = FileSource(file, size, is_slot=True)
        if is_on_disk(file.fd):
            _check_label(source, length - TRAILER_BYTES, matrix_id)
        return source


def _check_label(source: FileSource, end: int, matrix_id: str) -> None:
    """Raises MatrixNotFound, MatrixDamaged."""
    found, own = source.read(end - LABEL_BYTES, end), label(matrix_id, source.parts.tobytes())
    if found[:NAMED_BYTES] != own[:NAMED_BYTES]:
        raise MatrixNotFound
    if found != own:
        raise MatrixDamaged


@dataclass(frozen=True, slots=True)
class _Kept:
    matrix: StoredMatrix
    path: str
    file: tuple[int, int]  # device and inode


class KeptMaps:
    """Small matrices that stay mapped, by content address: opening two takes longer than their product. One counts only
    while the file that is mapped still has its name: one that was deleted
    is gone, and one that was damaged and came anew is opened anew. For any threads."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def find(self, matrix_id: str, shape: tuple[int, ...]) -> StoredMatrix | None:
        if (kept := self._kept.get(matrix_id)) is None or kept.matrix.elements.shape != shape:
            return None
        with suppress(OSError):
            about = os.stat(kept.path, follow_symlinks=False)
            if kept.file == (about.st_dev, about.st_ino):
                return kept.matrix
        self._kept.pop(matrix_id, None)
        return None

    def keep(self, matrix_id: str, matrix: StoredMatrix, path: str, fd: int) -> None:
        """`fd`: of the file that is mapped. Others go, the oldest first, where there are too many."""
        about = os.fstat(fd)
        while len(self._kept) >= MAX_KEPT:
            with suppress(KeyError, StopIteration, RuntimeError):  # another thread is at it
                self._kept.pop(next(iter(self._kept)))
        self._kept[matrix_id] = _Kept(matrix, path, (about.st_dev, about.st_ino))


class FileNames:
    """A named matrix is kept under its name. For a content address the index has the file's name, which is never reused
    for other contents. So if a file with a name read earlier still exists, it is the right one. Safe to share between
    threads.
    """

    def __init__(self, index: MatrixIndex) -> None:
        self._index = index
        self._known: dict[str, str] = {}  # by content address

    def opened(self, matrix_id: str, open_file: Callable[[str], Opened]) -> Opened:
        """The result of `open_file` for the matrix's file name. Raises MatrixNotFound, as `open_file` does."""
        if not is_address(check_id(matrix_id)):
            return open_file(matrix_id)
        if (known := self._known.get(matrix_id)) is not None:
            with suppress(MatrixNotFound):
                return open_file(known)
        name = self._index.elements(matrix_id).data
        if len(self._known) >= MAX_KNOWN_NAMES:
            self._known.clear()
        self._known[matrix_id] = name
        return open_file(name)

    def known(self, matrix_id: str) -> str | None:
        """The name of the file that a content address was last opened by."""
        return self._known.get(matrix_id)
