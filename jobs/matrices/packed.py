"""A small matrix as one piece of bytes, for a job's record: its elements, and their digest.

A matrix of a few KiB costs less there than in a store: it comes and goes with the job's own changes, in no round trip
of its own.
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
    """The elements as they came in, little-endian, row-major, and their digest (`jobs/matrices/digest.py`)."""
    return b"".join((data, digest_of(data).to_bytes(DIGEST_BYTES, "little")))


@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """What `pack` made. Nothing has been compared yet: `verified` does."""

    packed: bytes

    @property
    def data(self) -> memoryview:
        """The bytes of the elements."""
        return memoryview(self.packed)[:-DIGEST_BYTES]

    @property
    def digest(self) -> int:
        """The digest of the bytes that came in."""
        return int.from_bytes(self.packed[-DIGEST_BYTES:], "little")

    def elements(self, dtype: DTypeName, shape: tuple[int, ...]) -> Array:
        """A read-only view, in STORAGE_DTYPES."""
        return np.frombuffer(self.data, STORAGE_DTYPES[dtype]).reshape(shape)

    def verified(self) -> memoryview:
        """The bytes of the elements. Raises MatrixDamaged where they are not those that came in."""
        if len(self.packed) < DIGEST_BYTES or digest_of(self.data) != self.digest:
            raise MatrixDamaged
        return self.data
