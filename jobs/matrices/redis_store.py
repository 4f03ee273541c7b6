"""The `redis` store: matrices as chunks in Redis, for an API and workers on several hosts.

Chunk i of a matrix is `chunk:<data>:<i>`, all of CHUNK_BYTES but the last, which has the rest, and after it the digests
of the matrix's parts (`jobs/matrices/digest.py`), 8 bytes for each 16 KiB. Each chunk has a time to live somewhat
longer than the claims, so that leftovers of dead writers and removers expire by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import numpy as np
import redis

from jobs.errors import MatrixNotFound
from jobs.formats.elements import STORAGE_DTYPES, matrix_bytes
from jobs.matrices.index import Claim, Elements, MatrixIndex
from jobs.matrices.indexed_store import UPLOAD_LEASE_S, IndexedMatrixStore, IndexedWriter, check_id
from jobs.matrices.interface import READ_CHUNK_BYTES, ElementSource, MatrixWriter, Place, StoredMatrix, parts_bytes
from jobs.redis.client import translated
from kernels.model.numerics import DTypeName

CHUNK_BYTES = READ_CHUNK_BYTES
CHUNK_GRACE_S = 600.0


def chunk_count(size: int) -> int:
    return max(1, -(-size // CHUNK_BYTES))


class RedisMatrixStore(IndexedMatrixStore):
    """`index` must count in CHUNK_BYTES."""

    REREADS_AT_ONCE = FINDS_LEFTOVERS = False

    def __init__(self, client: redis.Redis, key_prefix: str, index: MatrixIndex, *, max_matrix_bytes: int) -> None:
        super().__init__(index, max_matrix_bytes)
        self.client = client
        self._prefix = key_prefix

    def key(self, data: str, chunk: int) -> str:
        return f"{self._prefix}chunk:{data}:{chunk}"

    def _writer(self, claim: Claim, expected_id: str | None, place: Place | None) -> MatrixWriter:
        return _ChunkWriter(self, claim, expected_id)

    @translated()
    def remove(self, orphan: Elements) -> None:
        self.client.unlink(*(self.key(orphan.data, chunk) for chunk in range(chunk_count(orphan.bytes))))

    @translated()
    def put(self, key: str, chunk: memoryview, parts: bytes, ttl_ms: int) -> None:
        """SETs the key to `chunk` followed by `parts`, without a copy: redis-py would first pack a command, at a fifth
        of the speed.
        """
        command = f"*5\r\n$3\r\nSET\r\n${len(key)}\r\n{key}\r\n${len(chunk) + len(parts)}\r\n"
        expiry = f"\r\n$2\r\nPX\r\n${len(str(ttl_ms))}\r\n{ttl_ms}\r\n"
        connection = self.client.connection_pool.get_connection()
        try:
            connection.send_packed_command([command.encode(), chunk, parts, expiry.encode()])  # type: ignore[no-untyped-call]
            connection.read_response()
        finally:
            self.client.connection_pool.release(connection)

    def _sweep_leftovers(self, limit: int) -> int:
        return 0  # they have a time to live

    @contextmanager
    def _source(self, matrix_id: str, size: int) -> Iterator[ElementSource]:
        elements = self.index.elements(check_id(matrix_id))
        if elements.bytes != size:
            raise MatrixNotFound
        yield _ChunkSource(self, elements)

    @contextmanager
    def open(self, matrix_id: str, dtype: DTypeName, shape: tuple[int, ...]) -> Iterator[StoredMatrix]:
        with self._source(matrix_id, matrix_bytes(dtype, shape)) as source:
            raw = np.empty(matrix_bytes(dtype, shape), np.uint8)
            for start in range(0, raw.size, CHUNK_BYTES):
                stop = min(start + CHUNK_BYTES, raw.size)
                raw[start:stop] = np.frombuffer(source.read(start, stop), np.uint8)
        raw.flags.writeable = False
        yield StoredMatrix(raw.view(STORAGE_DTYPES[dtype]).reshape(shape), source.parts)


class _ChunkSource(ElementSource):
    """One matrix's chunks. The last chunk, or only its digests, is read at once and kept."""

    def __init__(self, store: RedisMatrixStore, elements: Elements) -> None:
        self._chunks = store
        self._data = elements.data
        self._last = chunk_count(elements.bytes) - 1
        self._rest_bytes = elements.bytes - self._last * CHUNK_BYTES
        self._rest: bytes | None = None
        if self._last == 0:
            tail = self._get(0, 0, self._rest_bytes + parts_bytes(elements.bytes))
            self._rest, parts = tail[: self._rest_bytes], tail[self._rest_bytes :]
        else:
            parts = self._get(self._last, self._rest_bytes, self._rest_bytes + parts_bytes(elements.bytes))
        self.parts = np.frombuffer(parts, "<u8")

    def read(self, start: int, stop: int) -> bytes:
        pieces: list[bytes] = []
        while start < stop:
            chunk, begin = divmod(start, CHUNK_BYTES)
            end = min(stop - chunk * CHUNK_BYTES, CHUNK_BYTES)
            whole = self._rest if chunk == self._last else None
            pieces.append(self._get(chunk, begin, end) if whole is None else whole[begin:end])
            start += end - begin
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @translated()
    def _get(self, chunk: int, begin: int, end: int) -> bytes:
        """These bytes of a chunk. Raises MatrixNotFound if it does not have them."""
        key = self._chunks.key(self._data, chunk)
        piece = cast(bytes, self._chunks.client.getrange(key, begin, end - 1))
        if len(piece) != end - begin:
            raise MatrixNotFound
        return piece


class _ChunkWriter(IndexedWriter):
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
        """Sends full chunks, but keeps the last one, even if it is full, until the digests are known."""
        while view.nbytes:
            if self._filled == CHUNK_BYTES:
                self._send(self._buffer)
                self._filled = 0
            is_last = view.nbytes == CHUNK_BYTES and not self._missing_bytes
            if not self._filled and view.nbytes >= CHUNK_BYTES and not is_last:
                self._send(view[:CHUNK_BYTES])
                view = view[CHUNK_BYTES:]
                continue
            end = min(self._filled + view.nbytes, len(self._buffer))
            taken = end - self._filled
            self._buffer[self._filled : end] = view[:taken]
            self._filled, view = end, view[taken:]

    def _send(self, chunk: memoryview, parts: bytes = b"") -> None:
        self._chunks.put(self._chunks.key(self._claim.data, self._sent), chunk, parts, self._ttl_ms)
        self._sent += 1

    def _settle(self, matrix_id: str, parts: bytes) -> str:
        self._send(self._buffer[: self._filled], parts)
        return self._claim.data

    def _merge(self, data: str, kept_data: str) -> None:
        """The claim has moved these chunks to where the others were: see `jobs/matrices/lua/claim.lua`."""

    def _drop(self) -> None:
        self._buffer = memoryview(b"")
