"""The sha256 that identifies a matrix by its contents, computed in threads beside the one that receives and stores.
`hashlib` releases the GIL, so hashing, receiving and writing overlap: together they take as long as the slowest of
them.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import Future, ThreadPoolExecutor

GROUP_BYTES = 1 << 20  # passed to a thread together; less is hashed at once, because passing it on would take longer
_THREADS = ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="content-hash")

Buffer = bytes | bytearray | memoryview


class ContentHash:
    """A sha256 that starts with the bytes `begin`. At most two groups of pieces are kept: one being hashed, one being
    filled.
    """

    def __init__(self, begin: bytes) -> None:
        self._hash = hashlib.sha256(begin)
        self._pieces: list[Buffer] = []
        self._bytes = 0
        self._under_way: Future[None] | None = None

    def update(self, data: Buffer) -> None:
        """Adds the next bytes. The caller may change the buffer afterwards."""
        kept = _lasting(data)
        self._pieces.append(kept)
        self._bytes += kept.nbytes
        if self._bytes >= GROUP_BYTES:
            self._wait()
            self._under_way = _THREADS.submit(self._take, self._pieces)
            self._pieces, self._bytes = [], 0

    def hexdigest(self) -> str:
        """Of all bytes so far."""
        self._wait()
        self._take(self._pieces)
        self._pieces, self._bytes = [], 0
        return self._hash.hexdigest()

    def _wait(self) -> None:
        if self._under_way is not None:
            self._under_way.result()
            self._under_way = None

    def _take(self, pieces: list[Buffer]) -> None:
        for piece in pieces:
            self._hash.update(piece)


def _lasting(data: Buffer) -> memoryview:
    """The data itself if it is immutable, otherwise a copy."""
    view = memoryview(data)
    return view if isinstance(view.obj, bytes) else memoryview(bytes(view))
