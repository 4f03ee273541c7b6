"""The hash that names a matrix by its contents: a sha256, taken in threads beside the one that receives and stores.

`hashlib` lets go of the interpreter while it hashes, so hashing, receiving and writing take as long as the slowest of
them, not as long as their sum.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import Future, ThreadPoolExecutor

GROUP_BYTES = (
    1 << 20
)  # go to a thread together: what is smaller is hashed at once, for handing it over would take longer
_THREADS = ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="content-hash")

Buffer = bytes | bytearray | memoryview


class ContentHash:
    """A sha256 that has seen `begin`. At most two groups of pieces are kept: one that is hashed, one that fills."""

    def __init__(self, begin: bytes) -> None:
        self._hash = hashlib.sha256(begin)
        self._pieces: list[Buffer] = []
        self._bytes = 0
        self._under_way: Future[None] | None = None

    def update(self, data: Buffer) -> None:
        """The next bytes. They may be changed afterwards."""
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
    """As it is where nobody can change it, else a copy."""
    view = memoryview(data)
    return view if isinstance(view.obj, bytes) else memoryview(bytes(view))
