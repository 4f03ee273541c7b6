"""Transfers matrices between a host's files and the bucket, several parts in parallel. A matrix consists of two
objects: `elements/<name>`, which a caller with a URL gets, and `digests/<name>`, the digests of its parts, 8 bytes for
each 16 KiB.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice

import numpy as np

from jobs.disk import translated_disk
from jobs.errors import StoreUnavailable
from jobs.formats.elements import Array
from jobs.matrices.digest import PART, part_begin, part_count, spans
from jobs.matrices.interface import ElementSource, check_parts, parts_bytes
from jobs.object_store.bucket import PART_BYTES, Bucket

RANGE_BYTES = 8 << 20
RANGES_AT_ONCE = 8
READ_BYTES = 1 << 20  # bytes of a range read for a reply, in parallel with the others of its piece
_THREADS = ThreadPoolExecutor(RANGES_AT_ONCE, thread_name_prefix="ranges")
_PIECES = ThreadPoolExecutor(RANGES_AT_ONCE, thread_name_prefix="pieces")


def elements_key(name: str) -> str:
    return f"elements/{name}"


def digests_key(name: str) -> str:
    return f"digests/{name}"


def staged_key(name: str) -> str:
    """The key of an object that a caller sends by a URL, until the upload is complete."""
    return f"uploads/{name}"


class GivenUp(Exception):
    """The writer abandoned its matrix."""


class StreamedUpload:
    """Sends a file to the bucket while it is still being written. `size` bytes will come; `key` is new."""

    def __init__(self, bucket: Bucket, key: str, fd: int, size: int) -> None:
        self._bucket, self._key, self._size = bucket, key, size
        self._fd = os.dup(fd)
        self._changed = threading.Condition()
        self._came_bytes = 0
        self._is_given_up = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="upload", daemon=True)
        self._thread.start()

    def came(self, total_bytes: int) -> None:
        """Reports that the file now has `total_bytes` bytes."""
        with self._changed:
            self._came_bytes = total_bytes
            self._changed.notify()

    def finish(self) -> None:
        """Call it after all bytes were written: returns once they are in the bucket. Raises StoreUnavailable."""
        self.came(self._size)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def give_up(self) -> None:
        """Abandons the upload. Does not wait."""
        with self._changed:
            self._is_given_up = True
            self._changed.notify()

    def _run(self) -> None:
        try:
            self._bucket.put_pieces(self._key, self._pieces(), self._size)
            if self._is_given_up:
                self._bucket.delete([self._key])
        except GivenUp:
            return
        except BaseException as error:
            self._error = error
        finally:
            os.close(self._fd)

    def _pieces(self) -> Iterator[bytes]:
        at = 0
        while at < self._size:
            end = min(at + PART_BYTES, self._size)
            with self._changed:
                self._changed.wait_for(lambda end=end: self._is_given_up or self._came_bytes >= end)  # type: ignore[misc]
                if self._is_given_up:
                    raise GivenUp
            yield read_all(self._fd, at, end)
            at = end


def read_all(fd: int, start: int, stop: int) -> bytes:
    """Exactly these bytes of a file. Raises StoreUnavailable."""
    pieces = []
    while start < stop:
        with translated_disk():
            piece = os.pread(fd, stop - start, start)
        if not piece:
            raise StoreUnavailable("A matrix lost the place it was written to; send it again.", resource="disk")
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def read_parts(bucket: Bucket, name: str, size: int) -> bytes:
    """The digests of its parts. Raises MatrixNotFound, StoreUnavailable."""
    return bytes(bucket.get(digests_key(name), 0, parts_bytes(size)))


def download(bucket: Bucket, name: str, elements: memoryview) -> bytes:
    """Fetches all elements of a matrix into `elements`, in parallel ranges, each compared with its digests as it
    arrives. Returns the digests. Raises MatrixNotFound, MatrixDamaged, StoreUnavailable.
    """
    size = elements.nbytes
    digests = _THREADS.submit(read_parts, bucket, name, size)

    def take(span: tuple[int, int]) -> None:
        first, after = span
        begin = part_begin(first, size)
        piece = elements[begin : part_begin(after, size)]
        checked = first
        for got in bucket.read_into(elements_key(name), begin, piece, size):
            whole = after if got == piece.nbytes else min(first + got // PART, after - 1)
            if whole > checked:
                parts = np.frombuffer(digests.result(), "<u8")[checked:whole]
                check_parts(elements[part_begin(checked, size) : part_begin(whole, size)], parts)
                checked = whole

    count = part_count(size) if size else 0
    futures = [_THREADS.submit(take, span) for span in spans(0, count, RANGE_BYTES // PART, grows=False)]
    try:
        for future in futures:
            future.result()
        return digests.result()
    finally:
        for future in futures:
            future.cancel()
        for future in futures:  # so that none still writes after one has failed
            with suppress(Exception):
                _ = future.cancelled() or future.exception()


def ordered_pieces(bucket: Bucket, key: str, size: int) -> Iterator[memoryview]:
    """Yields a whole object in order, fetching some ranges ahead. Raises MatrixNotFound, StoreUnavailable."""
    starts = iter(range(0, size, RANGE_BYTES))
    ahead = deque(_start(bucket, key, at, size) for at in islice(starts, RANGES_AT_ONCE // 2))
    while ahead:
        piece = ahead.popleft().result()
        if (at := next(starts, None)) is not None:
            ahead.append(_start(bucket, key, at, size))
        yield piece


def _start(bucket: Bucket, key: str, at: int, size: int) -> Future[memoryview]:
    return _THREADS.submit(bucket.get, key, at, min(at + RANGE_BYTES, size))


class BucketSource(ElementSource):
    """A matrix that this host has no copy of, read by range for a reply; no copy is made."""

    def __init__(self, bucket: Bucket, name: str, size: int) -> None:
        """Raises MatrixNotFound, StoreUnavailable."""
        self._bucket, self._key = bucket, elements_key(name)
        self._size = size
        self.parts: Array = np.frombuffer(read_parts(bucket, name, size), "<u8")

    def read(self, start: int, stop: int) -> bytes:
        buffer = memoryview(bytearray(stop - start))
        return bytes(self.read_into(buffer, start))

    def read_into(self, buffer: memoryview, start: int) -> memoryview:
        def take(at: int) -> None:
            end = min(at + READ_BYTES, len(buffer))
            for _ in self._bucket.read_into(self._key, start + at, buffer[at:end], self._size):
                pass

        list(_PIECES.map(take, range(0, len(buffer), READ_BYTES)))
        return buffer
