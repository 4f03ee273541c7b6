"""The `redis` store: matrices as chunks in Redis, for an API and workers on several hosts.

Chunk i of a matrix is `chunk:<data>:<i>`, all of CHUNK_BYTES but the last; an empty matrix is one empty chunk. Each has
a time to live somewhat beyond the claims, so that what a writer or remover leaves behind goes by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import cast

import numpy as np
import redis

from jobs.errors import MatrixNotFound
from jobs.matrices import READ_CHUNK_BYTES, STORAGE_DTYPES, Array, MatrixWriter, matrix_bytes
from jobs.matrix_booked import UPLOAD_LEASE_S, BookedMatrixStore, BookedWriter, check_id
from jobs.matrix_index import Claim, Elements, MatrixIndex
from jobs.redis_client import translated
from kernels.numerics import DTypeName

CHUNK_BYTES = READ_CHUNK_BYTES
CHUNK_GRACE_S = 600.0


def chunk_count(size: int) -> int:
    return max(1, -(-size // CHUNK_BYTES))


class RedisMatrixStore(BookedMatrixStore):
    """`index` must count in CHUNK_BYTES."""

    def __init__(self, client: redis.Redis, key_prefix: str, index: MatrixIndex, *, max_matrix_bytes: int) -> None:
        super().__init__(index, max_matrix_bytes)
        self.client = client
        self._prefix = key_prefix

    def key(self, data: str, chunk: int) -> str:
        return f"{self._prefix}chunk:{data}:{chunk}"

    def _writer(self, claim: Claim, expected_id: str | None) -> MatrixWriter:
        return _ChunkWriter(self, claim, expected_id)

    @translated()
    def remove(self, orphan: Elements) -> None:
        self.client.unlink(*(self.key(orphan.data, chunk) for chunk in range(chunk_count(orphan.bytes))))

    @translated()
    def put(self, key: str, chunk: memoryview, ttl_ms: int) -> None:
        """SET without a copy of the chunk: redis-py would first pack it into a command, at a fifth of the speed."""
        command = f"*5\r\n$3\r\nSET\r\n${len(key)}\r\n{key}\r\n${len(chunk)}\r\n"
        expiry = f"\r\n$2\r\nPX\r\n${len(str(ttl_ms))}\r\n{ttl_ms}\r\n"
        connection = self.client.connection_pool.get_connection()
        try:
            connection.send_packed_command([command.encode(), chunk, expiry.encode()])  # type: ignore[no-untyped-call]
            connection.read_response()
        finally:
            self.client.connection_pool.release(connection)

    def _sweep_leftovers(self, limit: int) -> int:
        return 0  # they have a time to live

    def chunks(self, matrix_id: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        elements = self.index.elements(check_id(matrix_id))
        stop = elements.bytes if stop is None else min(stop, elements.bytes)
        pieces = self._pieces(elements, start, stop)
        return chain([next(pieces)], pieces)  # the first now: what is missing is told before anything is sent

    def _pieces(self, elements: Elements, start: int, stop: int) -> Iterator[bytes]:
        """Never none: an empty range gives one empty piece."""
        if start >= stop:
            yield b""
        while start < stop:
            chunk, skip = divmod(start, CHUNK_BYTES)
            piece = self._chunk(elements, chunk)[skip : stop - chunk * CHUNK_BYTES]
            start += len(piece)
            yield piece

    @translated()
    def _chunk(self, elements: Elements, chunk: int) -> bytes:
        """Raises MatrixNotFound where it is not there, or not whole."""
        piece = cast(bytes | None, self.client.get(self.key(elements.data, chunk)))
        if piece is None or len(piece) != min(CHUNK_BYTES, elements.bytes - chunk * CHUNK_BYTES):
            raise MatrixNotFound
        return piece

    @contextmanager
    def open(self, matrix_id: str, dtype: DTypeName, shape: tuple[int, ...]) -> Iterator[Array]:
        elements = self.index.elements(check_id(matrix_id))
        if elements.bytes != matrix_bytes(dtype, shape):
            raise MatrixNotFound
        raw = np.empty(elements.bytes, np.uint8)
        for chunk in range(chunk_count(elements.bytes)):
            piece = np.frombuffer(self._chunk(elements, chunk), np.uint8)
            raw[chunk * CHUNK_BYTES : chunk * CHUNK_BYTES + piece.size] = piece
        raw.flags.writeable = False
        yield raw.view(STORAGE_DTYPES[dtype]).reshape(shape)


class _ChunkWriter(BookedWriter):
    def __init__(self, store: RedisMatrixStore, claim: Claim, expected_id: str | None) -> None:
        self._chunks = store
        self._ttl_ms = int((max(claim.ttl_s, UPLOAD_LEASE_S) + CHUNK_GRACE_S) * 1000)
        self._buffer = memoryview(bytearray(min(claim.bytes, CHUNK_BYTES)))
        self._filled = 0
        self._sent = 0  # chunks
        super().__init__(store, claim, expected_id)

    def _begin(self) -> None:
        pass

    def _put(self, view: memoryview) -> None:
        while view.nbytes:
            if not self._filled and view.nbytes >= CHUNK_BYTES:
                self._send(view[:CHUNK_BYTES])
                view = view[CHUNK_BYTES:]
                continue
            end = min(self._filled + view.nbytes, len(self._buffer))
            taken = end - self._filled
            self._buffer[self._filled : end] = view[:taken]
            self._filled, view = end, view[taken:]
            if end == CHUNK_BYTES:
                self._send(self._buffer)
                self._filled = 0

    def _send(self, chunk: memoryview) -> None:
        self._chunks.put(self._chunks.key(self._claim.data, self._sent), chunk, self._ttl_ms)
        self._sent += 1

    def _settle(self, matrix_id: str) -> str:
        if self._filled or not self._sent:
            self._send(self._buffer[: self._filled])
        self._filled = 0
        return self._claim.data

    def _merge(self, data: str, kept_data: str) -> None:
        self._chunks.remove(Elements(data, self._claim.bytes))

    def _drop(self) -> None:
        self._buffer = memoryview(b"")
