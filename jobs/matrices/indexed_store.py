"""What all matrix stores share: claims, limits, content addresses. Subclasses store the elements.

A named matrix (inline operand, product) costs one round trip: the claim that reserves its space is kept. A content
address is known only at the end, so an upload reserves its space under a random id, and `commit` exchanges that claim
for one on the contents.
"""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from itertools import chain

from xxhash import xxh3_64_intdigest

from jobs.errors import BodyTooLarge, DigestMismatch, InvalidMatrix, InvalidRequest, MatrixNotFound, StoreUnavailable
from jobs.formats.buffers import Buffers
from jobs.formats.elements import matrix_bytes
from jobs.matrices.digest import PART, Digest, part_begin, part_count, part_of, spans
from jobs.matrices.index import Claim, Elements, MatrixIndex
from jobs.matrices.interface import (
    READ_CHUNK_BYTES,
    ElementSource,
    MatrixInfo,
    MatrixStore,
    MatrixWriter,
    Place,
    check_parts,
    content_hasher,
)
from jobs.models import new_id
from kernels.model.numerics import DTypeName

READ_PARTS = READ_CHUNK_BYTES // PART  # read at a time
READ_BUFFERS = 4  # reusable read buffers; if all are in use, each piece gets memory of its own
UPLOAD_LEASE_S = 3600.0  # how long the reservation of a dead writer lasts
LEASED_FROM_BYTES = 1 << 20  # a smaller named matrix is claimed for its full time at once, which saves a round trip
STEP_BYTES = 16 << 20  # space reserved at a time for elements that arrive slowly
UPLOAD = "up_"  # prefix of the internal ids of uploads
_ADDRESS = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"(?!up_)[a-z]{1,8}_[0-9a-f]{32}(_[0-9]{1,9})?")


def is_address(matrix_id: str) -> bool:
    """Whether the id is a sha256 of contents."""
    return _ADDRESS.fullmatch(matrix_id) is not None


def check_id(matrix_id: str) -> str:
    """The id, if it is valid: no other text may become a path or a key. Raises MatrixNotFound."""
    if not is_address(matrix_id) and _NAME.fullmatch(matrix_id) is None:
        raise MatrixNotFound
    return matrix_id


class IndexedMatrixStore(MatrixStore):
    """A store for matrices of at most `max_matrix_bytes`, with its claims in `index`."""

    def __init__(self, index: MatrixIndex, max_matrix_bytes: int) -> None:
        self.index = index
        self._buffers = Buffers(READ_BUFFERS, READ_CHUNK_BYTES + PART)  # the last part may be up to twice as long
        self.max_matrix_bytes = max_matrix_bytes

    @abstractmethod
    def _writer(self, claim: Claim, expected_id: str | None, place: Place | None) -> MatrixWriter: ...

    @abstractmethod
    def remove(self, orphan: Elements) -> None:
        """Removes elements without a claim. Does nothing if they are gone."""

    @abstractmethod
    def _sweep_leftovers(self, limit: int) -> int:
        """Removes leftovers of dead writers and removers; returns how many."""

    def room_taken(self) -> None:
        """Called after more bytes were charged: the store may have to free memory that it keeps in reserve. Raises
        StoreUnavailable.
        """
        return

    @abstractmethod
    def _source(self, matrix_id: str, size: int) -> AbstractContextManager[ElementSource]:
        """Opens a matrix of `size` bytes for reading. Raises MatrixNotFound, also if it has another size."""

    def chunks(
        self, matrix_id: str, size: int, start: int = 0, stop: int | None = None, *, grows: bool = False
    ) -> Iterator[memoryview]:
        pieces = self._pieces(check_id(matrix_id), size, start, size if stop is None else min(stop, size), grows)
        return chain([next(pieces)], pieces)

    def whole(self, matrix_id: str, size: int) -> memoryview | None:
        if size > self._buffers.size or not self.REREADS_AT_ONCE or (buffer := self._buffers.take()) is None:
            return None
        with self._source(check_id(matrix_id), size) as source:
            check_parts(piece := source.read_into(buffer[:size], 0), source.digests(0, part_count(size)))
        return piece

    def _pieces(self, matrix_id: str, size: int, start: int, stop: int, grows: bool) -> Iterator[memoryview]:
        """Yields the range in pieces, at least one: an empty range gives one empty piece. Whole parts are read,
        compared with their digests, and cut to the range.
        """
        with self._source(matrix_id, size) as source:
            if start >= stop:
                yield memoryview(b"")
                return
            for first, after in spans(part_of(start, size), part_of(stop - 1, size) + 1, READ_PARTS, grows=grows):
                begin = part_begin(first, size)
                piece = self._piece(source, begin, part_begin(after, size))
                check_parts(piece, source.digests(first, after))
                yield piece[max(0, start - begin) : stop - begin]

    def _piece(self, source: ElementSource, begin: int, end: int) -> memoryview:
        buffer = self._buffers.take() if end - begin <= self._buffers.size else None
        if buffer is None:
            return memoryview(source.read(begin, end))
        return source.read_into(buffer[: end - begin], begin)

    def create(
        self,
        dtype: DTypeName,
        shape: tuple[int, ...],
        *,
        owner: str,
        ttl_s: float,
        name: str | None = None,
        expected_id: str | None = None,
        place: Place | None = None,
        claimed_later: bool = False,
        comes_slowly: bool = False,
    ) -> MatrixWriter:
        """As `MatrixStore.create`. Raises BodyTooLarge for a matrix over the size limit, InvalidRequest for an invalid
        `expected_id`.
        """
        if expected_id is not None and not is_address(expected_id):
            raise InvalidRequest("The id of a matrix is the sha256 of its dtype, shape and contents: 64 hex digits.")
        matrix_id = new_id("up") if name is None else check_id(name)
        claim = Claim(matrix_id, matrix_id, dtype, shape, owner, ttl_s, later=claimed_later)
        if (size := claim.bytes) > self.max_matrix_bytes:
            raise BodyTooLarge(f"The matrix has {size} bytes; {self.max_matrix_bytes} are the most taken here.")
        if comes_slowly and size > STEP_BYTES:
            self.check_room(size, owner=owner)
            claim = replace(claim, charged=STEP_BYTES)
        return self._writer(claim, expected_id, place)

    def info(self, matrix_id: str, *, owner: str) -> MatrixInfo:
        return self.index.find(check_id(matrix_id), owner)

    def touch(self, matrix_id: str, *, owner: str, ttl_s: float) -> MatrixInfo:
        return self.index.touch(check_id(matrix_id), owner, ttl_s)

    def drop(self, matrix_id: str, dtype: DTypeName, shape: tuple[int, ...]) -> None:
        self.remove(Elements(check_id(matrix_id), matrix_bytes(dtype, shape)))

    def delete(self, matrix_id: str, *, owner: str) -> None:
        orphan = self.index.release(check_id(matrix_id), owner)
        if orphan is not None:
            self.remove(orphan)

    def used_bytes(self, *, owner: str | None = None) -> int:
        return self.index.used_bytes(owner)

    def check_room(self, need_bytes: int, *, owner: str) -> None:
        self.index.check_room(need_bytes, owner)

    def sweep(self, *, limit: int = 100) -> int:
        count, orphans = self.index.expire(limit)
        for orphan in orphans:
            self.remove(orphan)
        return count + self._sweep_leftovers(limit)


class IndexedWriter(MatrixWriter):
    """Counts the bytes, computes their digests, hashes them if the id comes from the contents, and makes the claims.

    Two attempts of a job may write the same product at once. Each drops only the claim that it made itself.
    """

    def __init__(self, store: IndexedMatrixStore, claim: Claim, expected_id: str | None) -> None:
        self._store = store
        self._claim = claim  # the claim that stays; for an upload, its id and data finally become those of the contents
        self._digest = Digest(size := claim.bytes)
        self._made_in_place: bytes | None = None  # digests of the parts of a matrix made in place
        self._hasher = content_hasher(claim.dtype, claim.shape) if claim.id.startswith(UPLOAD) else None
        self._expected_id = expected_id
        self._missing_bytes = size
        self._charged_bytes = size if claim.charged is None else claim.charged
        self._data = claim.data  # the name under which the elements are kept
        self._is_leased = not claim.later and (self._hasher is not None or size > LEASED_FROM_BYTES)
        self._info = self._reserve()
        self._is_open = True
        try:
            self._begin()
        except BaseException:
            self.abort()
            raise

    @abstractmethod
    def _begin(self) -> None:
        """Prepares to write, once space is reserved."""

    @abstractmethod
    def _put(self, view: memoryview) -> None:
        """Stores the next bytes; never called with none."""

    @abstractmethod
    def _settle(self, matrix_id: str, parts: bytes) -> str:
        """Called when all bytes have been written: stores the digests of their parts and makes the matrix readable.
        Returns the name under which the elements are kept.
        """

    @abstractmethod
    def _merge(self, data: str, kept_data: str) -> None:
        """The index already has the same contents as `kept_data`: keeps only one of the two."""

    @abstractmethod
    def _drop(self) -> None:
        """Releases what only this writer uses."""

    def _reserve(self) -> MatrixInfo:
        """Makes a claim for as long as an upload may take; for a large named matrix too, until it is complete."""
        claim = self._claim
        if claim.later:
            now = time.time()
            return MatrixInfo(claim.id, claim.dtype, claim.shape, now, now + claim.ttl_s)
        if self._hasher is not None:
            claim = replace(claim, ttl_s=UPLOAD_LEASE_S)
        elif self._is_leased:
            claim = replace(claim, ttl_s=min(claim.ttl_s, UPLOAD_LEASE_S))
        return self._store.index.claim(claim)[0]

    def write(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        if not view.nbytes:
            return
        view = view.cast("B")
        if view.nbytes > self._missing_bytes:
            raise InvalidMatrix(f"More bytes came than the {self._claim.bytes} that the matrix's shape has.")
        self._missing_bytes -= view.nbytes
        if self._claim.bytes - self._missing_bytes > self._charged_bytes:
            self._take_room()
        self._digest.update(view)
        if self._hasher is not None:
            self._hasher.update(view)
        self._put(view)

    def _take_room(self) -> None:
        """Reserves space for the bytes written so far and one step more. Raises StoreFull, StoreUnavailable."""
        came = self._claim.bytes - self._missing_bytes
        charged = min(self._claim.bytes, came + STEP_BYTES)
        self._store.index.grow(self._claim, charged - self._charged_bytes)
        self._charged_bytes = charged
        self._store.room_taken()

    def fill(self, parts: bytes) -> None:
        self._missing_bytes = 0
        self._made_in_place = parts

    @property
    def digest(self) -> int:
        return xxh3_64_intdigest(self._parts())

    def _parts(self) -> bytes:
        return self._digest.parts() if self._made_in_place is None else self._made_in_place

    def commit(self) -> MatrixInfo:
        if self._missing_bytes:
            raise InvalidMatrix(f"{self._missing_bytes} bytes of the matrix are missing.")
        claim = self._claim if self._claim.charged is None else replace(self._claim, charged=None)
        if self._hasher is not None:
            claim = self._addressed(claim, self._hasher.hexdigest())
        self._data = self._settle(claim.id, self._parts())
        if self._is_leased:
            claim = replace(claim, data=self._data)
            self._info, kept_data = self._store.index.claim(claim)
            if kept_data != claim.data:
                self._merge(claim.data, kept_data)
        self._is_open = False
        return self._info

    def _addressed(self, claim: Claim, digest: str) -> Claim:
        """The claim on the contents, replacing the upload's."""
        if self._expected_id not in (None, digest):
            raise DigestMismatch(f"The contents have the id {digest}, not {self._expected_id}.")
        return replace(claim, id=digest, upload=claim.id)

    def abort(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._drop()
        if self._claim.later:
            return
        with suppress(MatrixNotFound, StoreUnavailable):  # then the claim ends by itself, and the sweep finds the rest
            orphan = self._store.index.release(self._claim.id, self._claim.owner, made_at=self._info.created_at)
            if orphan is not None:  # the claim was still there, so no commit got through
                self._store.remove(Elements(self._data, orphan.bytes))
