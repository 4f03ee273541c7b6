"""Memory that bodies are received into, used again and again: a fresh page costs more than what is written to it."""

from __future__ import annotations

BUFFER_BYTES = 1 << 20
MAX_BUFFERS = 16  # of a process; where all are in use, bodies come in small pieces that are copied


class Buffers:
    """Lends buffers. One is in use for as long as any view of it is there, so that no one has to give it back. For the
    event loop's thread alone; the views may be used, and dropped, in others."""

    def __init__(self, count: int = MAX_BUFFERS, size: int = BUFFER_BYTES) -> None:
        self._count, self._size = count, size
        self._buffers: list[bytearray] = []

    def take(self) -> memoryview | None:
        """All of a buffer; None where all are in use."""
        for number, buffer in enumerate(self._buffers):
            if _is_free(buffer):
                self._buffers.append(self._buffers.pop(number))  # those in use the longest come first
                return memoryview(buffer)
        if len(self._buffers) == self._count:
            return None
        self._buffers.append(bytearray(self._size))
        return memoryview(self._buffers[-1])


def _is_free(buffer: bytearray) -> bool:
    """Python resizes no bytearray that a view is open on."""
    try:
        buffer.pop()
    except BufferError:
        return False
    buffer.append(0)
    return True
