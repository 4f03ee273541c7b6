"""Times as Redis' own clock gives them."""

from __future__ import annotations


def microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)
