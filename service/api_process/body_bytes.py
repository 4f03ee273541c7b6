"""The bytes of a large body, for the thread that parses it. While it searches, digests and writes what it read from the
socket, the client sends more, and nobody is woken for it.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from contextlib import suppress

from jobs.formats.buffers import Buffers

EXTENSION = "matmul.body_by_thread"  # in a request's scope: a context of BodyBytes, or of None
PIECE_BYTES = 1 << 20  # shorter reads make TCP send more segments
AT_ONCE_BYTES = 8 << 20  # after which a thread may do something else first
MAX_READERS = 4  # threads of a process that read at the same time
PATIENCE_S, MIN_BYTES_S = 0.005, 64 << 20  # a thread waits for its client so long in all, and longer for what came
_BUFFERS = Buffers(MAX_READERS, PIECE_BYTES)


class BodyBytes:
    """Of a body of which `missing_bytes` are to come from the socket `fd`, which does not block."""

    def __init__(self, fd: int, missing_bytes: int) -> None:
        self._fd, self._missing_bytes = fd, missing_bytes
        self._limit_bytes = min(missing_bytes, AT_ONCE_BYTES)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._waited_s = 0.0
        self.came_bytes = 0

    @property
    def is_fast(self) -> bool:
        """Whether as much came as one thread takes."""
        return self.came_bytes == self._limit_bytes

    @property
    def is_whole(self) -> bool:
        return self.came_bytes == self._missing_bytes

    def pass_to(self, feed: Callable[[memoryview], None]) -> None:
        """Passes on what comes, as long as it comes fast. A piece's memory is used again once no view of it is left."""
        while left := min(PIECE_BYTES, self._limit_bytes - self.came_bytes):
            if (buffer := _BUFFERS.take()) is None:
                return
            if count := self._fill(buffer[:left]):
                feed(buffer[:count])
            if count < left:
                return
            del buffer

    def _fill(self, room: memoryview) -> int:
        """How many bytes came; fewer than there is room for if the client is slow, or gone, which the event loop meets
        again."""
        filled = 0
        with suppress(OSError):
            while filled < len(room):
                try:
                    count = os.readv(self._fd, [room[filled:]])
                except BlockingIOError:
                    if self._is_ready():
                        continue
                    break
                if not count:
                    break
                filled += count
                self.came_bytes += count
        return filled

    def _is_ready(self) -> bool:
        """Waits until there is more; False where that takes too long."""
        left_s = PATIENCE_S + self.came_bytes / MIN_BYTES_S - self._waited_s
        begun = time.monotonic()
        ready = left_s > 0 and self._poll.poll(left_s * 1e3)
        self._waited_s += time.monotonic() - begun
        return bool(ready)
