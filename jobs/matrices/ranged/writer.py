"""Writes the bytes of one range of an upload into its file."""

from __future__ import annotations

import os
import time

from jobs.disk import translated_disk
from jobs.errors import InvalidMatrix, InvalidRequest
from jobs.matrices.file_lock import SHARED
from jobs.matrices.file_store import FileMatrixStore
from jobs.matrices.ranged.upload import ANY, BLOCK_BYTES, RENEW_S, Ranged, find_upload, locked

RENEW_BYTES = 64 << 20  # bytes of a range after which the upload's expiry is extended again


class RangeWriter:
    """Takes the bytes of one range in order. If it is interrupted, the complete blocks that arrived need not be sent
    again. Raises InvalidRequest for a range that does not fit the upload, MatrixNotFound, WrongState while the upload
    is being completed, StoreFull, StoreUnavailable.
    """

    def __init__(self, store: FileMatrixStore, upload: Ranged, owner: str, first: int, after: int) -> None:
        is_inside = 0 <= first < after <= upload.bytes
        if not is_inside or first % BLOCK_BYTES or (after % BLOCK_BYTES and after < upload.bytes):
            raise InvalidRequest(
                f"A range of this upload begins and ends at a multiple of {BLOCK_BYTES} bytes, or at its end, "
                f"{upload.bytes}.",
                field="Content-Range",
            )
        self._store, self._upload, self._owner = store, upload, owner
        self._at, self._after = first, after
        self._marked = first // BLOCK_BYTES  # blocks before this one are marked as received
        self._renewed_at, self._renewed_s = first, time.monotonic()
        self._file = locked(store, upload, SHARED, "This upload is being completed; it takes no more ranges.")

    @property
    def left_bytes(self) -> int:
        return self._after - self._at

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Writes the next bytes. Raises InvalidMatrix if there are more than the range has."""
        view = memoryview(data).cast("B")
        if view.nbytes > self.left_bytes:
            raise InvalidMatrix("More bytes came than the range has.")
        while view.nbytes:
            with translated_disk():
                try:
                    done = os.pwrite(self._file.fd, view, self._at)
                except OSError:
                    if not self._store.make_room():
                        raise
                    continue
            view, self._at = view[done:], self._at + done
        self._mark()
        now_s = time.monotonic()
        if self._at - self._renewed_at >= RENEW_BYTES or now_s - self._renewed_s >= RENEW_S:
            self._renewed_at, self._renewed_s = self._at, now_s
            find_upload(self._store, self._upload.id, owner=self._owner, renews=True)

    def _mark(self) -> None:
        whole = self._upload.blocks if self._at == self._upload.bytes else self._at // BLOCK_BYTES
        if whole > self._marked:
            with translated_disk():
                os.pwrite(self._file.fd, b"\1" * (whole - self._marked), self._upload.bytes + len(ANY) + self._marked)
            self._marked = whole

    def finish(self) -> None:
        """Ends the range. Raises InvalidMatrix if bytes are missing."""
        if self.left_bytes:
            raise InvalidMatrix(f"{self.left_bytes} bytes of the range are missing.")

    def close(self) -> None:
        self._file.close()
