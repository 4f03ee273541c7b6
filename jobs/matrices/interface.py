"""The interface of the matrix stores `FileMatrixStore`, `RedisMatrixStore` and `ObjectMatrixStore`. All keep their
index (owners, sizes, expiry) in Redis, so that the limits hold over all processes.

A stored matrix consists of its elements, little-endian and row-major (C order), and the digests of their parts
(`jobs/matrices/digest.py`), computed as the elements arrived. bfloat16 and float8_e4m3 travel as bit patterns, uint16
and uint8, because numpy has no such types. An id is either the sha256 of dtype, shape and contents (64 hex digits:
uploaded once, used in many products) or a name that the service gives (inline operands `op_…`, products `c_…`).
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
PARTIAL = "tiles_"  # names of partial matrices begin so


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
    """A matrix read from a store, not yet compared with its digests: call `verify`."""

    elements: Array  # read-only, C order, in STORAGE_DTYPES
    parts: Array  # uint64: the digests of the parts, as originally received
    memory: SlotMemory | None = None  # the slot memory that contains the elements, if any

    @property
    def digest(self) -> int:
        """The digest of the bytes that came in."""
        return digest_of_parts(self.parts)

    def verify(self) -> None:
        """Raises MatrixDamaged if the elements differ from those originally received."""
        if digest_of(self.elements) != self.digest:
            raise MatrixDamaged

    def verify_parts(self, chosen: Array) -> None:
        """The same for some parts only, by their numbers."""
        view = as_bytes(self.elements)
        for part in chosen.tolist():
            piece = view[part_begin(part, view.nbytes) : part_begin(part + 1, view.nbytes)]
            check_parts(piece, self.parts[part : part + 1])


def check_parts(piece: memoryview, parts: Array) -> None:
    """Raises MatrixDamaged if these successive parts do not have these digests."""
    if part_digests(piece, len(parts)) != parts.tobytes():
        raise MatrixDamaged


def parts_bytes(size: int) -> int:
    """The size in bytes of the digests of a matrix's parts."""
    return PART_DIGEST_BYTES * part_count(size)


class Place:
    """Memory in which a matrix can be computed and then stored without a copy."""

    def __init__(self, elements: Array, memory: SlotMemory) -> None:
        self.elements = elements  # writable, C order, in STORAGE_DTYPES; uninitialised at first
        self.memory = memory


class Partial(ABC):
    """A named place in which a matrix is built up by several attempts of a job. It is dropped at the end of its
    context, unless it was stored or `is_kept` was set; a kept one is dropped later if nothing is written to it.
    """

    place: Place
    is_found: bool  # it comes from an earlier attempt and has that attempt's data
    is_kept: bool = False

    @property
    @abstractmethod
    def mark(self) -> int:
        """Whose data it has: what the attempt that began it set, 64 bits. Only of one that was found, or marked."""

    @mark.setter
    @abstractmethod
    def mark(self, mark: int) -> None: ...

    @abstractmethod
    def touch(self) -> None:
        """Records that something was written to it."""


class MatrixWriter(ABC):
    """Takes the elements in order, in pieces of any size. If its context ends without `commit`, nothing is stored."""

    @abstractmethod
    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Writes the next bytes. Raises InvalidMatrix if there are more than the shape has."""

    @abstractmethod
    def fill(self, parts: bytes) -> None:
        """Declares that all elements are in the place given to `create`. `parts` are the digests of its contents, 8
        bytes each.
        """

    @property
    @abstractmethod
    def digest(self) -> int:
        """The digest of all bytes written. Call it only after all have been written."""

    @abstractmethod
    def commit(self) -> MatrixInfo:
        """Makes the matrix readable. Raises InvalidMatrix if bytes are missing, DigestMismatch if they differ from
        those expected.
        """

    @abstractmethod
    def abort(self) -> None:
        """Discards what was written. Does nothing after `commit`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.abort()


class ElementSource(ABC):
    """One matrix, open for reading."""

    parts: Array  # uint64, as in StoredMatrix

    @abstractmethod
    def read(self, start: int, stop: int) -> bytes:
        """Exactly these bytes of the elements. Raises MatrixNotFound if they are gone."""

    def read_into(self, buffer: memoryview, start: int) -> memoryview:
        """Reads as many bytes as the buffer holds, from `start` on; the matrix must have that many. Returns them as a
        view of the buffer or of other memory. Raises as `read`.
        """
        return memoryview(self.read(start, start + len(buffer)))

    def digests(self, first: int, after: int) -> Array:
        """The digests of these parts, uint64."""
        return self.parts[first:after]


class MatrixStore(ABC):
    """A matrix store. Its methods raise StoreFull beyond a limit, and StoreUnavailable if Redis does not answer."""

    REREADS_AT_ONCE: ClassVar[bool]  # whether data that was just read stays in this host's memory
    FINDS_LEFTOVERS: ClassVar[bool]  # whether the sweep finds elements that nobody claims any more

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
        """Reserves space and opens a writer. A `name` is used as the id, and nothing is hashed. Otherwise the id is
        computed from the contents, and must equal `expected_id` (of a PUT) if that is given. Contents that are already
        stored are not stored again; each owner only gets a claim with its own expiry. `place`, for a named matrix of
        that type and shape, is where it is written. With `claimed_later`, for a named matrix, no space is reserved,
        because the claim is made when the job is recorded; until then it is a leftover that `sweep` may remove after
        some minutes. With `comes_slowly` there must be room for the whole matrix now, but space is reserved only as the
        elements arrive, so that a client that announces much and sends little does not block others.
        """

    @contextmanager
    def place(self, dtype: DTypeName, shape: tuple[int, ...]) -> Iterator[Place | None]:
        """A place for a matrix, to be passed to `create` within the context; None if the store has none. It reserves no
        space: `create` does.
        """
        yield None

    @contextmanager
    def partial(self, name: str, dtype: DTypeName, shape: tuple[int, ...]) -> Iterator[Partial | None]:
        """A place that another process can find by its name after this one has died; only one process at a time has it.
        None if the store has none, or the matrix is small.
        """
        yield None

    def new_memories(self) -> Iterator[SlotMemory]:
        """Slots created since the last call, already mapped. For one thread."""
        return iter(())

    def forget_copy(self, matrix_id: str) -> None:
        """Removes this host's copy, whose bytes are not those that came in, if the store has the matrix elsewhere."""
        return

    def tidy_maps(self, max_bytes: int) -> None:
        """Unmaps some of what was deleted, which frees its memory, and what is unused and more than `max_bytes`."""
        return

    @abstractmethod
    def info(self, matrix_id: str, *, owner: str) -> MatrixInfo:
        """Describes the matrix. Raises MatrixNotFound, also if the owner has no claim to it."""

    @abstractmethod
    def touch(self, matrix_id: str, *, owner: str, ttl_s: float) -> MatrixInfo:
        """Extends the expiry to `ttl_s` from now; never shortens it. Returns the matrix's description. Raises
        MatrixNotFound.
        """

    @abstractmethod
    def drop(self, matrix_id: str, dtype: DTypeName, shape: tuple[int, ...]) -> None:
        """Removes the elements of a named matrix whose only claim was dropped with its job, or never made."""

    @abstractmethod
    def delete(self, matrix_id: str, *, owner: str) -> None:
        """Drops the owner's claim; with the last claim the elements are removed. Raises MatrixNotFound."""

    @abstractmethod
    def chunks(
        self, matrix_id: str, size: int, start: int = 0, stop: int | None = None, *, grows: bool = False
    ) -> Iterator[memoryview]:
        """The bytes from `start` to `stop` of a matrix of `size` bytes, in pieces of about READ_CHUNK_BYTES. With
        `grows` the first pieces are small, and each has at most half of the bytes before it: for readers that may
        stop early. Each piece has been compared with its digests. The first one is read at once, so that this call
        itself raises MatrixNotFound (also for another size) and MatrixDamaged; later damage is raised instead of the
        damaged piece. The caller must have checked the owner (`info`).
        """

    @abstractmethod
    def whole(self, matrix_id: str, size: int) -> memoryview | None:
        """All bytes of a matrix of `size` bytes, compared with their digests, in a buffer that is used again once no
        view of it is left. None where there is no such buffer now, or the matrix is larger: then it comes in `chunks`.
        Raises MatrixNotFound, MatrixDamaged. The caller must have checked the owner.
        """

    def load(self, matrix_id: str, dtype: DTypeName, shape: tuple[int, ...]) -> Array:
        """A copy of the matrix in memory, compared with its digests. Raises MatrixNotFound, MatrixDamaged."""
        raw = b"".join(self.chunks(matrix_id, matrix_bytes(dtype, shape)))
        return np.frombuffer(raw, STORAGE_DTYPES[dtype]).reshape(shape)

    @abstractmethod
    def open(self, matrix_id: str, dtype: DTypeName, shape: tuple[int, ...]) -> AbstractContextManager[StoredMatrix]:
        """The matrix, mapped if the store can do so. For workers, which compare the digest after they have used the
        elements. A matrix that is deleted can still be read as long as the context or any view of the elements lasts.
        Raises MatrixNotFound, also if its size does not match dtype and shape.
        """

    @abstractmethod
    def used_bytes(self, *, owner: str | None = None) -> int:
        """Bytes kept in total, or under one owner's claims."""

    @abstractmethod
    def check_room(self, need_bytes: int, *, owner: str) -> None:
        """Raises StoreFull if there is no room for that many more bytes now."""

    def check_ready(self) -> None:
        """Raises StoreUnavailable if no matrix could be stored now. It does not check Redis."""
        return

    @abstractmethod
    def sweep(self, *, limit: int = 100) -> int:
        """Removes expired matrices and the leftovers of dead writers; returns how many."""
