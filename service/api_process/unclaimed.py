"""Matrices that are written before any record claims them."""

from __future__ import annotations

from threading import Lock

MAX_BYTES = 64 << 20  # of one process: what its requests can add to the stores beyond their bounds


class UnclaimedBytes:
    """How many there are of all requests at once. Safe to share between threads."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._lock = Lock()
        self._left_bytes = max_bytes

    def take(self, size: int) -> bool:
        """Whether there may be so many more; `give_back` ends it."""
        with self._lock:
            is_room = size <= self._left_bytes
            self._left_bytes -= size if is_room else 0
        return is_room

    def give_back(self, size: int) -> None:
        with self._lock:
            self._left_bytes += size
