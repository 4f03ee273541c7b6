"""Uploads that bypass the API: a caller puts the elements into the bucket by a signed URL, and then completes the
upload. The URL is valid only for `uploads/<name>`, which no reader uses, and only for a body of the announced size
(`Bucket.sign_put` says where it is not; then `removal.py` removes what is larger). Completing copies that object to a
new key without a signed URL, reads all of it, and makes it readable only if size and contents are as announced.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass

from jobs.errors import BodyTooLarge, DigestMismatch, InvalidMatrix, InvalidRequest, MatmulError, MatrixNotFound
from jobs.formats.elements import matrix_bytes
from jobs.matrices.index import Claim
from jobs.matrices.indexed_store import UPLOAD, UPLOAD_LEASE_S, is_address
from jobs.matrices.interface import MatrixInfo
from jobs.matrices.s3_store.removal import RANDOM
from jobs.matrices.s3_store.store import ObjectMatrixStore, ObjectWriter
from jobs.matrices.s3_store.transfer import elements_key, ordered_pieces, staged_key
from jobs.models import new_id
from kernels.model.numerics import DTypeName

MAX_PUT_BYTES = 5 << 30  # of S3, for one PUT and one copy
_UPLOAD = re.compile(r"up_[0-9a-f]{32}")


class UploadNotSent(MatmulError):
    """Nothing was sent to this upload's URL yet; send the elements there first."""

    type = "upload_not_sent"


class NoObjectStore(MatmulError):
    """This server's store has no such uploads or URLs; send and fetch matrices at /v1/matrices."""

    type = "no_object_store"


@dataclass(frozen=True, slots=True)
class Opened:
    """An open upload."""

    id: str
    url: str
    expires_at: float  # seconds since the epoch
    bytes: int


def open_upload(
    store: ObjectMatrixStore,
    matrix_id: str,
    dtype: DTypeName,
    shape: tuple[int, ...],
    *,
    owner: str,
    url_ttl_s: float,
    cell: str = "",
) -> Opened:
    """Opens an upload and reserves space for it. Raises InvalidRequest, BodyTooLarge, StoreFull, StoreUnavailable."""
    if not is_address(matrix_id):
        raise InvalidRequest(
            "The id of a matrix is the sha256 of its dtype, shape and contents: 64 hex digits.", field="id"
        )
    size = matrix_bytes(dtype, shape)
    if size > min(store.max_matrix_bytes, MAX_PUT_BYTES):
        max_bytes = min(store.max_matrix_bytes, MAX_PUT_BYTES)
        raise BodyTooLarge(f"The matrix has {size} bytes; {max_bytes} are the most that one URL takes.", field="shape")
    upload = new_id("up", cell)
    data = f"{matrix_id}.{RANDOM}{upload.removeprefix(UPLOAD)}"
    store.index.claim(Claim(upload, data, dtype, shape, owner, url_ttl_s + UPLOAD_LEASE_S))
    url = store.bucket.sign_put(staged_key(data), size, url_ttl_s)
    return Opened(upload, url, time.time() + url_ttl_s, size)


def reopened(store: ObjectMatrixStore, upload: str, *, owner: str, url_ttl_s: float) -> Opened:
    """The same upload with a new URL. Raises MatrixNotFound, StoreUnavailable."""
    info, data = _opened(store, upload, owner)
    url = store.bucket.sign_put(staged_key(data), info.bytes, url_ttl_s)
    return Opened(upload, url, time.time() + url_ttl_s, info.bytes)


def sent(store: ObjectMatrixStore, upload: str, *, owner: str) -> tuple[MatrixInfo, bool]:
    """The announced matrix, and whether that many bytes were sent. Raises MatrixNotFound, StoreUnavailable."""
    info, data = _opened(store, upload, owner)
    try:
        return info, store.bucket.size(staged_key(data)) == info.bytes
    except MatrixNotFound:
        return info, False


def complete_upload(store: ObjectMatrixStore, upload: str, *, owner: str, ttl_s: float) -> MatrixInfo:
    """Makes it readable. Raises MatrixNotFound for an upload that the owner has not opened, UploadNotSent,
    InvalidMatrix and DigestMismatch, which end it, and StoreUnavailable, after which it can be tried again."""
    info, data = _opened(store, upload, owner)
    try:
        sent_bytes = store.bucket.size(staged_key(data))
    except MatrixNotFound:
        raise UploadNotSent from None
    if sent_bytes != info.bytes:
        raise _given_up_for_size(store, upload, owner, sent_bytes, info.bytes)
    matrix_id = data.partition(".")[0]
    kept = f"{matrix_id}.{new_id('w')}"  # this completion's alone: another one may have verified what was sent before
    store.bucket.copy(staged_key(data), elements_key(kept), info.bytes)
    copied_bytes = store.bucket.size(elements_key(kept))
    if copied_bytes != info.bytes:  # something else was sent after the first look
        store.removal.remove([elements_key(kept)])
        raise _given_up_for_size(store, upload, owner, copied_bytes, info.bytes)
    claim = Claim(upload, data, info.dtype, info.shape, owner, ttl_s)
    try:
        stored = _read_through(store, claim, matrix_id, kept)
    except DigestMismatch:
        store.removal.remove([elements_key(kept)])
        with suppress(MatrixNotFound):
            give_up(store, upload, owner=owner)
        raise
    store.forget_staged(data)
    return stored


def _given_up_for_size(
    store: ObjectMatrixStore, upload: str, owner: str, sent_bytes: int, want_bytes: int
) -> InvalidMatrix:
    with suppress(MatrixNotFound):
        give_up(store, upload, owner=owner)
    return InvalidMatrix(f"{sent_bytes} bytes were sent; the matrix's shape has {want_bytes}.")


def _read_through(store: ObjectMatrixStore, claim: Claim, matrix_id: str, kept: str) -> MatrixInfo:
    with ObjectWriter(store, claim, matrix_id, None, staged=kept) as writer:
        for piece in ordered_pieces(store.bucket, elements_key(kept), claim.bytes):
            writer.write(piece)
        return writer.commit()


def give_up(store: ObjectMatrixStore, upload: str, *, owner: str) -> None:
    """Raises MatrixNotFound, StoreUnavailable."""
    _opened(store, upload, owner)
    orphan = store.index.release(upload, owner)
    if orphan is not None:
        store.remove(orphan)


def _opened(store: ObjectMatrixStore, upload: str, owner: str) -> tuple[MatrixInfo, str]:
    if _UPLOAD.fullmatch(upload) is None:
        raise MatrixNotFound("There is no upload with that id, perhaps because it has expired; open another one.")
    data = store.index.elements(upload).data
    if "." not in data:
        raise MatrixNotFound("That upload came to the API itself.")
    return store.index.find(upload, owner), data
