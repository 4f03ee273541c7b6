"""How many jobs may wait, and how many that ended are kept."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """A waiting job past one of them is refused; of those that ended the oldest is forgotten."""

    all: int
    of_owner: int


NO_LIMITS = Limits(1 << 53, 1 << 53)
