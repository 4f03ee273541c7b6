"""Which role a request needs. The gate checks the minimum for every request; a route may require more."""

from __future__ import annotations

import hmac
from typing import cast

from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.types import Scope

from jobs.errors import Forbidden
from jobs.models import ANONYMOUS
from service.context import owner_of
from service.http.origins import SAFE_METHODS
from service.keys import Role

WRITE_HEADER = "x-csrf-token"
SIGN_OUT = "/ui/sign-out"
_REFUSED = {
    Role.SUBMITTER: "This API key may only read; use one with the role submitter.",
    Role.OPERATOR: "This is for operators; use an API key with the role operator.",
}


def role_of(request: Request) -> Role:
    """The role of the request's key; operator if keys are off."""
    return cast(Role, request.state.role)


def whose_jobs(request: Request) -> str | None:
    """The owner whose jobs the request may see and cancel; None for an operator, who may see and cancel all. Operands
    and products are only for their owner: see `owner_of`.
    """
    owner = owner_of(request)
    return None if role_of(request) is Role.OPERATOR and owner != ANONYMOUS else owner


def check_role(role: Role, needed: Role) -> None:
    """Raises Forbidden."""
    if role < needed:
        raise Forbidden(_REFUSED[needed])


def check_method(scope: Scope, role: Role) -> None:
    """Every request that changes anything needs a submitter; anyone may sign out. Raises Forbidden."""
    if scope["method"] not in SAFE_METHODS and scope["path"] != SIGN_OUT:
        check_role(role, Role.SUBMITTER)


def check_write_token(scope: Scope, headers: Headers) -> None:
    """Protects against CSRF: browsers send the cookie whichever page caused the request. So a request with a cookie
    that changes anything must also carry the token of this server's own pages, in the form's address or in a header.
    Raises Forbidden.
    """
    token = scope["state"].get("csrf")
    if token is None or scope["method"] in SAFE_METHODS or scope["path"] == SIGN_OUT:
        return
    sent = headers.get(WRITE_HEADER) or QueryParams(scope["query_string"]).get("csrf", "")
    if not hmac.compare_digest(sent.encode(), token.encode()):
        raise Forbidden("This does not come from a page of this sign-in; open the page again and send it from there.")
