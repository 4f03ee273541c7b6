"""The slots of one directory: files whose memory is reused by one matrix after another (docs/decisions/0020-arena.md).

A free slot is a file `free/<length>.<nanoseconds>.<random>`. Taking a slot and returning it are renames under its
exclusive lock, so no other record is needed, and a process that dies at any moment leaves nothing to repair.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from jobs.disk import UNUSABLE, path_of, remove
from jobs.errors import StoreUnavailable
from jobs.matrices.file_lock import EXCLUSIVE, SHARED, LockedFile, open_file, open_locked
from jobs.matrices.plain_file import PART, remove_left
from jobs.matrices.slot_format import MIN_SLOT_BYTES, SLOT_PART, is_slot_length, slot_length, trailer
from jobs.matrices.slot_memory import DISK_MODE, is_on_disk

FREE = "free"
DISK_FREE_BYTES = 256 << 20  # most bytes of free slots on a disk
DISK_MIN_BYTES = 512 << 10  # a smaller matrix on a disk has a plain file, which takes no longer
MAX_FREE = 512  # each search for a free slot lists all their names
FREE_AGE_S = 3600.0  # a slot unused for this long is deleted
LISTED_S = 0.1  # for so long the names that were listed are tried, unless all are used up: listing takes a while
_NAME = re.compile(r"([1-9][0-9]{0,18})\.([0-9a-f]{16})\.[0-9a-f]{16}")


class _Free(NamedTuple):
    length: int
    since_ns: int
    name: str


class Slot:
    """A slot that is being written: locked exclusively, under a name that no reader uses."""

    def __init__(self, slots: Slots, file: LockedFile, path: str, length: int, *, is_whole: bool = True) -> None:
        self._slots = slots
        self.is_whole = is_whole  # whether it has all its memory already
        self.file = file
        self.path = path
        self.length = length

    @property
    def fd(self) -> int:
        return self.file.fd

    def publish(self, path: str, size: int, of_matrix: bytes = b"") -> None:
        """Makes it the matrix of that name; elements and digests have been written. `of_matrix` is its label, which a
        slot on a disk needs. Raises StoreUnavailable, OSError.

        The lock becomes a shared one first, because a reader that meets an exclusive lock regards the matrix as
        deleted.
        """
        if not self.is_whole:
            self._slots.allocate(self)
        said = trailer(size)
        if is_on_disk(self.file.fd):
            assert of_matrix, "no one could read it without a label"
            said = of_matrix + said
        os.pwrite(self.file.fd, said, self.length - len(said))
        if not self.file.lock(SHARED):
            raise StoreUnavailable("A matrix lost the place it was written to; send it again.", resource="disk")
        os.rename(self.path, path)

    def drop(self) -> None:
        """Frees the slot without publishing it. An array on it keeps it locked. Raises OSError."""
        self._slots.put_back(self)


class Slots:
    """Keeps at most `max_free_bytes` of free slots; with 0 no slots are kept or created. `on_disk`: they have
    labels.

    All methods raise OSError.
    """

    def __init__(self, directory: Path, max_free_bytes: int, *, on_disk: bool = False) -> None:
        self._free = directory / FREE
        self.on_disk = on_disk
        self.min_bytes = DISK_MIN_BYTES if on_disk else MIN_SLOT_BYTES  # of a matrix that is to have one
        self.max_free_bytes = max_free_bytes
        self._listed: dict[int, list[str]] = {}  # names of free slots of one length, by their times
        self._listed_until = 0.0  # time.monotonic()
        self.make_directory()

    def make_directory(self) -> None:
        if self.max_free_bytes:
            self._free.mkdir(mode=0o700, exist_ok=True)

    def take(self, size: int, path: str) -> Slot | None:
        """The most recently freed slot for `size` bytes, renamed to `path`; None if there is none."""
        length = slot_length(size)
        for name in self._newest_free(length):
            if (file := open_locked(path_of(self._free, name), EXCLUSIVE)) is None:
                continue
            if self._claimed(file, name, length, path):
                return Slot(self, file, path, length)
            file.close()
        return None

    def _claimed(self, file: LockedFile, name: str, length: int, path: str) -> bool:
        """Renames a locked free slot to `path`. Refuses a slot that was removed to make room, or whose length does not
        match its name because its matrix was replaced while it was being freed. So it does one that has a label where
        others have none, or the other way round, after the settings were changed.
        """
        if os.fstat(file.fd).st_size != length or is_on_disk(file.fd) != self.on_disk:
            return False
        os.utime(file.fd)  # the sweep uses this time
        try:
            os.rename(path_of(self._free, name), path)
        except FileNotFoundError:
            return False
        return True

    def make(self, size: int, path: str, *, is_whole: bool = True) -> Slot:
        """A new slot under the name `path`, with all its memory: writing to a map of it never finds the disk full.
        Without `is_whole`, memory is allocated as it is written, and the rest when it is published."""
        file = open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        if file is None or not file.lock(EXCLUSIVE):
            raise StoreUnavailable(UNUSABLE, resource="disk")
        length = slot_length(size)
        try:
            if self.on_disk:
                os.fchmod(file.fd, DISK_MODE)
            if is_whole:
                os.posix_fallocate(file.fd, 0, length)
            else:
                os.ftruncate(file.fd, length)
        except BaseException:
            remove(path)
            file.close()
            raise
        return Slot(self, file, path, length, is_whole=is_whole)

    def allocate(self, slot: Slot) -> None:
        """Gives a slot all its memory; if the disk is full, in the place of all free ones."""
        try:
            os.posix_fallocate(slot.fd, 0, slot.length)
        except OSError as error:
            if error.errno != errno.ENOSPC or not self.free_bytes:
                raise
            self.trim(0)
            os.posix_fallocate(slot.fd, 0, slot.length)

    def find(self, size: int, path: str) -> Slot | None:
        """The slot for `size` bytes that a writer left under the name `path`; None if there is none, or if it is in
        use.
        """
        if (file := open_locked(path, EXCLUSIVE)) is None:
            return None
        length = os.fstat(file.fd).st_size
        if length != slot_length(size):
            file.close()
            return None
        return Slot(self, file, path, length)

    def put_back(self, slot: Slot) -> None:
        """As `Slot.drop`."""
        self._free_or_remove(slot.file, slot.path)

    def free(self, path: str) -> None:
        """Removes a matrix's file; a slot that no one reads becomes a free slot."""
        file = open_locked(path, EXCLUSIVE) if self.max_free_bytes and _may_be_slot(path) else None
        if file is None:
            remove(path)
        else:
            with suppress(FileNotFoundError):  # another process removed it meanwhile, as it could not lock it
                self._free_or_remove(file, path)
            file.close()

    def remove_left(self, path: str) -> bool:
        """Frees or removes the file of a dead writer or remover; returns False if the writer is alive."""
        if path.endswith(PART):
            return remove_left(path)
        if not path.endswith(SLOT_PART):
            self.free(path)
            return True
        file = open_locked(path, EXCLUSIVE)
        if file is None:
            return False
        self._free_or_remove(file, path)
        file.close()
        return True

    def _free_or_remove(self, file: LockedFile, path: str) -> None:
        status = os.fstat(file.fd)
        is_whole = is_slot_length(status.st_size) and status.st_blocks * 512 >= status.st_size
        if is_whole and self.max_free_bytes:
            name = f"{status.st_size}.{time.time_ns():016x}.{secrets.token_hex(8)}"
            os.rename(path, path_of(self._free, name))
            if time.monotonic() < self._listed_until:
                self._listed.get(status.st_size, []).append(name)
        else:
            remove(path)
        self.trim()

    def trim(self, max_bytes: int | None = None) -> None:
        """Removes the free slots that have been free longest, down to their limit or to a lower `max_bytes`."""
        kept_bytes = 0
        limit_bytes = self.max_free_bytes if max_bytes is None else min(max_bytes, self.max_free_bytes)
        oldest_ns = time.time_ns() - int(FREE_AGE_S * 1e9)
        for count, free in enumerate(reversed(self._all_free())):
            if kept_bytes + free.length > limit_bytes or count >= MAX_FREE or free.since_ns < oldest_ns:
                remove(path_of(self._free, free.name))
            else:
                kept_bytes += free.length

    def has_free(self, length: int) -> bool:
        """Whether there is a free slot of that length now."""
        return any(name.startswith(f"{length}.") for name in self._names())

    @property
    def free_bytes(self) -> int:
        return sum(free.length for free in self._all_free())

    def _newest_free(self, length: int) -> Iterator[str]:
        """Names of free slots of one length, most recently freed first: those that were listed a moment ago and not
        tried since, or else all. Others may have taken them meanwhile.
        """
        names = self._listed.get(length, []) if time.monotonic() < self._listed_until else []
        is_new = False
        while names or not is_new:
            if not names:
                names, is_new = self._listed_anew(length), True
            with suppress(IndexError):  # another thread had the last one
                yield names.pop()

    def _listed_anew(self, length: int) -> list[str]:
        begin = f"{length}."
        names = sorted(name for name in self._names() if name.startswith(begin) and _NAME.fullmatch(name))
        if time.monotonic() >= self._listed_until:
            self._listed, self._listed_until = {}, time.monotonic() + LISTED_S
        self._listed[length] = names
        return names

    def _all_free(self) -> list[_Free]:
        """All free slots, in the order in which they were freed."""
        matches = [match for name in self._names() if (match := _NAME.fullmatch(name))]
        return sorted(map(_free_of, matches), key=lambda free: free.since_ns)

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._free)
        except FileNotFoundError:
            return []


def _free_of(match: re.Match[str]) -> _Free:
    return _Free(int(match[1]), int(match[2], 16), match[0])


def _may_be_slot(path: str) -> bool:
    try:
        return is_slot_length(os.lstat(path).st_size)
    except FileNotFoundError:
        return False
