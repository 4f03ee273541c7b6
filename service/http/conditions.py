"""Conditional requests (RFC 9110, section 13): `If-Match`, `If-None-Match` and `If-Range`, by entity tag. Nothing here
has a date of its last change, so conditions on dates are ignored, as the RFC asks.
"""

from __future__ import annotations

import re

from starlette.requests import Request

from service.http.listed import listed
from service.problems import PreconditionFailed

_ENTITY_TAG = re.compile(r'(W/)?("[^"]*")')


def is_not_modified(request: Request, etag: str) -> bool:
    """Whether a 304 is the answer to this GET or HEAD. Raises PreconditionFailed."""
    check_match(listed(request, "if-match"), etag)
    return none_match(listed(request, "if-none-match"), etag)


def check_match(if_match: str | None, *etags: str) -> None:
    """`etags`: of what there is, in each of its media types. By strong comparison: a weak tag matches nothing.

    Raises PreconditionFailed."""
    if if_match is None or if_match.strip() == "*":
        return
    if not any(tag in etags for weak, tag in _ENTITY_TAG.findall(if_match) if not weak):
        raise PreconditionFailed(field="If-Match")


def check_change(request: Request, *etags: str) -> None:
    """Conditions of a request that changes what is there; no `etags` where nothing is. Raises PreconditionFailed."""
    if_match, if_none_match = listed(request, "if-match"), listed(request, "if-none-match")
    if if_match is not None and not etags:
        raise PreconditionFailed("There is nothing here that If-Match could name; leave it out.", field="If-Match")
    check_match(if_match, *etags)
    if any(none_match(if_none_match, etag) for etag in etags):
        raise PreconditionFailed("What If-None-Match names is here already; leave it out.", field="If-None-Match")


def is_conditional(request: Request) -> bool:
    """Whether `check_change` has anything to check."""
    return "if-match" in request.headers or "if-none-match" in request.headers


def none_match(header: str | None, etag: str) -> bool:
    """Whether `If-None-Match` names this version: the caller already has it."""
    if header is None:
        return False
    return header.strip() == "*" or any(tag == etag for _, tag in _ENTITY_TAG.findall(header))


def range_applies(if_range: str | None, etag: str) -> bool:
    """Whether a Range applies: the request has no If-Range, or one that names this version."""
    return if_range is None or if_range.strip() == etag
