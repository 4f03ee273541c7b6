"""Which role a request needs. The gate asks every request for the least; a route may ask for more."""

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
    """Of the key that the request came with; an operator's where keys are off."""
    return cast(Role, request.state.role)


def whose_jobs(request: Request) -> str | None:
    """The owner whose jobs the request may see and cancel; None for an operator, who may do so with everyone's. What is
    in them, operands and products, is their owner's alone: see `owner_of`."""
    owner = owner_of(request)
    return None if role_of(request) is Role.OPERATOR and owner != ANONYMOUS else owner


def check_role(role: Role, needed: Role) -> None:
    """Raises Forbidden."""
    if role < needed:
        raise Forbidden(_REFUSED[needed])


def check_method(scope: Scope, role: Role) -> None:
    """What changes anything needs a submitter, whichever route it is; anyone may sign out. Raises Forbidden."""
    if scope["method"] not in SAFE_METHODS and scope["path"] != SIGN_OUT:
        check_role(role, Role.SUBMITTER)


def check_write_token(scope: Scope, headers: Headers) -> None:
    """A cookie comes along whoever made the browser ask. A request with one that changes anything needs what this
    server's own pages have: in the address of a form, or in a header. Raises Forbidden."""
    token = scope["state"].get("csrf")
    if token is None or scope["method"] in SAFE_METHODS or scope["path"] == SIGN_OUT:
        return
    sent = headers.get(WRITE_HEADER) or QueryParams(scope["query_string"]).get("csrf", "")
    if not hmac.compare_digest(sent.encode(), token.encode()):
        raise Forbidden("This does not come from a page of this sign-in; open the page again and send it from there.")
