"""The digest of a matrix's stored bytes, by which the service detects that they changed.

The bytes are cut into parts of PART; what is left over at the end belongs to the last part, so a matrix of `size` bytes
has max(1, size // PART) of them. The digest of a part is XXH3-64 with seed 0 (https://xxhash.com); the digest of the
matrix is XXH3-64 of those numbers, 64 bits little-endian, one after another. Parts can be taken in any order and at the
same time, which is what a GPU needs, and a range can be checked without the rest of the matrix.

XXH3 is not cryptographic: the digest protects against faults, not against forgery.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from xxhash import xxh3_64, xxh3_64_intdigest

PART = 16384  # bytes
FIRST_PARTS = 4  # of what grows: as much as a system takes of it for a client that reads nothing
PART_DIGEST_BYTES = 8

Buffer = bytes | bytearray | memoryview


def part_count(size: int) -> int:
    """Parts of a matrix of `size` bytes; an empty matrix has one empty part."""
    return max(1, size // PART)


def part_of(position: int, size: int) -> int:
    """The part that the byte at `position` belongs to."""
    return min(position // PART, part_count(size) - 1)


def part_begin(part: int, size: int) -> int:
    """Where a part begins; for the part after the last one, where the matrix ends."""
    return size if part >= part_count(size) else part * PART


def spans(first: int, end: int, count: int, *, grows: bool) -> Iterator[tuple[int, int]]:
    """The parts from `first` to `end` in ranges: `count` parts at a time, or with `grows` FIRST_PARTS and then half of
    what came before.
    """
    at = first
    while at < end:
        edge = at + count - (at - first) % count
        after = min(end, edge, at + max(FIRST_PARTS, (at - first) // 2)) if grows else min(end, edge)
        yield at, after
        at = after


class Digest:
    """Takes the `size` bytes of a matrix in order, in pieces of any size."""

    def __init__(self, size: int) -> None:
        self._last_begins = (part_count(size) - 1) * PART
        self._seen = 0
        self._open = xxh3_64()  # the current, incomplete part
        self._closed = bytearray()  # digests of the parts before it

    def update(self, data: Buffer) -> None:
        """Raises TypeError for a buffer that is not contiguous."""
        view = memoryview(data)
        if not view.nbytes:
            return
        view = view.cast("B")
        before_last = max(0, min(view.nbytes, self._last_begins - self._seen))
        head = min(-self._seen % PART, before_last)
        whole = (before_last - head) // PART
        tail = head + whole * PART
        if head:
            self._open.update(view[:head])
            if (self._seen + head) % PART == 0:
                self._closed += struct.pack("<Q", self._open.intdigest())
                self._open.reset()
        if whole:
            self._closed += part_digests(view[head:tail], whole)
        if tail < view.nbytes:
            self._open.update(view[tail:])
        self._seen += view.nbytes

    def parts(self) -> bytes:
        """The parts' digests, 8 bytes each, little-endian. Call it only after all bytes have been added."""
        return bytes(self._closed) + struct.pack("<Q", self._open.intdigest())

    def value(self) -> int:
        """The matrix's digest. Call it only after all bytes have been added."""
        return xxh3_64_intdigest(self.parts())


def part_digests(view: memoryview, count: int) -> bytes:
    """Digests of `count` successive parts, 8 bytes each, little-endian; the last part goes on to the end of `view`."""
    last = (count - 1) * PART
    # Rows of an array are made in less time than slices of a view.
    before: Iterable[Any] = np.asarray(view[:last]).reshape(-1, PART)
    return struct.pack(f"<{count}Q", *map(xxh3_64_intdigest, before), xxh3_64_intdigest(view[last:]))


def digest_of_parts(parts: np.ndarray[Any, np.dtype[np.uint64]]) -> int:
    """A matrix's digest from those of its parts."""
    return xxh3_64_intdigest(parts.astype("<u8").tobytes())


def digest_of(data: Buffer | np.ndarray[Any, np.dtype[Any]]) -> int:
    """The digest of a whole matrix; of an array's elements in C order."""
    whole: Any = np.ascontiguousarray(data) if isinstance(data, np.ndarray) else memoryview(data)
    if whole.nbytes < 2 * PART:  # one part; most matrices that are digested by themselves are as small
        return xxh3_64_intdigest(xxh3_64_intdigest(whole).to_bytes(PART_DIGEST_BYTES, "little"))
    view = as_bytes(data)
    return xxh3_64_intdigest(part_digests(view, part_count(view.nbytes)))


def as_bytes(data: Buffer | np.ndarray[Any, np.dtype[Any]]) -> memoryview:
    """The bytes of a buffer, or of an array's elements in C order; copied only if they are not contiguous."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
    view = memoryview(data)
    return view.cast("B") if view.nbytes else memoryview(b"")
