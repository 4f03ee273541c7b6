"""Finds new slots in a store's directory, so that a worker can map them and register them with its device before they
are needed, as soon as all their memory is allocated.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from jobs.disk import path_of
from jobs.matrices.file_lock import open_file
from jobs.matrices.slot_format import MIN_SLOT_BYTES, SLOT_PART, is_slot_length
from jobs.matrices.slot_memory import SlotMemories, SlotMemory

TICK_NS = 50_000_000  # longer than a tick of the clock that sets file times


class NewSlots:
    """Watches one directory, for one thread. Existing maps are never dropped to make room for new slots."""

    def __init__(self, directory: Path, memories: SlotMemories) -> None:
        self._directory, self._memories = directory, memories
        self._changed_ns = 0
        self._seen: set[int] = set()  # inodes, of the last look

    def look(self) -> Iterator[SlotMemory]:
        """Slots not returned before; none if the directory is unchanged. Raises OSError."""
        self._memories.forget_gone()
        changed_ns = os.stat(self._directory).st_mtime_ns
        if changed_ns == self._changed_ns:
            return
        is_settled = time.time_ns() - changed_ns > TICK_NS  # two changes in one tick have the same time
        self._changed_ns = changed_ns if is_settled else 0
        with os.scandir(self._directory) as entries:
            found = {entry.inode(): entry.name for entry in entries if entry.is_file(follow_symlinks=False)}
        new, self._seen = {inode: found[inode] for inode in found.keys() - self._seen}, set(found)
        for inode, name in new.items():
            yield from self._mapped(inode, name)

    def _mapped(self, inode: int, name: str) -> Iterator[SlotMemory]:
        """The mapped slot; None for a plain file, for a file that is gone again, and if there is no room for its
        map.
        """
        file = open_file(path_of(self._directory, name), os.O_RDWR)
        if file is None:
            return
        status = os.fstat(file.fd)
        is_slot = status.st_size >= MIN_SLOT_BYTES and is_slot_length(status.st_size)
        if is_slot and status.st_blocks * 512 >= status.st_size:
            if self._memories.has_room(status.st_size):
                yield self._memories.of(file.fd)
        elif name.endswith(SLOT_PART):  # its memory is still being allocated
            self._seen.discard(inode)
            self._changed_ns = 0
