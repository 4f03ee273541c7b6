"""An operand that lies in the store for one job."""

from __future__ import annotations

from jobs.base import Strict
from kernels.model.numerics import DTypeName


class StoredOperand(Strict):
    """An operand that lies in the store for one job, under its id; the claim to it is made with the job."""

    id: str
    dtype: DTypeName
    shape: tuple[int, ...]
