"""Reusable buffers for matrices in transit: the first touch of a fresh page costs more than writing to it."""

from __future__ import annotations

import mmap
from contextlib import suppress
from threading import Lock

HUGE: int | None = getattr(mmap, "MADV_HUGEPAGE", None)  # of Linux


class Buffers:
    """Lends up to `count` buffers of `size` bytes, which begin at a page: copies to an odd address may take twice as
    long. A buffer is in use as long as any view of it exists, so callers need not return it. Safe to share between
    threads.
    """

    def __init__(self, count: int, size: int) -> None:
        self._count, self.size = count, size
        self._buffers: list[mmap.mmap] = []
        self._lock = Lock()

    def take(self) -> memoryview | None:
        """A view of a whole free buffer; None if all are in use."""
        with self._lock:
            for number, buffer in enumerate(self._buffers):
                if _is_free(buffer):
                    self._buffers.append(self._buffers.pop(number))  # the ones taken longest ago come first
                    return memoryview(buffer)
            if len(self._buffers) == self._count:
                return None
            self._buffers.append(_mapped(self.size))
            return memoryview(self._buffers[-1])


def _mapped(size: int) -> mmap.mmap:
    buffer = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if HUGE is not None:
        with suppress(OSError):  # a system without huge pages
            buffer.madvise(HUGE)
    return buffer


def _is_free(buffer: mmap.mmap) -> bool:
    """Python resizes no map that a view is open on."""
    try:
        buffer.resize(len(buffer))
    except BufferError:
        return False
    return True
