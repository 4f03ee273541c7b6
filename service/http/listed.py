"""Headers whose value is a list: several lines of one are one list (RFC 9110, section 5.3)."""

from __future__ import annotations

from starlette.requests import Request


def listed(request: Request, name: str) -> str | None:
    """The joined value of all lines of a header; None if absent."""
    lines = request.headers.getlist(name)
    return ", ".join(lines) if lines else None
