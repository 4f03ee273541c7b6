"""Headers in several lines: those whose value is a list are one list (RFC 9110, section 5.3), others must agree."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import Request

from service.problems import InvalidHeader


def listed(request: Request, name: str) -> str | None:
    """The joined value of all lines of a header; None if absent."""
    lines = request.headers.getlist(name)
    return ", ".join(lines) if lines else None


def sole(request: Request, name: str) -> str | None:
    """The one value of a header that is no list; None where there is none. Raises InvalidHeader for two that differ:
    what is in front of this server may have gone by the other."""
    return sole_of(request.headers, name)


def sole_of(headers: Headers, name: str) -> str | None:
    """The same, where there is no request yet."""
    lines = headers.getlist(name)
    if len(set(lines)) > 1:
        raise InvalidHeader(f"{name} comes with {len(lines)} values that differ; send one.", field=name)
    return lines[0] if lines else None
