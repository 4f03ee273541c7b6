"""The local copies of matrices of the object store, in the host's store directory. All of them are in the bucket, so
any may be removed. A copy's modification time is its last use, so their order survives a restart. Files that are being
written or read are not removed.
"""

from __future__ import annotations

import fcntl
import os
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from jobs.disk import path_of, remove
from jobs.matrices.file_lock import open_file
from jobs.matrices.interface import PARTIAL
from jobs.matrices.slots import Slots

FETCHING = "fetching"
SHARE = 64
WRITTEN = ("w_", PARTIAL)  # names of files that are being written begin so


class _Copy(NamedTuple):
    used_at: int  # nanoseconds since the epoch
    bytes: int
    name: str


class Copies:
    """Keeps at most `max_bytes`, free slots included; None for half of the file system. All methods raise OSError."""

    def __init__(self, directory: Path, slots: Slots, max_bytes: int | None) -> None:
        self._directory, self._slots = directory, slots
        self._locks = directory / FETCHING
        space = os.statvfs(directory)
        self.max_bytes = max_bytes or space.f_blocks * space.f_frsize // 2
        self._unlisted_bytes = 0
        self.make_directory()

    def make_directory(self) -> None:
        self._locks.mkdir(mode=0o700, exist_ok=True)

    def make_room(self, need_bytes: int) -> int:
        """Removes the least recently used copies until `need_bytes` more are within the limit; returns how many. Slots
        among them become free slots, as far as the limit allows.
        """
        copies, pending_bytes = self._all()
        room, removed = self.max_bytes - need_bytes - pending_bytes, 0
        kept_bytes = sum(copy.bytes for copy in copies)
        for copy in copies:
            if kept_bytes <= room:
                break
            self._slots.free(path_of(self._directory, copy.name))
            kept_bytes -= copy.bytes
            removed += 1
        self._slots.trim(max(0, room - kept_bytes))
        return removed

    def expect(self, need_bytes: int) -> None:
        """Called before a plain file of that size is made. Makes room once such files are SHARE of the limit: listing
        the directory for each would take longer than to fetch a small matrix.
        """
        self._unlisted_bytes += need_bytes
        if self._unlisted_bytes >= self.max_bytes // SHARE:
            self._unlisted_bytes = 0
            self.make_room(need_bytes)

    def give_some_up(self) -> int:
        """Removes the quarter of the copies used least recently, for a disk that is full; returns how many."""
        copies = self._all()[0]
        sums = list(accumulate(copy.bytes for copy in copies))
        count = bisect_left(sums, sums[-1] / 4) + 1 if sums else 0
        for copy in copies[:count]:
            self._slots.free(path_of(self._directory, copy.name))
        return count

    def _all(self) -> tuple[list[_Copy], int]:
        """The copies that may be removed, least recently used first, and the bytes of files that are being written: the
        bucket does not have them. The sweep removes those that no one writes to.
        """
        copies, pending_bytes = [], 0
        with os.scandir(self._directory) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if not entry.is_file(follow_symlinks=False):
                    continue
                if entry.name.startswith(WRITTEN):
                    pending_bytes += status.st_blocks * 512
                else:
                    copies.append(_Copy(status.st_mtime_ns, status.st_blocks * 512, entry.name))
        return sorted(copies), pending_bytes

    @contextmanager
    def fetching(self, name: str) -> Iterator[None]:
        """A lock for fetching a matrix: one thread of one process on this host fetches it, and the others wait for
        it.
        """
        path = path_of(self._locks, name)
        while True:
            file = open_file(path, os.O_RDWR | os.O_CREAT)
            if file is None:
                self.make_directory()
                continue
            fcntl.flock(file.fd, fcntl.LOCK_EX)
            if file.is_at(path):
                break
            file.close()
        try:
            yield
        finally:
            remove(path)
            file.close()
