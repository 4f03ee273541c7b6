"""The `Range` header (RFC 9110, section 14): one range of bytes. Others are ignored, as the RFC allows."""

from __future__ import annotations

import re

from service.problems import RangeNotSatisfiable

_ONE_RANGE = re.compile(r"bytes\s*=\s*(\d{0,19})\s*-\s*(\d{0,19})\s*", re.ASCII | re.IGNORECASE)


def parse_range(header: str | None, total_bytes: int) -> tuple[int, int] | None:
    """First byte and the one after the last; None where the whole is to be sent. Raises RangeNotSatisfiable."""
    match = _ONE_RANGE.fullmatch(header) if header else None
    if match is None or match[1] == match[2] == "":
        return None
    first, last = match[1], match[2]
    if first == "":  # the last so many bytes
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
