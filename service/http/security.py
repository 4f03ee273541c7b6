"""Authentication: holders of API keys or, on a loopback bind, anyone on this machine. Checked before every route."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import cast
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from jobs.errors import Forbidden, InvalidSettings, MatmulError, Unauthenticated
from jobs.models import ANONYMOUS
from jobs.settings import Settings
from service.context import Context
from service.http.access import check_method, check_write_token
from service.http.listed import sole_of
from service.http.origins import LOOPBACK_NAMES, HostWall, check_origin, origin_of
from service.keys import KeyRing, KnownKey, Role
from service.keys.sessions import cookie_name
from service.keys.wrong_keys import address_of
from service.problems import InvalidHeader, TooManyAttempts, problem_response

SIGN_IN = "/ui/sign-in"
PROBES = ("/livez", "/readyz", "/v2/health/live", "/v2/health/ready")
OPEN_PATHS = frozenset({*PROBES, "/openapi.json", "/docs", "/site", SIGN_IN})  # these reveal nobody's work
OPEN_PREFIXES = ("/problems/", "/site/", "/ui/static/")
FRONT, PAGES = "/", "/ui/"


@lru_cache(maxsize=256)  # asked for each request
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def keys_are_on(settings: Settings) -> bool:
    """Whether requests need an API key. Raises InvalidSettings for a server without keys that other hosts could
    reach.
    """
    if settings.auth == "auto":
        return not is_loopback(settings.host)
    if settings.auth == "off" and not is_loopback(settings.host):
        raise InvalidSettings(
            f"MATMUL_AUTH=off is refused with MATMUL_HOST={settings.host}: anyone who reaches that address could use "
            "the service. Bind 127.0.0.1, or turn API keys on."
        )
    return settings.auth == "on"


def key_ring(settings: Settings) -> KeyRing | None:
    """The accepted keys; None on a server without keys. Raises InvalidSettings, also for host names that are none."""
    HostWall(settings.allowed_hosts)
    return KeyRing(settings) if keys_are_on(settings) else None


class Gate:
    """ASGI middleware that passes a request on with its key, owner and role in `scope["state"]`, or answers 401 or
    403.
    """

    def __init__(self, app: ASGIApp, settings: Settings, keys: KeyRing | None) -> None:
        self._app = app
        self._keys = keys
        hosts = settings.allowed_hosts or (() if self._keys else LOOPBACK_NAMES)
        self._wall = HostWall(hosts) if hosts else None
        self._cookie = cookie_name(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        audit = cast(Context, scope["app"].state.context).audit
        try:
            await self._admit(scope, Headers(scope=scope))
        except MatmulError as error:
            if audit is not None and "owner" in scope["state"]:
                audit.refused(scope, error)
            await _refusal(error, scope)(scope, receive, send)
            return
        await self._app(scope, receive, send if audit is None else audit.listening(scope, send))

    async def _admit(self, scope: Scope, headers: Headers) -> None:
        """Sets key, owner and role in the request's state. Raises Unauthenticated, Forbidden,
        TooManyAttempts, InvalidHeader, StoreUnavailable."""
        self._check_host_and_origin(scope, headers)
        state = scope["state"]
        if self._keys is None:
            self._check_address(scope["server"])
            state |= {"owner": ANONYMOUS, "role": Role.OPERATOR}
        elif scope["path"] in OPEN_PATHS or scope["path"].startswith(OPEN_PREFIXES):
            state |= {"owner": ANONYMOUS, "role": Role.READER}
        else:
            try:
                known = await self._authenticate(self._keys, scope, headers)
            except Unauthenticated:
                if scope["path"] != FRONT:
                    raise
                state |= {"owner": ANONYMOUS, "role": Role.READER, "is_stranger": True}  # the page asks for a sign-in
                return
            state |= {"owner": known.id, "role": known.role, "key": known}
            check_method(scope, known.role)
            check_write_token(scope, headers)

    def _check_host_and_origin(self, scope: Scope, headers: Headers) -> None:
        """Raises InvalidHeader, Forbidden."""
        names = headers.getlist("host")
        if len(names) > 1:
            raise InvalidHeader("Host comes twice; send the name that you reached this server by, once.", field="Host")
        if not names and scope["http_version"] == "1.1":
            raise InvalidHeader("Host is missing; send the name that you reached this server by.", field="Host")
        if (origin := headers.get("origin")) is not None and origin != "null" and origin_of(origin) is None:
            raise Forbidden("This Origin is no web page's; leave the header out.", field="Origin")
        if self._wall is not None:
            is_form = scope["path"].startswith(PAGES)  # these check by themselves, and answer with a page
            self._wall.check("GET" if is_form else scope["method"], headers)

    def _check_address(self, server: tuple[str, int | None] | None) -> None:
        """A second safeguard: whatever the settings say, a server without keys answers only on loopback and Unix
        sockets.
        """
        if server is not None and server[1] is not None and not is_loopback(server[0]):
            raise Forbidden("This server has no API keys, so it answers on loopback addresses only.")

    async def _authenticate(self, keys: KeyRing, scope: Scope, headers: Headers) -> KnownKey:
        """Raises Unauthenticated, InvalidHeader for two keys, StoreUnavailable."""
        keys.refresh()
        context = cast(Context, scope["app"].state.context)
        scheme, _, credentials = (sole_of(headers, "Authorization") or "").partition(" ")
        key = credentials.strip() if scheme.lower() == "bearer" else sole_of(headers, "X-API-Key")
        session = cookie_parser(headers.get("cookie", "")).get(self._cookie)
        if not key and session is None:
            raise Unauthenticated
        try:
            return keys.known(key) if key else await self._signed_in(context, session or "", scope, headers)
        except Unauthenticated as error:
            note_failure(context, scope, error)
            raise

    async def _signed_in(self, context: Context, session: str, scope: Scope, headers: Headers) -> KnownKey:
        check_origin(headers)  # browsers send the cookie whichever page caused the request
        assert context.keys is not None
        known = await context.call(context.sessions.key_of, session, context.keys)
        if known is None:
            raise Unauthenticated("This sign-in has ended; sign in again.")
        scope["state"] |= {"signed_in": True, "session": session, "csrf": context.keys.write_token(session)}
        return known


def note_failure(context: Context, scope: Scope, error: Unauthenticated) -> None:
    """Counts a request with a wrong key. Raises TooManyAttempts."""
    if context.failed_keys.failed(address_of(scope)):
        raise TooManyAttempts from error
    if context.audit is not None:
        context.audit.refused(scope, error)


def _refusal(error: MatmulError, scope: Scope) -> ASGIApp:
    """The answer to a refused request: a page redirects to the sign-in and back; anything else gets a problem
    document.
    """
    if isinstance(error, Unauthenticated) and scope["path"].startswith(PAGES):
        query = f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
        return RedirectResponse(f"{SIGN_IN}?next={quote(scope['path'] + query, safe='')}", 303)
    return problem_response(error, scope)
