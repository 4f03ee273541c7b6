"""A small matrix as one byte string for a job's record: its elements and their digest. A matrix of a few KiB costs less
there than in a store, because it is written and removed together with the job's own changes and needs no extra round
trip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobs.errors import MatrixDamaged
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import Buffer, digest_of
from kernels.model.numerics import DTypeName

DIGEST_BYTES = 8


def pack(data: Buffer) -> bytes:
    """The elements, little-endian and row-major, followed by their digest (`jobs/matrices/digest.py`)."""
    return b"".join((data, digest_of(data).to_bytes(DIGEST_BYTES, "little")))


@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """The result of `pack`, not yet compared with its digest: call `verified`."""

    packed: bytes

    @property
    def data(self) -> memoryview:
        """The bytes of the elements."""
        return memoryview(self.packed)[:-DIGEST_BYTES]

    @property
    def digest(self) -> int:
        """The digest of the bytes originally received."""
        return int.from_bytes(self.packed[-DIGEST_BYTES:], "little")

    def elements(self, dtype: DTypeName, shape: tuple[int, ...]) -> Array:
        """A read-only view, in STORAGE_DTYPES."""
        return np.frombuffer(self.data, STORAGE_DTYPES[dtype]).reshape(shape)

    def verified(self) -> memoryview:
        """The bytes of the elements. Raises MatrixDamaged if they differ from those originally received."""
        if len(self.packed) < DIGEST_BYTES or digest_of(self.data) != self.digest:
            raise MatrixDamaged
        return self.data
