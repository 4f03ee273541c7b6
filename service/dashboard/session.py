"""Sign-in: a cookie that stands for an API key, and the form that sets it."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from service.http.security import COOKIE, SIGN_IN

LIFETIME_S = 30 * 86_400


def own_path(wanted: str) -> str:
    """`wanted` if it is an address of this server's pages, else the overview: a link to the form leads nowhere else."""
    parts = urlsplit(wanted)
    is_ours = not parts.scheme and not parts.netloc and wanted.startswith("/") and not wanted.startswith(("//", "/\\"))
    return wanted if is_ours else "/"


def signed_in(request: Request, key: str, wanted: str) -> Response:
    """Sets the cookie and goes on."""
    reply = RedirectResponse(own_path(wanted), 303)
    reply.set_cookie(
        COOKIE,
        key,
        max_age=LIFETIME_S,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return reply


def signed_out() -> Response:
    reply = RedirectResponse(SIGN_IN, 303)
    reply.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return reply
