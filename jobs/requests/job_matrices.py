"""Matrices that belong to one job, in its record or in the store."""

from __future__ import annotations

from jobs.base import Strict
from kernels.model.numerics import DTypeName


class StoredOperand(Strict):
    """An operand stored for one job, under its id; the claim to it is made together with the job."""

    id: str
    dtype: DTypeName
    shape: tuple[int, ...]


class JobMatrices(Strict):
    """Small matrices that travel in a job's record, packed (jobs/matrices/packed.py), and those stored for it."""

    a: bytes | None = None  # None: the operand is elsewhere
    b: bytes | None = None
    c: bytes | None = None
    product_bytes: int = 0  # space for the product; 0: it goes to the store
    ttl_s: float = 0.0  # how long they are kept after the job's end, and stored ones after its submission
    stored: tuple[StoredOperand, ...] = ()
    used_ttl_s: float = 0.0  # how long stored operands that were there before are kept from now on, at least
    room_bytes: int = 0  # free bytes required for a stored product; they are claimed when it is stored
