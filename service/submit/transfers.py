"""Matrices that bypass the API: what a caller is told of a URL into the object store. For worker threads."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from pydantic import Field

from jobs.base import Strict
from jobs.errors import WrongState
from jobs.formats.parser import check_shape
from jobs.matrices.interface import MatrixInfo
from jobs.matrices.objects.staged import NoObjectStore, complete_upload, give_up, open_upload, reopened
from jobs.matrices.objects.store import ObjectMatrixStore
from kernels.model.numerics import DTypeName
from service.context import Context
from service.submit.matrices import find_matrix


class UploadRequest(Strict):
    """A matrix that the caller is going to send to the object store itself."""

    id: str = Field(
        description="sha256 of `<dtype>:<size>x<size>\\n` and the elements, little-endian and row-major, in hex.",
        examples=["5f2b51ca1b0d8c6f9bd7d5b1f1e9a9a0c6b7f2d3e4f5061728394a5b6c7d8e9f"],
    )
    dtype: DTypeName = Field(description="Element type.", examples=["float32"])
    shape: tuple[int, ...] = Field(description="Rows and columns, or batch, rows and columns.", examples=[[256, 512]])


class UploadView(Strict):
    """An upload that waits for its elements."""

    upload: str = Field(description="Id of the upload.", examples=["up_0123456789abcdef0123456789abcdef"])
    url: str = Field(description="PUT the elements here, and nothing else; no key is needed.")
    expires_at: datetime = Field(description="When the URL ends (UTC).")
    bytes: int = Field(description="How many bytes have to be sent.", examples=[524288])


class UrlView(Strict):
    """Where the elements of a matrix can be fetched."""

    url: str = Field(description="GET the elements here, little-endian and row-major; ranges are answered.")
    expires_at: datetime = Field(description="When the URL ends (UTC).")
    bytes: int = Field(description="Size of the elements in bytes.", examples=[524288])
    dtype: DTypeName = Field(description="Element type.")
    shape: tuple[int, ...] = Field(description="Rows and columns, or batch, rows and columns.", examples=[[256, 512]])


def object_store(context: Context) -> ObjectMatrixStore:
    """Raises NoObjectStore."""
    if not isinstance(context.store, ObjectMatrixStore):
        raise NoObjectStore
    return context.store


def opened(context: Context, asked: UploadRequest, *, owner: str) -> UploadView:
    """Raises NoObjectStore, InvalidMatrix, InvalidRequest, BodyTooLarge, StoreFull."""
    store = object_store(context)
    shape = check_shape(asked.dtype, asked.shape)
    url_ttl_s, cell = float(context.settings.s3_url_ttl_s), context.settings.cell_digits
    upload = open_upload(store, asked.id, asked.dtype, shape, owner=owner, url_ttl_s=url_ttl_s, cell=cell)
    return _view(upload.id, upload.url, upload.expires_at, upload.bytes)


def opened_again(context: Context, upload: str, *, owner: str) -> UploadView:
    """With a new URL. Raises NoObjectStore, MatrixNotFound."""
    again = reopened(object_store(context), upload, owner=owner, url_ttl_s=float(context.settings.s3_url_ttl_s))
    return _view(again.id, again.url, again.expires_at, again.bytes)


def _view(upload: str, url: str, expires_at: float, size: int) -> UploadView:
    return UploadView(upload=upload, url=url, expires_at=datetime.fromtimestamp(expires_at, UTC), bytes=size)


def completed(context: Context, upload: str, *, owner: str) -> MatrixInfo:
    """Raises as `complete_upload`, and NoObjectStore."""
    return complete_upload(object_store(context), upload, owner=owner, ttl_s=float(context.settings.matrix_ttl_s))


def given_up(context: Context, upload: str, *, owner: str) -> None:
    """Raises NoObjectStore, MatrixNotFound."""
    give_up(object_store(context), upload, owner=owner)


def url_of(context: Context, matrix_id: str, *, owner: str) -> UrlView:
    """Raises NoObjectStore, MatrixNotFound, WrongState for a small product."""
    store, for_s = object_store(context), float(context.settings.s3_url_ttl_s)
    info, packed = find_matrix(context, matrix_id, owner=owner)
    if packed is not None:
        raise WrongState("This product is small, so it is kept with its job; fetch it at /v1/matrices/{id}.")
    expires_at = datetime.fromtimestamp(time.time() + for_s, UTC)
    url = store.url(matrix_id, for_s)
    return UrlView(url=url, expires_at=expires_at, bytes=info.bytes, dtype=info.dtype, shape=info.shape)
