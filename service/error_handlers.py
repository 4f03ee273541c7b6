"""Converts whatever a route raises to a problem document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from jobs.errors import InvalidRequest, MalformedBody, MatmulError, NotFound
from service.dashboard.problems import is_page, problem_page
from service.problems import EdgeError, MethodNotAllowed, problem_response


async def ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, MatmulError)
    return problem_page(request, error) if is_page(request) else problem_response(error, request.scope)


async def validation(request: Request, error: Exception) -> Response:
    """Handles FastAPI's validation errors of path and query parameters."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"][1:]))  # without `query` or `path`
    return await ours(request, InvalidRequest(_sentence(first, field), field=field or None))


def _sentence(complaint: Mapping[str, Any], field: str) -> str:
    match complaint["type"]:
        case "extra_forbidden":
            return f"There is no query parameter {field}."
        case "too_long":
            return f"{field} may come at most {complaint['ctx']['max_length']} times."
        case "value_error":
            return f"{field}: {complaint['ctx']['error']}."
    return f"{field}: {complaint['msg'][:1].lower()}{complaint['msg'][1:]}."


async def http(request: Request, error: Exception) -> Response:
    """Handles Starlette's own errors: unknown paths, wrong methods."""
    assert isinstance(error, HTTPException)
    return await ours(request, _translated(error, request))


def _methods(request: Request) -> Iterator[str]:
    """The methods of all routes at this path; the framework names only those of the first."""
    for method in ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"):
        scope = {**request.scope, "method": "GET" if method == "HEAD" else method}  # every GET also has HEAD
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes):
            yield method


def _meant(request: Request) -> str:
    """An existing path that differs only by a trailing slash or the version prefix."""
    path = request.url.path.rstrip("/")
    for other in (path, f"/v1{path}"):
        scope = {**request.scope, "path": other}
        if other and any(route.matches(scope)[0] is not Match.NONE for route in request.app.routes):
            return f", but there is at {other}"
    return ""


def _translated(error: HTTPException, request: Request) -> MatmulError:
    headers = dict(error.headers or {})
    match error.status_code:
        case HTTPStatus.NOT_FOUND:
            return NotFound(f"There is nothing at this path{_meant(request)}; /docs lists what there is.")
        case HTTPStatus.METHOD_NOT_ALLOWED:
            allowed = ", ".join(_methods(request))
            sentence = f"This path does not answer {request.method}; it answers {allowed}."
            return MethodNotAllowed(sentence, headers={"allow": allowed})
        case HTTPStatus.BAD_REQUEST:
            return MalformedBody()
    return EdgeError(headers=headers)
