"""A stored matrix as bytes of a media type: a header of its format, then the elements as they are stored.

Nothing is assembled in memory: each range of this virtual file is read from the store when it is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from anyio import CancelScope
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from jobs.errors import MatrixDamaged
from jobs.formats.elements import Array, matrix_bytes
from jobs.formats.npy import npy_header
from jobs.formats.safetensors import safetensors_header
from jobs.matrices.packed import PackedMatrix
from kernels.model.numerics import DTypeName
from service.api_process.in_thread import in_thread
from service.context import Context
from service.http.conditions import check_match, none_match, range_applies
from service.http.damage import damage_reported
from service.http.listed import listed, sole
from service.http.negotiation import NPY, OCTETS, SAFETENSORS
from service.http.ranges import parse_range

WHOLE_BYTES = 1 << 20  # a representation up to this size is sent in one piece
CHECKED_BYTES = 4 << 20  # bytes of a larger one that are compared with their digests before the answer begins


def etag_of(matrix_id: str, media_type: str) -> str:
    """Strong: the contents of an id never change."""
    return f'"{matrix_id}.{media_type.rpartition("/")[2]}"'


@dataclass(frozen=True, slots=True)
class StoredElements:
    """The stored elements of a matrix to be sent; its owner has been checked. `packed`: the matrix itself, if it comes
    from a job's record.
    """

    id: str
    dtype: DTypeName
    shape: tuple[int, ...]
    packed: PackedMatrix | None = None

    def chunks(self, context: Context, start: int, stop: int, *, grows: bool = True) -> Iterator[memoryview]:
        """The bytes of the elements from `start` to `stop`; `grows` as of `MatrixStore.chunks`.

        Raises MatrixNotFound, MatrixDamaged."""
        with damage_reported(context, self.id):
            if self.packed is not None:
                yield self.packed.verified()[start:stop]
            else:
                size = matrix_bytes(self.dtype, self.shape)
                yield from context.store.chunks(self.id, size, start, stop, grows=grows)

    def whole(self, context: Context) -> memoryview | None:
        """All bytes, if the store has them in one buffer (`MatrixStore.whole`). Raises as that does."""
        if self.packed is not None:
            return None
        with damage_reported(context, self.id):
            return context.store.whole(self.id, matrix_bytes(self.dtype, self.shape))

    def check(self, context: Context, start: int, stop: int) -> None:
        """Reads the first bytes and discards them. Raises MatrixNotFound, MatrixDamaged."""
        if self.packed is None and start < stop:
            for _ in self.chunks(context, start, min(stop, start + CHECKED_BYTES), grows=False):
                pass

    def load(self, context: Context) -> Array:
        """The whole matrix in memory. Raises MatrixNotFound, MatrixDamaged."""
        with damage_reported(context, self.id):
            if self.packed is None:
                return context.store.load(self.id, self.dtype, self.shape)
            self.packed.verified()
            return self.packed.elements(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class Representation:
    """A matrix in the format of a media type."""

    matrix: StoredElements
    media_type: str
    head: bytes

    @property
    def total_bytes(self) -> int:
        return len(self.head) + matrix_bytes(self.matrix.dtype, self.matrix.shape)

    @property
    def etag(self) -> str:
        return etag_of(self.matrix.id, self.media_type)

    @property
    def headers(self) -> dict[str, str]:
        shape = ",".join(map(str, self.matrix.shape))
        return {"x-matmul-dtype": self.matrix.dtype, "x-matmul-shape": shape}

    def check(self, context: Context, start: int, stop: int) -> None:
        """Checks that the first of these elements can be sent. Raises MatrixNotFound, MatrixDamaged."""
        self.matrix.check(context, max(0, start - len(self.head)), stop - len(self.head))

    def pieces(self, context: Context, start: int, stop: int, *, grows: bool = True) -> Iterator[bytes | memoryview]:
        """The bytes from `start` to `stop`, as `StoredElements.chunks` gives and raises."""
        head_bytes = len(self.head)
        if start < head_bytes:
            yield self.head[start:stop]
        if stop > head_bytes:
            yield from self.matrix.chunks(context, max(0, start - head_bytes), stop - head_bytes, grows=grows)


def represent(matrix: StoredElements, media_type: str, *, tensor: str = "c") -> Representation:
    """The representation of a matrix. `tensor` is its name in a safetensors file."""
    heads: Mapping[str, Callable[[], bytes]] = {
        NPY: lambda: npy_header(matrix.dtype, matrix.shape),
        SAFETENSORS: lambda: safetensors_header({tensor: (matrix.dtype, matrix.shape)}),
        OCTETS: lambda: b"",
    }
    return Representation(matrix, media_type, heads[media_type]())


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditional headers of a GET or HEAD; other methods have none."""

    if_match: str | None = None
    if_none_match: str | None = None
    byte_range: str | None = None
    if_range: str | None = None
    is_head: bool = False

    @classmethod
    def of(cls, request: Request) -> Conditions:
        """Raises InvalidHeader."""
        is_head = request.scope["state"]["head"]
        return cls(
            listed(request, "if-match"),
            listed(request, "if-none-match"),
            None if is_head else sole(request, "Range"),  # RFC 9110, section 14.2: only GET has ranges
            sole(request, "If-Range"),
            is_head,
        )

    @property
    def may_read_nothing(self) -> bool:
        """Whether the answer may be made without a look at the elements."""
        return self.is_head or (self.if_match, self.if_none_match, self.byte_range) != (None, None, None)


UNCONDITIONAL = Conditions()


async def _sequence(pieces: Iterator[bytes | memoryview], direct_bytes: int) -> AsyncIterator[bytes | memoryview]:
    """Yields the pieces. The first `direct_bytes` are small pieces and read directly, because a thread for each would
    take longer; later ones may wait for a disk and are read in threads.
    """
    sent_bytes = 0
    while sent_bytes < direct_bytes and (piece := next(pieces, None)) is not None:
        sent_bytes += len(piece)
        yield piece
        await asyncio.sleep(0)  # lets other tasks run, and notices a client that disconnected
    async for piece in _read_ahead(pieces):
        yield piece


async def _read_ahead(pieces: Iterator[bytes | memoryview]) -> AsyncIterator[bytes | memoryview]:
    """Reads pieces in worker threads, each while the previous one is sent."""
    coming = asyncio.ensure_future(in_thread(partial(next, pieces, None)))
    try:
        while (piece := await coming) is not None:
            coming = asyncio.ensure_future(in_thread(partial(next, pieces, None)))
            yield piece
            del piece  # its buffer is free
    finally:
        with CancelScope(shield=True):  # a thread is using the pieces: wait for it before they are released
            await asyncio.wait([coming])


class _PiecewiseResponse(StreamingResponse):
    """A streaming response that ends short of its Content-Length if a piece is damaged; the server then closes the
    connection.
    """

    async def stream_response(self, send: Send) -> None:
        with suppress(MatrixDamaged):  # it was already reported
            await super().stream_response(send)


class _InOnePiece(Response):
    """Sends head and elements as they are: neither joined, nor read again. A client that does not take them is dealt
    with as any other; while it holds their buffer, fewer replies go this way.
    """

    def __init__(self, head: bytes, elements: memoryview, headers: Mapping[str, str], media_type: str) -> None:
        super().__init__(None, 200, headers, media_type)
        self._pieces = head, elements

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        head, elements = self._pieces
        await send({"type": "http.response.body", "body": head, "more_body": True})
        await send({"type": "http.response.body", "body": elements})


def send(context: Context, shown: Representation, asked: Conditions, headers: Mapping[str, str]) -> Response:
    """The response with status 200, 206 or 304. Call it in a worker thread. Raises PreconditionFailed, MatrixNotFound,
    MatrixDamaged, RangeNotSatisfiable. Damage further on in a large matrix is found only after earlier bytes were sent;
    the connection is then cut off, short of its Content-Length.
    """
    all_headers = {**shown.headers, **headers, "etag": shown.etag, "vary": "accept"}
    if asked is not UNCONDITIONAL:  # a POST has no ranges
        all_headers["accept-ranges"] = "bytes"
    check_match(asked.if_match, shown.etag)
    if none_match(asked.if_none_match, shown.etag):
        return Response(None, 304, all_headers)
    status, start, stop = 200, 0, shown.total_bytes
    wanted = parse_range(asked.byte_range, stop) if range_applies(asked.if_range, shown.etag) else None
    if wanted is not None:
        status, (start, stop) = 206, wanted
        all_headers["content-range"] = f"bytes {start}-{stop - 1}/{shown.total_bytes}"
    all_headers["content-length"] = str(stop - start)
    is_whole = asked.is_head or stop - start <= WHOLE_BYTES
    pieces = iter(()) if asked.is_head else shown.pieces(context, start, stop, grows=not is_whole)
    if is_whole:
        return Response(b"".join(pieces), status, all_headers, shown.media_type)
    if wanted is None and (elements := shown.matrix.whole(context)) is not None:
        return _InOnePiece(shown.head, elements, all_headers, shown.media_type)
    shown.check(context, start, stop)  # now, so that a missing or damaged matrix still gives a proper error response
    direct_bytes = CHECKED_BYTES if context.store.REREADS_AT_ONCE else 0
    return _PiecewiseResponse(_sequence(pieces, direct_bytes), status, all_headers, shown.media_type)
