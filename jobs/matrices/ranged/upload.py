"""Uploads that are sent in ranges, over several connections and in any order, into one file of the `file` store.

The file's name is the upload's id, so it lives as long as the upload's claim, which every range extends. After the
elements, where their digests will be, it has notes: the expected id of the contents, and a byte for each block of
BLOCK_BYTES that has arrived. Writers of ranges hold a shared lock on the file; completing it takes an exclusive one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from jobs.disk import translated_disk
from jobs.errors import BodyTooLarge, InvalidRequest, MatrixNotFound, WrongState
from jobs.matrices.file_lock import LockedFile, open_file, open_locked
from jobs.matrices.file_store import FileMatrixStore
from jobs.matrices.index import Claim
from jobs.matrices.indexed_store import is_address
from jobs.matrices.interface import MatrixInfo
from jobs.matrices.plain_file import PlainFile
from jobs.matrices.slot_format import MIN_SLOT_BYTES
from jobs.models import new_id
from kernels.model.numerics import DTypeName

BLOCK_BYTES = 1 << 20  # ranges begin and end at multiples of it
IDLE_S = 600.0  # an upload that receives no range for this long has ended
RENEW_S = 60.0  # interval at which work on an upload extends its expiry
ANY = b" " * 64  # in place of an expected id
_UPLOAD = re.compile(r"up_[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Ranged:
    """An upload that ranges can be sent to."""

    id: str
    matrix: MatrixInfo  # as it will be; its id is the upload's

    @property
    def bytes(self) -> int:
        return self.matrix.bytes

    @property
    def blocks(self) -> int:
        return -(-self.bytes // BLOCK_BYTES)


def open_upload(
    store: FileMatrixStore,
    matrix_id: str | None,
    dtype: DTypeName,
    shape: tuple[int, ...],
    *,
    owner: str,
    cell: str = "",
) -> Ranged:
    """Opens an upload and reserves space for all of it. `matrix_id` is the id that the contents must have; None allows
    any contents. Raises InvalidRequest, BodyTooLarge, StoreFull, StoreUnavailable.
    """
    if matrix_id is not None and not is_address(matrix_id):
        raise InvalidRequest(
            "The id of a matrix is the sha256 of its dtype, shape and contents: 64 hex digits.", field="id"
        )
    name = new_id("up", cell)
    claim = Claim(name, name, dtype, shape, owner, IDLE_S)
    if claim.bytes > store.max_matrix_bytes:
        most = store.max_matrix_bytes
        raise BodyTooLarge(f"The matrix has {claim.bytes} bytes; {most} are the most taken here.", field="shape")
    upload = Ranged(name, store.index.claim(claim)[0])
    try:
        _make(store, upload, ANY if matrix_id is None else matrix_id.encode())
    except BaseException:
        store.index.release(name, owner)
        raise
    return upload


def _make(store: FileMatrixStore, upload: Ranged, expected: bytes) -> None:
    path, notes = store.path(upload.id), expected + bytes(upload.blocks)
    file = store.in_directory(lambda: _new_file(store, upload.bytes, path))
    with translated_disk():
        os.pwrite(file.fd, notes, upload.bytes)  # a slot has more room for digests
    file.close()


def _new_file(store: FileMatrixStore, size: int, path: str) -> LockedFile:
    """A new file of that name, as a slot if it is large enough, also in a store that keeps no free slots."""
    slot = store.slot(size, is_whole=False)
    with translated_disk():
        if slot is not None:
            os.rename(slot.path, path)
        elif size >= MIN_SLOT_BYTES:
            slot = store.slots.make(size, path, is_whole=False)
        return PlainFile(path).file if slot is None else slot.file


def find_upload(store: FileMatrixStore, name: str, *, owner: str, renews: bool = False) -> Ranged:
    """The open upload of that name. With `renews` its expiry is extended. Raises MatrixNotFound, StoreUnavailable."""
    if _UPLOAD.fullmatch(name) is None:
        raise gone()
    try:
        found = store.index.touch(name, owner, IDLE_S) if renews else store.index.find(name, owner)
    except MatrixNotFound:
        raise gone() from None
    return Ranged(name, found)


def gone() -> MatrixNotFound:
    return MatrixNotFound("There is no upload with that id, perhaps because it has expired; open another one.")


def received(store: FileMatrixStore, upload: Ranged) -> list[tuple[int, int]]:
    """The ranges that have arrived, in order: first byte, and the one after the last. Raises MatrixNotFound,
    StoreUnavailable.
    """
    with translated_disk():
        if moved_to(store, upload) is not None:
            came = b"\1" * upload.blocks
        elif (file := open_file(store.path(upload.id), os.O_RDONLY)) is not None:
            came = notes_of(file, upload)[1]
            file.close()
        else:
            raise gone()
    return list(runs(came, b"\1", upload.bytes))


def notes_of(file: LockedFile, upload: Ranged) -> tuple[str | None, bytes]:
    """The expected id, and a byte for each block. Raises MatrixNotFound if the file has no valid notes, OSError."""
    said = os.pread(file.fd, len(ANY) + upload.blocks, upload.bytes)
    expected, came = said[: len(ANY)].decode("latin-1"), said[len(ANY) :]
    is_any = expected.encode("latin-1") == ANY
    if not (is_any or is_address(expected)) or came.strip(b"\0\1") or len(came) != upload.blocks:
        raise gone()
    return None if is_any else expected, came


def runs(came: bytes, wanted: bytes, size: int) -> Iterator[tuple[int, int]]:
    for run in re.finditer(re.escape(wanted) + b"+", came):
        yield run.start() * BLOCK_BYTES, min(size, run.end() * BLOCK_BYTES)


def locked(store: FileMatrixStore, upload: Ranged, kind: int, busy: str) -> LockedFile:
    """The upload's file, locked. Raises WrongState while another process has a conflicting lock or is completing it;
    MatrixNotFound.
    """
    try:
        return locked_at(store.path(upload.id), kind, busy)
    except MatrixNotFound:
        if moved_to(store, upload) is not None:
            raise WrongState(busy) from None
        raise


def locked_at(path: str, kind: int, busy: str) -> LockedFile:
    with translated_disk():
        file = open_locked(path, kind)
    if file is not None:
        return file
    if os.path.exists(path):
        raise WrongState(busy)
    raise gone()


def random_part(upload: Ranged) -> str:
    """The random part of the name that the file has as a matrix."""
    return f"w_{upload.id.removeprefix('up_')}"


def moved_to(store: FileMatrixStore, upload: Ranged) -> str | None:
    """The path of the file if completing the upload has begun; otherwise None."""
    if os.path.exists(store.path(upload.id)):
        return None
    end = f".{random_part(upload)}"
    with translated_disk(), suppress(FileNotFoundError):  # of a store that was wiped
        return next((store.path(name) for name in os.listdir(store.directory) if name.endswith(end)), None)
    return None


def give_up(store: FileMatrixStore, name: str, *, owner: str) -> None:
    """Raises MatrixNotFound, StoreUnavailable."""
    if _UPLOAD.fullmatch(name) is None:
        raise gone()
    try:
        orphan = store.index.release(name, owner)
    except MatrixNotFound:
        raise gone() from None
    if orphan is not None:
        store.remove(orphan)
