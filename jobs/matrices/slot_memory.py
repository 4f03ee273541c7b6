"""Slots mapped into this process. Each is mapped once, as long as anything uses it; the most recently used ones stay
mapped longer. An array on a slot keeps the slot locked, so the slot cannot be reused for another matrix before the last
view of the array is gone.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import stat
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np

from jobs.formats.elements import Array
from jobs.matrices.file_lock import LockedFile

DISK_MODE = 0o700  # of a slot on a disk: the owner's right to execute it is the mark
MADV_POPULATE_READ, MADV_POPULATE_WRITE = 22, 23  # of Linux, since 5.14
POPULATED_BYTES, MAX_POPULATING = 8 << 20, 8  # at least this much per thread; a thread clears some 3 GB/s
MAX_KEPT = 512  # unused maps that are kept; each takes two file descriptors
MAX_LENT = 4  # at the same time
LOOKED_AT = 16  # maps checked at a time for deleted files
LOOK_EVERY_S = 0.05  # where none is added


class SlotMemory:
    """All of a slot's bytes, always at the same address. `reads`: they are not to be written at first. Raises
    OSError."""

    def __init__(self, fd: int, length: int, *, reads: bool = False) -> None:
        mapped = mmap.mmap(fd, length, flags=mmap.MAP_SHARED)
        self.address: int = np.frombuffer(mapped, np.uint8).ctypes.data
        self.bytes = length
        self.is_on_disk = is_on_disk(fd)  # no device is to write to such memory by itself
        # On a disk, pages that are mapped to be written are written back, even if nothing changed.
        populate(self.address, length, MADV_POPULATE_READ if reads and self.is_on_disk else MADV_POPULATE_WRITE)
        self._fd = os.dup(fd)
        self._before_end: list[Callable[[], None]] = []
        weakref.finalize(self, _unmap, mapped, self._fd, self._before_end).atexit = False

    def before_unmapped(self, call: Callable[[], None]) -> None:
        """Registers a call to be made before the memory is unmapped. `call` must not hold a reference to this
        object.
        """
        self._before_end.append(call)

    @property
    def is_gone(self) -> bool:
        """Whether the slot's file was deleted, so that unmapping it frees its memory."""
        return os.fstat(self._fd).st_nlink == 0

    def array(self, file: LockedFile, size: int, *, writable: bool) -> Array:
        """The first `size` bytes, uint8. The file stays locked as long as this array or a view of it lives."""
        return np.asarray(_Exposed(self, file, size, writable))


def is_on_disk(fd: int) -> bool:
    """Whether the slot was made on a disk, where it has a label (`jobs/matrices/slot_format.py`)."""
    return bool(os.fstat(fd).st_mode & stat.S_IXUSR)


def populate(address: int, length: int, advice: int = MADV_POPULATE_WRITE) -> None:
    """Maps all pages at once, with several threads, so that the kernel clears new pages in parallel. If the kernel does
    not support this, each page is mapped when it is first touched.
    """
    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is None:
        return
    threads = max(1, min(MAX_POPULATING, os.cpu_count() or 1, length // POPULATED_BYTES))
    step = -(-length // threads // mmap.PAGESIZE) * mmap.PAGESIZE
    parts = [(address + begin, min(step, length - begin)) for begin in range(0, length, step)]

    def populate(part: tuple[int, int]) -> None:
        madvise(ctypes.c_void_p(part[0]), ctypes.c_size_t(part[1]), ctypes.c_int(advice))

    if threads == 1:
        populate(parts[0])
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(populate, parts))


def _unmap(mapped: mmap.mmap, fd: int, calls: list[Callable[[], None]]) -> None:
    while calls:
        calls.pop()()
    mapped.close()
    os.close(fd)


class _Exposed:
    """The base object of a numpy array; it keeps the memory mapped and the file locked."""

    def __init__(self, memory: SlotMemory, file: LockedFile, size: int, writable: bool) -> None:
        self._kept = memory, file
        place = memory.address, not writable
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (size,), "data": place}


class SlotMemories:
    """Keeps at most `max_bytes` of maps that nothing uses. For use by several threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._lendable = threading.BoundedSemaphore(MAX_LENT)
        self._kept: OrderedDict[tuple[int, int], SlotMemory] = OrderedDict()
        self._unlooked: list[tuple[int, int]] = []  # kept maps not yet checked in this round
        self._being_mapped: dict[tuple[int, int], threading.Lock] = {}
        self.kept_bytes = 0
        self._look_at = 0.0  # time.monotonic(): at whether files are gone

    def of(self, fd: int, *, reads: bool = False) -> SlotMemory:
        """The memory of the slot that `fd` is open on. `reads` is as in `SlotMemory`. Raises OSError."""
        status = os.fstat(fd)
        key = status.st_dev, status.st_ino  # the map keeps the inode, so no other gets its number
        with self._lock:
            being_mapped = self._being_mapped.setdefault(key, threading.Lock())
        with being_mapped:  # takes long; other threads may continue
            with self._lock:
                memory = self._kept.get(key)
            try:
                memory = memory or SlotMemory(fd, status.st_size, reads=reads)
            finally:
                with self._lock:
                    self._being_mapped.pop(key, None)
                    if memory is not None:
                        self._keep(key, memory)
        return memory

    def room(self, file: LockedFile, size: int) -> Array | None:
        """The first `size` bytes of a slot, uint8, to be written to; None where no maps are kept. Raises OSError."""
        return self.of(file.fd).array(file, size, writable=True) if self._max_bytes else None

    def lent(self, file: LockedFile, size: int) -> Array | None:
        """The same to be read; None also where MAX_LENT are in use."""
        if not self._max_bytes or not self._lendable.acquire(blocking=False):
            return None
        with ExitStack() as unlent:
            unlent.callback(self._lendable.release)
            array = self.of(file.fd, reads=True).array(file, size, writable=False)
            weakref.finalize(array, unlent.pop_all().close)
        return array

    def has_room(self, size: int) -> bool:
        """Whether another map could be kept without dropping one."""
        with self._lock:
            return len(self._kept) < MAX_KEPT and self.kept_bytes + size <= self._max_bytes

    def forget_gone(self, max_bytes: int | None = None) -> None:
        """Drops maps of deleted slots, a few at a time, so that their memory is freed. Then those used longest ago,
        down to `max_bytes`.
        """
        with self._lock:
            self._forget_gone()
            while max_bytes is not None and self.kept_bytes > max_bytes:
                self._take(next(iter(self._kept)))

    def _keep(self, key: tuple[int, int], memory: SlotMemory) -> None:
        is_new = self._take(key) is None
        self._kept[key] = memory
        self.kept_bytes += memory.bytes
        if is_new or time.monotonic() >= self._look_at:
            self._forget_gone()
        while len(self._kept) > MAX_KEPT or self.kept_bytes > self._max_bytes:
            self._take(next(iter(self._kept)))

    def _take(self, key: tuple[int, int]) -> SlotMemory | None:
        """Takes a map out of the kept ones."""
        if (memory := self._kept.pop(key, None)) is not None:
            self.kept_bytes -= memory.bytes
        return memory

    def _forget_gone(self) -> None:
        """Checks the kept maps in turn; each check is a system call, during which another thread may run."""
        self._look_at = time.monotonic() + LOOK_EVERY_S
        self._unlooked = self._unlooked or list(self._kept)
        keys, self._unlooked = self._unlooked[:LOOKED_AT], self._unlooked[LOOKED_AT:]
        for key in keys:
            if (memory := self._kept.get(key)) is not None and memory.is_gone:
                self._take(key)
