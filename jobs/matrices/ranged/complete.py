"""The end of an upload that came in ranges: what came is read through once, and its file becomes the matrix."""

from __future__ import annotations

import os
from contextlib import suppress

from jobs.disk import translated_disk
from jobs.errors import DigestMismatch, MatrixNotFound
from jobs.matrices.file_lock import EXCLUSIVE, LockedFile
from jobs.matrices.file_store import FileMatrixStore, FileWriter
from jobs.matrices.index import Claim
from jobs.matrices.interface import READ_CHUNK_BYTES, MatrixInfo
from jobs.matrices.objects.staged import UploadNotSent
from jobs.matrices.ranged.upload import Ranged, find_upload, give_up, locked, notes_of, runs
from jobs.matrices.slot_format import MIN_SLOT_BYTES, slot_length
from jobs.matrices.slots import Slot


def complete_upload(store: FileMatrixStore, name: str, *, owner: str, ttl_s: float) -> MatrixInfo:
    """Makes it readable under the sha256 of what came. Raises MatrixNotFound; UploadNotSent and WrongState, after which
    it goes on; DigestMismatch, which ends it; StoreUnavailable."""
    upload = find_upload(store, name, owner=owner, renews=True)
    busy = "A range of this upload is still coming in; complete it once every range has been answered."
    try:
        file = locked(store, upload, EXCLUSIVE, busy)
        try:
            with translated_disk():
                expected, came = notes_of(file, upload)
            if missing := list(runs(came, b"\0", upload.bytes)):
                raise _not_sent(missing)
            return _stored(store, upload, file, owner, ttl_s, expected)
        finally:
            file.close()
    except (DigestMismatch, MatrixNotFound):  # the latter: its file is gone, with a store that was wiped
        with suppress(MatrixNotFound):
            give_up(store, name, owner=owner)
        raise


def _not_sent(missing: list[tuple[int, int]]) -> UploadNotSent:
    first, after = missing[0]
    others = f", and {len(missing) - 1} more ranges" if len(missing) > 1 else ""
    return UploadNotSent(f"Bytes {first} to {after - 1} of this upload have not come{others}; send them first.")


def _stored(
    store: FileMatrixStore, upload: Ranged, file: LockedFile, owner: str, ttl_s: float, expected: str | None
) -> MatrixInfo:
    matrix = upload.matrix
    if upload.bytes < MIN_SLOT_BYTES:  # cheaper copied than moved
        with store.create(matrix.dtype, matrix.shape, owner=owner, ttl_s=ttl_s, expected_id=expected) as small:
            small.write(os.pread(file.fd, upload.bytes, 0))
            info = small.commit()
        with suppress(MatrixNotFound):  # it has just ended
            give_up(store, upload.id, owner=owner)
        return info
    slot = Slot(store.slots, file, store.path(upload.id), slot_length(upload.bytes), is_whole=False)
    claim = Claim(upload.id, upload.id, matrix.dtype, matrix.shape, owner, ttl_s)
    with _Assembled(store, claim, expected, slot) as writer:
        for at in range(0, upload.bytes, READ_CHUNK_BYTES):
            with translated_disk():
                piece = os.pread(file.fd, min(READ_CHUNK_BYTES, upload.bytes - at), at)
            writer.write(piece)
        return writer.commit()


class _Assembled(FileWriter):
    """Stores what lies in its slot already."""

    def __init__(self, store: FileMatrixStore, claim: Claim, expected_id: str | None, slot: Slot) -> None:
        self._slot = slot
        super().__init__(store, claim, expected_id, None)

    def _begin(self) -> None:
        self._file = self._slot

    def _put(self, view: memoryview) -> None:
        return

    def abort(self) -> None:
        """The upload keeps its room, for another try."""
        self._is_open = False
