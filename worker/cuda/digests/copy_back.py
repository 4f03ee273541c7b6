"""The copy of a product from the device to its place in the store, which the device then reads back to digest it."""

from __future__ import annotations

from typing import Self

import cupy

from jobs.matrices.digest import as_bytes, part_count, part_digests
from jobs.matrices.interface import Place
from worker.cuda.compile import Compiler
from worker.cuda.digests.plan import stored_bytes
from worker.cuda.digests.read_back import ReadBack
from worker.cuda.memory import DeviceMatrix, Staging, StopWatch, download

DIGESTED_HERE_BYTES = 1 << 20  # of a product: the CPU digests it in less time than it takes to ask the device to


class CopyBack:
    """The copy of a product on the device to its place in the store, and the digests of what lies there then.

    It needs what was launched on the current stream before this was made, and waits for nothing that comes after it:
    copies and digests have streams of their own in `staging`, which must be done before the place is given back.
    """

    def __init__(
        self, compiler: Compiler, matrix: DeviceMatrix, place: Place, watch: StopWatch, staging: Staging
    ) -> None:
        self._matrix, self._place, self._watch, self._staging = matrix, place, watch, staging
        self._size = stored_bytes(matrix.layout)
        self._read_back: ReadBack | None = None
        if self._size > DIGESTED_HERE_BYTES:
            self._read_back = ReadBack(compiler, place.memory.address, self._size, staging.read_back_stream)
        # Behind all that used the memory which that was just given, and before anything that is launched later.
        self._computed = cupy.cuda.Event(disable_timing=True)
        self._computed.record()

    def begin(self) -> Self:
        with self._staging.download_stream as stream:
            stream.wait_event(self._computed)
            arrives = None if self._read_back is None else self._read_back.arrives
            download(self._matrix, self._place.memory.address, self._watch, arrives)
        return self

    def parts(self) -> bytes:
        """As `ReadBack.parts`. Waits for the copy."""
        if self._read_back is not None:
            return self._read_back.parts()
        self._watch.wait()
        return part_digests(as_bytes(self._place.elements), part_count(self._size))
