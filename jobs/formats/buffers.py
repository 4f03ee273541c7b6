"""Reusable buffers for matrices in transit: the first touch of a fresh page costs more than writing to it."""

from __future__ import annotations

from threading import Lock


class Buffers:
    """Lends up to `count` buffers of `size` bytes. A buffer is in use as long as any view of it exists, so callers need
    not return it. Safe to share between threads.
    """

    def __init__(self, count: int, size: int) -> None:
        self._count, self.size = count, size
        self._buffers: list[bytearray] = []
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
            self._buffers.append(bytearray(self.size))
            return memoryview(self._buffers[-1])


def _is_free(buffer: bytearray) -> bool:
    """Python resizes no bytearray that a view is open on."""
    try:
        buffer.pop()
    except BufferError:
        return False
    buffer.append(0)
    return True
