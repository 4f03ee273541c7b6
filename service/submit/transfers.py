"""Uploads that are opened, sent and completed: directly into the object store by a URL, or through the API in ranges.
For worker threads.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from pydantic import Field

from jobs.base import Strict
from jobs.errors import InvalidMatrix, InvalidRequest, WrongState
from jobs.formats.parser import check_shape
from jobs.matrices.file_store import FileMatrixStore
from jobs.matrices.interface import MatrixInfo
from jobs.matrices.ranged import upload as ranged
from jobs.matrices.ranged.complete import complete_upload
from jobs.matrices.ranged.upload import Ranged
from jobs.matrices.ranged.writer import RangeWriter
from jobs.matrices.s3_store import staged
from jobs.matrices.s3_store.staged import NoObjectStore
from jobs.matrices.s3_store.store import ObjectMatrixStore
from kernels.model.numerics import DTypeName
from service.context import Context
from service.http.ranges import parse_content_range
from service.submit.matrices import find_matrix


class UploadRequest(Strict):
    """The description of a matrix that the caller is going to send."""

    id: str | None = Field(
        None,
        description="sha256 of `<dtype>:<size>x<size>\\n` and the elements, little-endian and row-major, in hex: the "
        "contents must have it. It may be left out unless they go to an object store.",
        examples=["cf33700563fa0a8f8d3e9c616969986b6e3015b2e6fe7260cc35c5199045214e"],
    )
    dtype: DTypeName = Field(description="Element type.", examples=["float32"])
    shape: tuple[int, ...] = Field(description="Rows and columns, or batch, rows and columns.", examples=[[256, 512]])


class UploadView(Strict):
    """An upload that waits for its elements."""

    upload: str = Field(description="Id of the upload.", examples=["up_0123456789abcdef0123456789abcdef"])
    url: str = Field(
        description="PUT the elements here, and nothing else. A path of this API takes them in ranges, with your key; "
        "a URL into an object store takes them in one piece, and needs no key."
    )
    expires_at: datetime = Field(description="When it ends (UTC); of a path, unless ranges come.")
    bytes: int = Field(description="How many bytes have to be sent.", examples=[524288])


class UploadStatus(Strict):
    """The progress of an upload."""

    upload: str = Field(description="Id of the upload.", examples=["up_0123456789abcdef0123456789abcdef"])
    bytes: int = Field(description="How many bytes have to be sent.", examples=[524288])
    received: list[tuple[int, int]] = Field(
        description="What has come, in order: first byte, and the one after the last.", examples=[[[0, 524288]]]
    )
    expires_at: datetime = Field(description="When it ends unless more comes (UTC).")


class UrlView(Strict):
    """A URL from which the elements of a matrix can be fetched."""

    url: str = Field(description="GET the elements here, little-endian and row-major; ranges are answered.")
    expires_at: datetime = Field(description="When the URL ends (UTC).")
    bytes: int = Field(description="Size of the elements in bytes.", examples=[524288])
    dtype: DTypeName = Field(description="Element type.")
    shape: tuple[int, ...] = Field(description="Rows and columns, or batch, rows and columns.", examples=[[256, 512]])


def object_store(context: Context) -> ObjectMatrixStore:
    """Raises NoObjectStore."""
    if not isinstance(context.store, ObjectMatrixStore):
        raise NoObjectStore("This server's store gives no URLs; fetch the matrix at /v1/matrices/{id}.")
    return context.store


def file_store(context: Context) -> FileMatrixStore:
    """Raises NoObjectStore."""
    if not isinstance(context.store, FileMatrixStore):
        raise NoObjectStore("This server's store takes no uploads in ranges; send the matrix to /v1/matrices.")
    return context.store


def _shape_of(asked: UploadRequest) -> tuple[int, ...]:
    """Raises InvalidMatrix."""
    try:
        return check_shape(asked.dtype, asked.shape)
    except InvalidMatrix as error:
        error.field = "shape"
        raise


def open_upload(context: Context, asked: UploadRequest, *, owner: str) -> UploadView:
    """Raises NoObjectStore, InvalidMatrix, InvalidRequest, BodyTooLarge, StoreFull."""
    shape, cell = _shape_of(asked), context.settings.cell_digits
    if not isinstance(context.store, ObjectMatrixStore):
        here = ranged.open_upload(file_store(context), asked.id, asked.dtype, shape, owner=owner, cell=cell)
        return _view_here(here)
    if asked.id is None:
        raise InvalidRequest("This server keeps matrices in an object store: say the matrix's id.", field="id")
    url_ttl_s = float(context.settings.s3_url_ttl_s)
    upload = staged.open_upload(
        context.store, asked.id, asked.dtype, shape, owner=owner, url_ttl_s=url_ttl_s, cell=cell
    )
    return _view(upload.id, upload.url, upload.expires_at, upload.bytes)


def reopen_upload(context: Context, upload: str, *, owner: str) -> UploadView:
    """The open upload, with a new URL if it goes to an object store. Raises NoObjectStore, MatrixNotFound."""
    if not isinstance(context.store, ObjectMatrixStore):
        return _view_here(ranged.find_upload(file_store(context), upload, owner=owner))
    again = staged.reopened(context.store, upload, owner=owner, url_ttl_s=float(context.settings.s3_url_ttl_s))
    return _view(again.id, again.url, again.expires_at, again.bytes)


def _view_here(upload: Ranged) -> UploadView:
    return _view(upload.id, f"/v1/uploads/{upload.id}", upload.matrix.expires_at, upload.bytes)


def _view(upload: str, url: str, expires_at: float, size: int) -> UploadView:
    return UploadView(upload=upload, url=url, expires_at=datetime.fromtimestamp(expires_at, UTC), bytes=size)


def status_of(context: Context, upload: str, *, owner: str) -> UploadStatus:
    """Raises NoObjectStore, MatrixNotFound."""
    if isinstance(context.store, ObjectMatrixStore):
        info, is_sent = staged.sent(context.store, upload, owner=owner)
        received = [(0, info.bytes)] if is_sent else []
    else:
        found = ranged.find_upload(file_store(context), upload, owner=owner)
        info, received = found.matrix, ranged.received(file_store(context), found)
    expires_at = datetime.fromtimestamp(info.expires_at, UTC)
    return UploadStatus(upload=upload, bytes=info.bytes, received=received, expires_at=expires_at)


def range_writer(context: Context, upload: str, content_range: str | None, *, owner: str) -> RangeWriter:
    """A writer for the bytes in a Content-Range; without one, for all bytes. Raises NoObjectStore, MatrixNotFound,
    InvalidHeader, and as RangeWriter."""
    if isinstance(context.store, ObjectMatrixStore):
        raise WrongState("This upload goes to the URL that it was opened with, not to this API.")
    store = file_store(context)
    found = ranged.find_upload(store, upload, owner=owner, renews=True)
    first, after = parse_content_range(content_range, found.bytes)
    return RangeWriter(store, found, owner, first, after)


def complete(context: Context, upload: str, *, owner: str) -> MatrixInfo:
    """Completes an upload. Raises NoObjectStore, and as both versions of `complete_upload`."""
    ttl_s = float(context.settings.matrix_ttl_s)
    if isinstance(context.store, ObjectMatrixStore):
        return staged.complete_upload(context.store, upload, owner=owner, ttl_s=ttl_s)
    return complete_upload(file_store(context), upload, owner=owner, ttl_s=ttl_s)


def given_up(context: Context, upload: str, *, owner: str) -> None:
    """Raises NoObjectStore, MatrixNotFound."""
    if isinstance(context.store, ObjectMatrixStore):
        staged.give_up(context.store, upload, owner=owner)
    else:
        ranged.give_up(file_store(context), upload, owner=owner)


def url_of(context: Context, matrix_id: str, *, owner: str) -> UrlView:
    """Raises NoObjectStore, MatrixNotFound, WrongState for a small product."""
    store, for_s = object_store(context), float(context.settings.s3_url_ttl_s)
    info, packed = find_matrix(context, matrix_id, owner=owner)
    if packed is not None:
        raise WrongState("This product is small, so it is kept with its job; fetch it at /v1/matrices/{id}.")
    expires_at = datetime.fromtimestamp(time.time() + for_s, UTC)
    url = store.url(matrix_id, for_s)
    return UrlView(url=url, expires_at=expires_at, bytes=info.bytes, dtype=info.dtype, shape=info.shape)
