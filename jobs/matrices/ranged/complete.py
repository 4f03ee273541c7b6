"""Completes an upload that was sent in ranges: its file is read once, and becomes the matrix. First the file gets the
matrix's name, so that no further range can be written to it. If a process fails or dies while it completes an upload,
the next one finds the file under that name and continues.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass

from jobs.disk import translated_disk, write_all
from jobs.errors import DigestMismatch, MatrixNotFound
from jobs.matrices.file_lock import EXCLUSIVE, LockedFile
from jobs.matrices.file_store import FileMatrixStore, FileWriter
from jobs.matrices.index import Claim
from jobs.matrices.interface import READ_CHUNK_BYTES, MatrixInfo
from jobs.matrices.ranged.upload import (
    RENEW_S,
    Ranged,
    find_upload,
    give_up,
    locked,
    locked_at,
    moved_to,
    notes_of,
    random_part,
    runs,
)
from jobs.matrices.s3_store.staged import UploadNotSent
from jobs.matrices.slot_format import MIN_SLOT_BYTES, label, slot_length
from jobs.matrices.slots import Slot

BUSY = "A range of this upload is still coming in; complete it once every range has been answered."


@dataclass(frozen=True, slots=True)
class _Whole:
    """An upload of which all bytes have arrived."""

    upload: Ranged
    path: str
    file: LockedFile
    expected_id: str | None


def complete_upload(store: FileMatrixStore, name: str, *, owner: str, ttl_s: float) -> MatrixInfo:
    """Makes the matrix readable under the sha256 of its contents. Raises MatrixNotFound; UploadNotSent, WrongState,
    StoreFull and StoreUnavailable, after which the upload stays open; DigestMismatch, which ends it.
    """
    upload = find_upload(store, name, owner=owner, renews=True)
    try:
        path = moved_to(store, upload)
        if path is None:
            path = store.path(upload.id)
            file = locked(store, upload, EXCLUSIVE, BUSY)
        else:
            file = locked_at(path, EXCLUSIVE, BUSY)
        try:
            whole = _Whole(upload, path, file, _expected(store, upload, owner, path, file))
            return _stored(store, whole, owner, ttl_s)
        finally:
            file.close()
    except (DigestMismatch, MatrixNotFound):  # the latter: its file is gone, because the store was wiped
        with suppress(MatrixNotFound):
            give_up(store, name, owner=owner)
        raise


def _expected(store: FileMatrixStore, upload: Ranged, owner: str, path: str, file: LockedFile) -> str | None:
    """The id that the contents must have. Raises UploadNotSent if some bytes have not arrived; MatrixNotFound if
    another process has just completed the upload.
    """
    if path != store.path(upload.id):
        find_upload(store, upload.id, owner=owner)
        return os.path.basename(path).partition(".")[0]
    with translated_disk():
        expected, came = notes_of(file, upload)
    if missing := list(runs(came, b"\0", upload.bytes)):
        raise _not_sent(missing)
    return expected


def _not_sent(missing: list[tuple[int, int]]) -> UploadNotSent:
    first, after = missing[0]
    others = f", and {len(missing) - 1} more ranges" if len(missing) > 1 else ""
    return UploadNotSent(f"Bytes {first} to {after - 1} of this upload have not come{others}; send them first.")


def _stored(store: FileMatrixStore, whole: _Whole, owner: str, ttl_s: float) -> MatrixInfo:
    upload, fd, renewed_s = whole.upload, whole.file.fd, time.monotonic()
    with _Assembled(store, whole, owner, ttl_s) as writer:
        for at in range(0, upload.bytes, READ_CHUNK_BYTES):
            if time.monotonic() - renewed_s >= RENEW_S:
                renewed_s = time.monotonic()
                find_upload(store, upload.id, owner=owner, renews=True)
            with translated_disk():
                piece = os.pread(fd, min(READ_CHUNK_BYTES, upload.bytes - at), at)
            writer.write(piece)
        return writer.commit()


class _Assembled(FileWriter):
    """A writer whose elements are already in its file."""

    def __init__(self, store: FileMatrixStore, whole: _Whole, owner: str, ttl_s: float) -> None:
        self._whole, matrix = whole, whole.upload.matrix
        claim = Claim(whole.upload.id, whole.upload.id, matrix.dtype, matrix.shape, owner, ttl_s)
        super().__init__(store, claim, whole.expected_id, None)
        self._random = random_part(whole.upload)

    def _reserve(self) -> MatrixInfo:
        return self._whole.upload.matrix  # it has its room

    def _begin(self) -> None:
        return

    def _put(self, view: memoryview) -> None:
        return

    def _settle(self, matrix_id: str, parts: bytes) -> str:
        data, size, file = self._data_name(matrix_id), self._whole.upload.bytes, self._whole.file
        path, fd = self._files.path(data), file.fd
        with translated_disk():
            os.utime(fd)  # the sweep goes by it
            os.rename(self._whole.path, path)
            os.lseek(fd, size, os.SEEK_SET)
            write_all(fd, parts, self._files.make_room)  # over the notes
            if size < MIN_SLOT_BYTES:
                os.ftruncate(fd, size + len(parts))
            else:
                slot = Slot(self._files.slots, file, path, slot_length(size), is_whole=False)
                slot.publish(path, size, label(matrix_id, parts))
            self._files.sync(data)
        return data

    def abort(self) -> None:
        """The upload keeps its space and its file, for another try."""
        self._is_open = False
