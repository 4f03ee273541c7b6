"""Who may ask: holders of API keys or, on a loopback bind, anyone on this machine. MatmulInput before every route."""

from __future__ import annotations

import ipaddress
import time
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from jobs.errors import Forbidden, InvalidSettings, MatmulError, Unauthenticated
from jobs.models import ANONYMOUS
from jobs.settings import Settings
from service.keys import KeyRing
from service.problems import problem_response

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
SIGN_IN = "/ui/sign-in"
COOKIE = "matmul_key"  # stands for an API key in a browser
OPEN_PATHS = frozenset({"/livez", "/readyz", "/openapi.json", "/docs", SIGN_IN})  # these say nothing of anyone's work
OPEN_PREFIXES = ("/problems/", "/ui/static/")
FRONT, PAGES = "/", "/ui/"
KEYS_RELOAD_S = 1.0


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def keys_are_on(settings: Settings) -> bool:
    """Whether requests need an API key. Raises InvalidSettings for an open server that others could reach."""
    if settings.auth == "auto":
        return not is_loopback(settings.host)
    if settings.auth == "off" and not is_loopback(settings.host):
        raise InvalidSettings(
            f"MATMUL_AUTH=off is refused with MATMUL_HOST={settings.host}: anyone who reaches that address could use "
            "the service. Bind 127.0.0.1, or turn API keys on."
        )
    return settings.auth == "on"


def key_ring(settings: Settings) -> KeyRing | None:
    """The keys to ask for; None on an open server. Raises InvalidSettings."""
    return KeyRing(settings) if keys_are_on(settings) else None


class Gate:
    """ASGI middleware: lets a request through with its owner in `scope["state"]`, or answers 401 or 403."""

    def __init__(self, app: ASGIApp, settings: Settings, keys: KeyRing | None) -> None:
        self._app = app
        self._keys = keys
        self._hosts = frozenset(settings.allowed_hosts or (() if self._keys else LOOPBACK_NAMES))
        self._reload_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            scope["state"]["owner"] = self._admit(scope, Headers(scope=scope))
        except MatmulError as error:
            await _refusal(error, scope)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _admit(self, scope: Scope, headers: Headers) -> str:
        """The owner of what this request makes. Raises Unauthenticated, Forbidden."""
        if self._hosts:
            self._check_host(headers)
        if self._keys is None:
            self._check_address(scope["server"])
            return ANONYMOUS
        if scope["path"] in OPEN_PATHS or scope["path"].startswith(OPEN_PREFIXES):
            return ANONYMOUS
        try:
            return self._authenticate(self._keys, scope, headers)
        except Unauthenticated:
            if scope["path"] != FRONT:
                raise
            scope["state"]["is_stranger"] = True  # the front page asks who is there
            return ANONYMOUS

    def _check_host(self, headers: Headers) -> None:
        """Against web pages whose name was made to point here, and pages elsewhere that post here."""
        if _host_name(headers.get("host", "")) not in self._hosts:
            raise Forbidden("This server does not answer to that Host; see MATMUL_ALLOWED_HOSTS.", field="Host")
        origin = headers.get("origin")
        if origin is not None and _host_name(urlsplit(origin).netloc) not in self._hosts:
            raise Forbidden("This server does not answer requests from that Origin.", field="Origin")

    def _check_address(self, server: tuple[str, int | None] | None) -> None:
        """The second wall: whatever the settings say, an open server answers on loopback and unix sockets only."""
        if server is not None and server[1] is not None and not is_loopback(server[0]):
            raise Forbidden("This server has no API keys, so it answers on loopback addresses only.")

    def _authenticate(self, keys: KeyRing, scope: Scope, headers: Headers) -> str:
        if time.monotonic() > self._reload_at:
            keys.reload()
            self._reload_at = time.monotonic() + KEYS_RELOAD_S
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        key = credentials.strip() if scheme.lower() == "bearer" else headers.get("x-api-key")
        if not key and (key := _cookie(headers)):
            check_same_site(headers)
            scope["state"]["signed_in"] = True
        if not key:
            raise Unauthenticated
        return keys.owner_of(key)


def _refusal(error: MatmulError, scope: Scope) -> ASGIApp:
    """A page leads to the sign-in, and from there back; everything else is told what is wrong."""
    if isinstance(error, Unauthenticated) and scope["path"].startswith(PAGES):
        query = f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
        return RedirectResponse(f"{SIGN_IN}?next={quote(scope['path'] + query, safe='')}", 303)
    return problem_response(error, scope)


def _cookie(headers: Headers) -> str | None:
    """The API key that a browser was given at the sign-in."""
    return cookie_parser(headers.get("cookie", "")).get(COOKIE)


def check_same_site(headers: Headers) -> None:
    """A cookie comes along whoever made the browser ask; only this server's own pages may. Raises Forbidden."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    elsewhere = origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
    if elsewhere or site not in (None, "none", "same-origin"):
        raise Forbidden("This server does not answer requests that another site's page makes.", field="Origin")


def _host_name(netloc: str) -> str:
    """A Host header without its port, in lower case; an IPv6 address without its brackets."""
    if netloc.startswith("["):
        return netloc[1:].partition("]")[0].lower()
    return netloc.partition(":")[0].lower()
