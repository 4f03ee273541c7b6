"""Matrices that are written before any record claims them."""

from __future__ import annotations

from threading import Lock

MAX_BYTES = 64 << 20  # of one process: what its requests can add to the stores beyond their bounds


class UnclaimedBytes:
    """A limit on them, for all requests together. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._left_bytes = MAX_BYTES

    def take(self, size: int) -> bool:
        """Whether `size` more bytes are within the limit. They count until `give_back`."""
        with self._lock:
            is_room = size <= self._left_bytes
            self._left_bytes -= size if is_room else 0
        return is_room

    def give_back(self, size: int) -> None:
        with self._lock:
            self._left_bytes += size
