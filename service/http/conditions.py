"""`If-None-Match` and `If-Range` (RFC 9110, section 13)."""

from __future__ import annotations

import re

_ENTITY_TAG = re.compile(r'(?:W/)?("[^"]*")')


def none_match(header: str | None, etag: str) -> bool:
    """Whether the caller already has this version, so that the answer is 304."""
    if header is None:
        return False
    return header.strip() == "*" or etag in _ENTITY_TAG.findall(header)


def range_applies(if_range: str | None, etag: str) -> bool:
    """Whether a Range applies: the request has no If-Range, or one that names this version."""
    return if_range is None or if_range.strip() == etag
