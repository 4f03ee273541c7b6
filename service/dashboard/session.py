"""The cookie of a sign-in, and the redirect after it."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.responses import RedirectResponse, Response

from jobs.settings import Settings
from service.http.security import SIGN_IN
from service.keys.sessions import cookie_name


def own_path(wanted: str) -> str:
    """`wanted` if it is an address of this server's pages, otherwise the overview, so that a link to the form cannot
    redirect elsewhere.
    """
    try:
        parts = urlsplit(wanted)
    except ValueError:  # an invalid host in brackets
        return "/"
    is_ours = not parts.scheme and not parts.netloc and wanted.startswith("/") and not wanted.startswith(("//", "/\\"))
    return wanted if is_ours else "/"


def signed_in(settings: Settings, session: str, wanted: str) -> Response:
    """Sets the cookie and redirects."""
    reply = RedirectResponse(own_path(wanted), 303)
    reply.set_cookie(
        cookie_name(settings),
        session,
        max_age=settings.session_ttl_s,
        httponly=True,
        samesite="strict",
        secure=settings.behind_tls,
    )
    return reply


def signed_out(settings: Settings) -> Response:
    reply = RedirectResponse(SIGN_IN, 303)
    reply.delete_cookie(cookie_name(settings), httponly=True, samesite="strict", secure=settings.behind_tls)
    return reply
