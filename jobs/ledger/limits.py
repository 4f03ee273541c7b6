"""How many jobs may wait."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """A job past one of them is refused."""

    all: int
    of_owner: int


NO_LIMITS = Limits(1 << 53, 1 << 53)
