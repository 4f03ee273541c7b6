"""The interface of the matrix stores `FileMatrixStore`, `RedisMatrixStore` and `ObjectMatrixStore`. All keep their
books (who owns what, sizes, expiry) in Redis, so that the bounds hold over all processes.

A stored matrix is its elements, little-endian, row-major (C order), and the digests of their parts
(`jobs/matrices/digest.py`), taken as the elements came in. bfloat16 and float8_e4m3 travel as bit patterns, uint16 and
uint8, because numpy has no such types. An id is either the sha256 of dtype, shape and contents (64 hex digits: uploaded
once, used in many products) or a name that the service gives (inline operands `op_…`, products `c_…`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Self

import numpy as np

from jobs.errors import MatrixDamaged
from jobs.formats.elements import STORAGE_DTYPES, Array, matrix_bytes
from jobs.matrices.content_hash import ContentHash
from jobs.matrices.digest import (
    PART_DIGEST_BYTES,
    as_bytes,
    digest_of,
    digest_of_parts,
    part_begin,
    part_count,
    part_digests,
)
from jobs.matrices.slot_memory import SlotMemory
from kernels.model.numerics import DTypeName

READ_CHUNK_BYTES = 4 << 20


def content_hasher(dtype: DTypeName, shape: tuple[int, ...]) -> ContentHash:
    """A sha256 that has seen `<dtype>:<d0>x<d1>\\n`; feed it the elements and its hex digest is the matrix's id."""
    return ContentHash(f"{dtype}:{'x'.join(map(str, shape))}\n".encode())


@dataclass(frozen=True, slots=True)
class MatrixInfo:
    """A stored matrix."""

    id: str
    dtype: DTypeName
    shape: tuple[int, ...]
    created_at: float  # seconds since the epoch
    expires_at: float

    @property
    def bytes(self) -> int:
        return matrix_bytes(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class StoredMatrix:
    """A matrix as a store has it. Nothing has been compared yet: `verify` does."""

    elements: Array  # read-only, C order, in STORAGE_DTYPES
    parts: Array  # uint64: the digests of the parts of the bytes that came in
    memory: SlotMemory | None = None  # that the elements lie in, where it outlives them

    @property
    def digest(self) -> int:
        """The digest of the bytes that came in."""
        return digest_of_parts(self.parts)

    def verify(self) -> None:
        """Raises MatrixDamaged where the elements are not those that came in."""
        if digest_of(self.elements) != self.digest:
            raise MatrixDamaged

    def verify_parts(self, chosen: Array) -> None:
        """The same for some parts only, by their numbers."""
        view = as_bytes(self.elements)
        for part in chosen.tolist():
            piece = view[part_begin(part, view.nbytes) : part_begin(part + 1, view.nbytes)]
            check_parts(piece, self.parts[part : part + 1])


def check_parts(piece: memoryview, parts: Array) -> None:
    """Raises MatrixDamaged where these successive parts do not have these digests."""
    if part_digests(piece, len(parts)) != parts.tobytes():
        raise MatrixDamaged


def parts_bytes(size: int) -> int:
    """What the digests of a matrix's parts take."""
    return PART_DIGEST_BYTES * part_count(size)


class Place:
    """Where a matrix can be made that is stored afterwards, without a copy."""

    def __init__(self, elements: Array, memory: SlotMemory) -> None:
        self.elements = elements  # writable, C order, in STORAGE_DTYPES; what they are at first means nothing
        self.memory = memory


class Partial(ABC):
    """A place under a name, where a matrix grows in the course of several attempts of a job. It is dropped with its
    context, unless it was stored, or `is_kept` was set; what is kept and not written to is dropped later."""

    place: Place
    is_found: bool  # an earlier attempt's, with what that one wrote
    is_kept: bool = False

    @abstractmethod
    def touch(self) -> None:
        """Something was written to it."""


class MatrixWriter(ABC):
    """Takes the elements in order, in pieces of any size. Left without a `commit`, it leaves nothing behind."""

    @abstractmethod
    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Raises InvalidMatrix once more bytes come than the shape has."""

    @abstractmethod
    def fill(self, parts: bytes) -> None:
        """All elements lie in the place that the writer was made with. `parts` are the digests of what lies there, 8
        bytes each, taken from there."""

    @property
    @abstractmethod
    def digest(self) -> int:
        """The digest of all bytes written. To be asked for once all came."""

    @abstractmethod
    def commit(self) -> MatrixInfo:
        """Makes the matrix readable. Raises InvalidMatrix if bytes are missing, DigestMismatch if they are others."""

    @abstractmethod
    def abort(self) -> None:
        """Drops what was written. Harmless after `commit`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.abort()


class ElementSource(ABC):
    """One matrix, open to be read."""

    parts: Array  # uint64, as in StoredMatrix

    @abstractmethod
    def read(self, start: int, stop: int) -> bytes:
        """Exactly these bytes of the elements. Raises MatrixNotFound where they are gone."""

    def read_into(self, buffer: memoryview, start: int) -> memoryview:
        """As many as the buffer has room for, from `start` on, which the matrix must have; in the buffer, or elsewhere.
        Raises as `read`."""
        return memoryview(self.read(start, start + len(buffer)))

    def digests(self, first: int, after: int) -> Array:
        """Of these parts, uint64."""
        return self.parts[first:after]


class MatrixStore(ABC):
    """Raises StoreFull past a bound, StoreUnavailable where Redis does not answer."""

    REREADS_AT_ONCE: ClassVar[bool]  # whether what was read a moment ago is in this host's memory

    @abstractmethod
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
        """Reserves room and opens a writer. With `name` that is the id and nothing is hashed; without, the contents
        give it, and `expected_id` (of a PUT) must be what they give. Contents stored already are stored once more only
        in the books: each owner has a claim and a time of its own. `place`, of a named matrix of that type and shape,
        is where it is written. `claimed_later`, of a named one: no room is reserved, for its claim is made when its
        job is recorded; until then it is a leftover that `sweep` may remove, some minutes on. With `comes_slowly` there
        must be room for all of it now, but room is taken as the elements come: whoever promises much and sends little
        keeps it from no one."""

    @contextmanager
    def place(self, dtype: DTypeName, shape: tuple[int, ...]) -> Iterator[Place | None]:
        """A place for a matrix, to be handed to `create` while the context lasts; None where the store has none to
        give. It reserves no room: `create` does."""
        yield None

    @contextmanager
    def partial(self, name: str, dtype: DTypeName, shape: tuple[int, ...]) -> Iterator[Partial | None]:
        """A place that another process finds again by its name once this one is dead; no two have it at once. None
        where the store has none to give, or the matrix is small."""
        yield None

    def new_memories(self) -> Iterator[SlotMemory]:
        """Slots that came up since the last look, already mapped. For one thread."""
        return iter(())

    @abstractmethod
    def info(self, matrix_id: str, *, owner: str) -> MatrixInfo:
        """Raises MatrixNotFound; also where the owner has no claim to it."""

    @abstractmethod
    def touch(self, matrix_id: str, *, owner: str, ttl_s: float) -> MatrixInfo:
        """Puts the end of its time off to `ttl_s` from now, never nearer; what it is. Raises MatrixNotFound."""

    @abstractmethod
    def drop(self, matrix_id: str, dtype: DTypeName, shape: tuple[int, ...]) -> None:
        """Removes the elements of a named matrix whose only claim was given up with its job, or never made."""

    @abstractmethod
    def delete(self, matrix_id: str, *, owner: str) -> None:
        """Gives the owner's claim up; the last one takes the elements along. Raises MatrixNotFound."""

    @abstractmethod
    def chunks(
        self, matrix_id: str, size: int, start: int = 0, stop: int | None = None, *, grows: bool = False
    ) -> Iterator[memoryview]:
        """The bytes from `start` to `stop` of a matrix of `size` bytes, in pieces of about READ_CHUNK_BYTES. With
        `grows` the first are small, and each has at most half of what came before: for readers who may not come
        back for more.

        Each piece was held against its digests. The first one is read at once, so that this raises MatrixNotFound
        (also where another size is found) and MatrixDamaged; damage further on is raised in place of the piece.
        Trusts its caller that the owner was checked (`info`).
        """

    def load(self, matrix_id: str, dtype: DTypeName, shape: tuple[int, ...]) -> Array:
        """A copy of the matrix in memory, held against its digests. Raises MatrixNotFound, MatrixDamaged."""
        raw = b"".join(self.chunks(matrix_id, matrix_bytes(dtype, shape)))
        return np.frombuffer(raw, STORAGE_DTYPES[dtype]).reshape(shape)

    @abstractmethod
    def open(self, matrix_id: str, dtype: DTypeName, shape: tuple[int, ...]) -> AbstractContextManager[StoredMatrix]:
        """The matrix, mapped where the store can. For workers, which compare the digest after they have used it.

        What is deleted can still be read, as long as the context or any view of the elements lasts. Raises
        MatrixNotFound, also where the size found is not that of dtype and shape."""

    @abstractmethod
    def used_bytes(self, *, owner: str | None = None) -> int:
        """Bytes kept, all together or under one owner's claims."""

    @abstractmethod
    def check_room(self, need_bytes: int, *, owner: str) -> None:
        """Raises StoreFull if that many more bytes would not fit now."""

    def check_ready(self) -> None:
        """Raises StoreUnavailable where no matrix could be stored now. Redis is asked by others."""
        return

    @abstractmethod
    def sweep(self, *, limit: int = 100) -> int:
        """Removes matrices whose time is up, and writers' leftovers; how many."""
