"""Matrices that are being received and stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobs.errors import InvalidMatrix
from jobs.formats.parser import MatrixHeader
from jobs.matrices.interface import MatrixInfo, MatrixStore, MatrixWriter, content_hasher
from jobs.matrices.packed import pack
from kernels.model.numerics import DTypeName
from service.api_process.unclaimed import UnclaimedBytes
from service.bodies.sizes import in_units

MEMORY_BYTES = 1 << 20  # a matrix up to this size is kept in memory until its request has been validated
UNCLAIMED_BYTES = 16 << 20  # a matrix up to this size is claimed in the step that records its job


def kept(data: bytes | bytearray | memoryview) -> bytes | memoryview:
    """The same bytes, which stay as they are: a view of the larger part of a `bytes` object, or else a copy."""
    if isinstance(data, memoryview) and isinstance(data.obj, bytes) and 2 * data.nbytes >= len(data.obj):
        return data
    return bytes(data)


@dataclass(frozen=True, slots=True)
class UploadOwner:
    """The owner of the future matrix, its time to live, and its id: `name`, or the hash of its contents (which may be
    checked).
    """

    owner: str
    ttl_s: float
    name: str | None = None
    expected_id: str | None = None


class Upload:
    """A sink for one matrix. Large ones are streamed into the store; a small one is only stored by `commit`.

    Raises InvalidMatrix at once for more than `max_bytes`.
    """

    def __init__(
        self,
        store: MatrixStore,
        header: MatrixHeader,
        owner: UploadOwner,
        *,
        max_bytes: int,
        fingerprinted: bool = False,
        unclaimed: UnclaimedBytes | None = None,
    ) -> None:
        self.dtype: DTypeName = header.dtype
        self.shape = header.shape
        self.bytes = header.bytes
        self._store = store
        self._owner = owner
        self._pieces: list[bytes | memoryview] = []
        self._writer: MatrixWriter | None = None
        self._hasher = content_hasher(header.dtype, header.shape) if fingerprinted else None
        if header.bytes > max_bytes:
            raise InvalidMatrix(
                f"The matrix has {in_units(header.bytes)}; the largest kept here has {in_units(max_bytes)}."
            )
        self._unclaimed, self.is_unclaimed = unclaimed, header.bytes <= MEMORY_BYTES
        if header.bytes > MEMORY_BYTES:
            self.is_unclaimed = header.bytes <= UNCLAIMED_BYTES and unclaimed is not None and unclaimed.take(self.bytes)
            try:
                self._writer = self._open(claimed_later=self.is_unclaimed)
            except BaseException:
                self._let_go()
                raise

    def _open(self, *, claimed_later: bool = False) -> MatrixWriter:
        to = self._owner
        return self._store.create(
            self.dtype,
            self.shape,
            owner=to.owner,
            ttl_s=to.ttl_s,
            name=to.name,
            expected_id=to.expected_id,
            claimed_later=claimed_later,
            comes_slowly=True,
        )

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._hasher is not None:
            self._hasher.update(data)
        if self._writer is not None:
            self._writer.write(data)
        else:
            self._pieces.append(kept(data))

    def pack(self) -> bytes:
        """The packed matrix, for a job's record. Only for a matrix that is kept in memory."""
        assert self._writer is None
        return pack(b"".join(self._pieces))

    @property
    def name(self) -> str:
        """The id it will have; only if it was given a name."""
        assert self._owner.name is not None
        return self._owner.name

    @property
    def digest(self) -> str:
        """The hash of the contents; only if a fingerprint was requested."""
        assert self._hasher is not None
        return self._hasher.hexdigest()

    def is_same(self, other: Upload) -> bool:
        """Whether both have the same elements, once all have arrived; large matrices are compared by their digests."""
        if (self.dtype, self.shape, self.waits) != (other.dtype, other.shape, other.waits):
            return False
        if self._writer is not None and other._writer is not None:
            return self._writer.digest == other._writer.digest
        return b"".join(self._pieces) == b"".join(other._pieces)

    @property
    def is_open(self) -> bool:
        """Whether part of it is in the store but not committed."""
        return self._writer is not None

    @property
    def waits(self) -> bool:
        """Whether it is still entirely in memory."""
        return self._writer is None

    def commit_for_job(self) -> None:
        """Stores a matrix that `is_unclaimed`, for a job that will claim it when it is recorded. Raises as `commit`."""
        self._writer = self._writer or self._open(claimed_later=True)
        self.commit()

    def commit(self) -> MatrixInfo:
        """Makes the matrix readable. Raises InvalidMatrix, DigestMismatch, StoreFull, StoreUnavailable."""
        self._writer = self._writer or self._open()
        for piece in self._pieces:
            self._writer.write(piece)
        info = self._writer.commit()
        self._writer = None
        self._let_go()
        return info

    def _let_go(self) -> None:
        if self._unclaimed is not None and self.is_unclaimed and self.bytes > MEMORY_BYTES:
            self._unclaimed.give_back(self.bytes)
            self._unclaimed = None

    def abort(self) -> None:
        """Discards what was not committed."""
        if self._writer is not None:
            self._writer.abort()
            self._let_go()


class UploadSet:
    """Opens uploads for a request's matrices, and drops all of them if the request fails. `body_bytes` is the body's
    length, if it is known and the elements arrive in stored form. `unclaimed`, for operands of a job: matrices of
    middling size are written before they are claimed, as far as it has room.
    """

    def __init__(
        self,
        store: MatrixStore,
        new_owner: Callable[[], UploadOwner],
        *,
        max_bytes: int,
        body_bytes: int | None = None,
        fingerprinted: bool = False,
        unclaimed: UnclaimedBytes | None = None,
    ) -> None:
        self._store = store
        self._unclaimed = unclaimed
        self._new_owner = new_owner
        self._max_bytes = max_bytes
        self._body_bytes = body_bytes
        self._fingerprinted = fingerprinted
        self._opened: list[Upload] = []

    def open(self, header: MatrixHeader) -> Upload:
        """Raises InvalidMatrix for a matrix that is too large, or that cannot be in this body."""
        if self._body_bytes is not None and header.bytes > self._body_bytes:
            raise InvalidMatrix(
                f"The header speaks of {header.bytes} bytes of elements, but the whole body has {self._body_bytes}."
            )
        upload = Upload(
            self._store,
            header,
            self._new_owner(),
            max_bytes=self._max_bytes,
            fingerprinted=self._fingerprinted,
            unclaimed=self._unclaimed,
        )
        self._opened.append(upload)
        return upload

    @property
    def is_open(self) -> bool:
        """Whether there is something to abort."""
        return any(upload.is_open for upload in self._opened)

    def abort(self) -> None:
        for upload in self._opened:
            upload.abort()
