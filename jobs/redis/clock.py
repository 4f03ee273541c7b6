"""Times as Redis' own clock gives them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)


def instant_of(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)
