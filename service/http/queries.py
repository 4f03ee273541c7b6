"""Refuses, by name, query parameters that a path does not have or that come twice; none is silently ignored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_origin

from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from jobs.errors import InvalidRequest
from service.http.direct_routes import OnError
from service.problems import shown

PREFIX = "/v1/"  # clients of probes and pages may send more, and cannot know better


class QueryWall:
    """ASGI middleware behind the gate. Requests without a query pass at once. `on_error` makes the response."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute], on_error: OnError) -> None:
        self._app = app
        self._on_error = on_error
        found = [route for route in routes if isinstance(route, APIRoute) and route.path.startswith(PREFIX)]
        self._known = [(route, _types(route)) for route in found]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        known = self._known if scope["type"] == "http" and scope["query_string"] else ()
        for route, types in known:
            if route.matches(scope)[0] is Match.FULL:
                request = Request(scope, receive, send)
                try:
                    _check(route, types, request.query_params)
                except InvalidRequest as error:
                    scope["route"] = route  # for metrics and the audit log
                    await (await self._on_error(request, error))(scope, receive, send)
                    return
                break
        await self._app(scope, receive, send)


def _types(route: APIRoute) -> Mapping[str, Any]:
    """The route's query parameters, with their types."""
    by_hand = (route.openapi_extra or {}).get("parameters", ())
    types: dict[str, Any] = {each["name"]: str for each in by_hand if each["in"] == "query"}
    for parameter in route.dependant.query_params:
        kind: Any = parameter.field_info.annotation
        is_model = isinstance(kind, type) and issubclass(kind, BaseModel)
        fields = {name: field.annotation for name, field in kind.model_fields.items()} if is_model else {}
        types |= fields or {parameter.alias: kind}
    return types


def _check(route: APIRoute, types: Mapping[str, Any], params: QueryParams) -> None:
    """Raises InvalidRequest."""
    for name in params:
        if name not in types:
            rest = ", and all else is sent in the body" if "requestBody" in (route.openapi_extra or {}) else ""
            taken = ", ".join(types) or "none"
            raise InvalidRequest(
                f"There is no query parameter {shown(name)}; this path takes {taken}{rest}.", field=shown(name)
            )
        if len(params.getlist(name)) > 1 and get_origin(types[name]) is not tuple:
            raise InvalidRequest(f"The query parameter {name} comes more than once; send it once.", field=name)
