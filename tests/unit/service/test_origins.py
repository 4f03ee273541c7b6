"""Which Host and Origin a request may name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from starlette.datastructures import Headers

from jobs.errors import Forbidden
from service.http.origins import LOOPBACK_NAMES, HostWall, check_origin, origin_of, place_of

BAD_ORIGINS = ["http://[", "http://[::1", "http://]", "[", ":", "//[", "null", "", "http://a:x", "http://½", "ftp://a"]


@pytest.mark.parametrize("origin", [*BAD_ORIGINS, "http://a:b@c", "http://a\\@b", "http://[v1.x]", "http://a/path"])
def test_what_is_no_origin(origin: str) -> None:
    assert origin_of(origin) is None
    for check in (check_origin, lambda headers: HostWall(LOOPBACK_NAMES).check("GET", headers)):
        with pytest.raises(Forbidden):
            check(Headers({"host": "localhost", "origin": origin}))


@pytest.mark.parametrize("host", ["", "a b", "a:b", "[::1", "a/b", "a@b", "a:123456"])
def test_what_is_no_host(host: str) -> None:
    assert place_of(host) is None
    with pytest.raises(Forbidden):
        HostWall(("a",)).check("GET", Headers({"host": host}))


def passes(wall: HostWall, host: str, origin: str | None = None, method: str = "GET", **more: str) -> bool:
    headers = {"host": host, **({} if origin is None else {"origin": origin}), **more}
    try:
        wall.check(method, Headers(headers))
    except Forbidden:
        return False
    return True


@pytest.mark.parametrize(
    ("host", "origin", "is_let_in"),
    [
        ("localhost:8000", None, True),
        ("LOCALHOST", None, True),
        ("[::1]:8000", None, True),
        ("evil.example:8000", None, False),
        ("localhost:8000", "http://localhost:8000", True),
        ("localhost", "http://localhost", True),
        ("localhost", "http://localhost:80", True),
        ("[::1]:8000", "http://[::1]:8000", True),
        ("localhost:8000", "http://localhost:3000", False),
        ("localhost:8000", "http://localhost", False),
        ("localhost:8000", "http://127.0.0.1:8000", False),
        ("localhost:8000", "http://evil.example:8000", False),
    ],
)
def test_an_open_server_s_own_pages_only(host: str, origin: str | None, is_let_in: bool) -> None:
    """Those on another port of the same machine are another's."""
    assert passes(HostWall(LOOPBACK_NAMES), host, origin) == is_let_in


@pytest.mark.parametrize(
    ("host", "origin", "is_let_in"),
    [
        ("a.example:1", None, True),
        ("b.example:8443", None, True),
        ("b.example:1", None, False),
        ("b.example", None, False),
        ("a.example", "https://a.example", True),
        ("upstream:9", "https://a.example", True),  # a proxy changed Host
        ("upstream:9", "https://b.example:8443", True),
        ("upstream:9", "https://a.example:8443", False),
        ("upstream:9", "https://b.example", False),
    ],
)
def test_names_with_ports(host: str, origin: str | None, is_let_in: bool) -> None:
    wall = HostWall(("a.example", "b.example:8443", "upstream:9"))
    assert passes(wall, host, origin) == is_let_in


def test_what_a_browser_says_of_the_page_counts() -> None:
    """For every method that changes something; a link from elsewhere may still lead here."""
    wall = HostWall(LOOPBACK_NAMES)
    for site in ("cross-site", "same-site"):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert not passes(wall, "localhost:8000", method=method, **{"sec-fetch-site": site})
        assert passes(wall, "localhost:8000", **{"sec-fetch-site": site})
    assert passes(wall, "localhost:8000", method="POST", **{"sec-fetch-site": "same-origin"})
    assert passes(wall, "localhost:8000", method="POST")


@pytest.mark.parametrize("name", ["host", "origin"])
@pytest.mark.parametrize("check", [check_origin, lambda headers: HostWall(LOOPBACK_NAMES).check("GET", headers)])
def test_two_are_none(check: Callable[[Headers], None], name: str) -> None:
    """Whatever stands first: what is in front may go by the other."""
    right = {"host": "localhost", "origin": "http://localhost"}
    check(Headers(right))
    twice = [(key.encode(), value.encode()) for key, value in [*right.items(), (name, right[name])]]
    with pytest.raises(Forbidden):
        check(Headers(raw=twice))
