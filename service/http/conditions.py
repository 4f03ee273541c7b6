"""`If-None-Match` and `If-Range` (RFC 9110, section 13)."""

from __future__ import annotations

import re

_ENTITY_TAG = re.compile(r'(?:W/)?("[^"]*")')


def none_match(header: str | None, etag: str) -> bool:
    """Whether the caller has this version already: a 304 is the answer."""
    if header is None:
        return False
    return header.strip() == "*" or etag in _ENTITY_TAG.findall(header)


def range_applies(if_range: str | None, etag: str) -> bool:
    """Whether a Range counts: it was asked of this version, or of any."""
    return if_range is None or if_range.strip() == etag
