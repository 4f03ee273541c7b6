"""The sign-in page, if keys are on."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from jobs.errors import Unauthenticated
from service.bodies.form import read_form
from service.context import context_of
from service.dashboard.render import page
from service.dashboard.session import own_path, signed_in, signed_out
from service.http.access import SIGN_OUT
from service.http.origins import check_origin
from service.http.security import FRONT, SIGN_IN, note_failure
from service.keys.sessions import cookie_name

FORM_BYTES = 4 << 10  # of the sign-in, which anyone may send

router = APIRouter(include_in_schema=False)


def sign_in_page(request: Request, wanted: str, error: str | None = None, status: int = 200) -> Response:
    return page(request, "sign_in.html", status=status, wanted=own_path(wanted), error=error)


@router.get(SIGN_IN)
async def sign_in_form(
    request: Request, wanted: Annotated[str, Query(alias="next", max_length=2000)] = FRONT
) -> Response:
    return sign_in_page(request, wanted)


@router.post(SIGN_IN)
async def sign_in(request: Request) -> Response:
    """Signs in. Without keys it only redirects."""
    check_origin(request.headers)
    context = context_of(request)
    form = await read_form(request, limit_bytes=FORM_BYTES)
    key, wanted = (form.get(name, [""])[0] for name in ("key", "next"))
    if context.keys is None:
        return RedirectResponse(own_path(wanted), 303)
    try:
        context.keys.reload()
        known = context.keys.known(key)
    except Unauthenticated as error:
        note_failure(context, request.scope, error)
        return sign_in_page(request, wanted, error.detail, 401)
    request.scope["state"] |= {"owner": known.id, "role": known.role}  # for the audit log
    session = await context.call(context.sessions.begin, known)
    return signed_in(context.settings, session, wanted)


@router.post(SIGN_OUT)
async def sign_out(request: Request) -> Response:
    check_origin(request.headers)
    context = context_of(request)
    if session := request.cookies.get(cookie_name(context.settings)):
        await context.call(context.sessions.end, session)
    return signed_out(context.settings)
