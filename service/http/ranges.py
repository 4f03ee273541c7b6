"""The `Range` header of a reply (RFC 9110, section 14): one range of bytes, others are ignored, as the RFC allows; and
the `Content-Range` of a PUT."""

from __future__ import annotations

import re

from service.problems import InvalidHeader, RangeNotSatisfiable

_ONE_RANGE = re.compile(r"bytes\s*=\s*(\d{0,19})\s*-\s*(\d{0,19})\s*", re.ASCII | re.IGNORECASE)
_CONTENT_RANGE = re.compile(r"bytes\s+(\d{1,19})-(\d{1,19})/(\d{1,19})", re.ASCII | re.IGNORECASE)


def parse_range(header: str | None, total_bytes: int) -> tuple[int, int] | None:
    """The first byte and the one after the last; None if the whole is to be sent. Raises RangeNotSatisfiable."""
    match = _ONE_RANGE.fullmatch(header) if header else None
    if match is None or match[1] == match[2] == "":
        return None
    first, last = match[1], match[2]
    if first == "":  # a suffix range: the last N bytes
        start, stop = max(0, total_bytes - int(last)), total_bytes
    else:
        start, stop = int(first), min(int(last) + 1, total_bytes) if last else total_bytes
        if last and int(last) < int(first):
            return None  # not a valid range, so it is ignored
    if start >= stop:
        raise RangeNotSatisfiable(
            f"The range lies outside the {total_bytes} bytes there are.",
            field="Range",
            headers={"content-range": f"bytes */{total_bytes}"},
        )
    return start, stop


def parse_content_range(header: str | None, total_bytes: int) -> tuple[int, int]:
    """The first byte and the one after the last; the whole range without a header. Raises InvalidHeader."""
    if header is None:
        return 0, total_bytes
    match = _CONTENT_RANGE.fullmatch(header.strip())
    if match is None or int(match[1]) > int(match[2]) or int(match[3]) != total_bytes:
        raise InvalidHeader(
            f"Content-Range must be like bytes 0-1048575/{total_bytes}, and end with the {total_bytes} bytes that this "
            "upload has.",
            field="Content-Range",
        )
    return int(match[1]), int(match[2]) + 1
