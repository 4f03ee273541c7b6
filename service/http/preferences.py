"""The `Prefer` header (RFC 7240): how long a caller is ready to wait."""

from __future__ import annotations

import re
from dataclasses import dataclass

# One preference: a name, an optional value (a token or a quoted string), and optional parameters, which we do not use.
_PREFERENCE = re.compile(r'\s*([!#$%&\'*+.^_`|~\w-]+)\s*(?:=\s*("[^"]*"|[^\s,;]*))?[^,]*')


@dataclass(frozen=True, slots=True)
class Wait:
    """How long to wait, and the value of `Preference-Applied` (None if nothing was requested)."""

    seconds: float
    applied: str | None
    is_async: bool = False  # whether `respond-async` was among them


def parse_wait(header: str | None, *, default_s: float, max_s: float) -> Wait:
    """`wait=N` waits up to N seconds (at most `max_s`), `respond-async` alone does not wait. Unreadable preferences are
    ignored, as the RFC requires.
    """
    asked = _preferences(header or "")
    respond_async = "respond-async" in asked
    wait_s = asked.get("wait", "")
    if wait_s.isascii() and wait_s.isdigit():
        seconds = min(float(wait_s), max_s)
        applied = f"wait={seconds:g}"
        return Wait(seconds, f"respond-async, {applied}" if respond_async else applied, respond_async)
    if respond_async:
        return Wait(0.0, "respond-async", is_async=True)
    return Wait(min(default_s, max_s), None)


def _preferences(header: str) -> dict[str, str]:
    """Names and values; the first of a repeated name counts."""
    asked: dict[str, str] = {}
    for part in header.split(","):
        if match := _PREFERENCE.fullmatch(part):
            asked.setdefault(match[1].lower(), (match[2] or "").strip('"'))
    return asked
