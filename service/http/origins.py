"""Checks the Host and Origin of requests: protects against cross-site posts, including from other ports of this host,
and against DNS rebinding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from starlette.datastructures import Headers

from jobs.errors import Forbidden, InvalidSettings

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
SAFE_METHODS = frozenset({"GET", "HEAD"})
DEFAULT_PORTS = {"http": 80, "https": 443}
_PLACE = r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::([0-9]{1,5}))?"
_HOST = re.compile(_PLACE)
_ORIGIN = re.compile(f"(https?)://{_PLACE}")

KEPT_CHARACTERS = 256  # longest Host that is kept
OTHER_ORIGIN = "This server does not answer requests that another site's page makes; open its own pages."


@dataclass(frozen=True, slots=True)
class Place:
    """A host name and port (None if not given). IPv6 addresses are without brackets."""

    name: str
    port: int | None

    def with_default(self, port: int) -> Place:
        return self if self.port is not None else Place(self.name, port)


def place_of(host: str) -> Place | None:
    """Parses a Host header, or an entry of MATMUL_ALLOWED_HOSTS; None if it is invalid."""
    return _kept_place(host) if len(host) <= KEPT_CHARACTERS else _read_place(host)


def _read_place(host: str) -> Place | None:
    bare = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
    match = _HOST.fullmatch(bare.lower())
    return _place(match[1], match[2]) if match else None


_kept_place = lru_cache(maxsize=256)(_read_place)  # clients send the same few


def origin_of(origin: str) -> tuple[Place, int] | None:
    """The place of an Origin header, with its port, and its scheme's default port; None if it is not a web page's."""
    match = _ORIGIN.fullmatch(origin.lower())
    if match is None:
        return None
    default = DEFAULT_PORTS[match[1]]
    return _place(match[2], match[3]).with_default(default), default


def _place(name: str, port: str | None) -> Place:
    return Place(name.strip("[]"), None if port is None else int(port))


def check_origin(headers: Headers) -> None:
    """Checks that a request sent by a browser comes from a page of this server. Raises Forbidden."""
    _check_site(headers)
    origin, host = _sole(headers, "origin"), place_of(_sole(headers, "host") or "")
    if origin is not None and not _is_same(origin_of(origin), host):
        raise Forbidden(OTHER_ORIGIN, field="Origin")


def _check_site(headers: Headers) -> None:
    if headers.get("sec-fetch-site") not in (None, "none", "same-origin"):
        raise Forbidden(OTHER_ORIGIN, field="Sec-Fetch-Site")


def _sole(headers: Headers, name: str) -> str | None:
    """The value of a header that must occur once. If it occurs twice, a proxy may have used either value, so neither
    counts.
    """
    values = headers.getlist(name)
    return ", ".join(values) if values else None


def _is_same(origin: tuple[Place, int] | None, host: Place | None) -> bool:
    return origin is not None and host is not None and origin[0] == host.with_default(origin[1])


class HostWall:
    """Allows only requests for certain host names. An entry without a port allows every port of that name."""

    def __init__(self, allowed: Iterable[str]) -> None:
        """Raises InvalidSettings for an entry that is no host name, which would match nothing."""
        places = {text: place_of(text) for text in allowed}
        if wrong := [text for text, place in places.items() if place is None]:
            raise InvalidSettings(f"MATMUL_ALLOWED_HOSTS has {wrong[0]!a}; an entry is a host name, or `name:port`.")
        self._allowed = frozenset(place for place in places.values() if place is not None)

    def check(self, method: str, headers: Headers) -> None:
        """A request without a Host is HTTP/1.0's: no browser's, but a load balancer's probe. Raises Forbidden."""
        named = _sole(headers, "host")
        host = place_of(named or "")
        if named is not None and not self._is_allowed(host):
            raise Forbidden("This server does not answer to that Host; see MATMUL_ALLOWED_HOSTS.", field="Host")
        origin = _sole(headers, "origin")
        if origin is not None:
            place = origin_of(origin)
            if not _is_same(place, host) and not self._is_named(place):
                raise Forbidden("This server does not answer requests from that Origin.", field="Origin")
        elif method not in SAFE_METHODS:
            _check_site(headers)

    def _is_allowed(self, host: Place | None) -> bool:
        return host is not None and (host in self._allowed or Place(host.name, None) in self._allowed)

    def _is_named(self, origin: tuple[Place, int] | None) -> bool:
        """Whether the Origin is itself one of the allowed names, with its port or the default one; needed behind a
        proxy that changes Host.
        """
        if origin is None:
            return False
        place, default = origin
        is_usual = place.port == default and place.name not in LOOPBACK_NAMES
        return place in self._allowed or (is_usual and Place(place.name, None) in self._allowed)
