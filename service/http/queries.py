"""Query parameters: one that a path does not have, or that comes twice, is refused by name, so that no wish is passed
over in silence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, get_origin

from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from jobs.errors import InvalidRequest
from service.http.straight import OnError
from service.problems import shown

PREFIX = "/v1/"  # probes and pages are asked with more, by clients that cannot know better


@dataclass(frozen=True, slots=True)
class _Query:
    """The query parameters of a route."""

    names: tuple[str, ...]
    lists: frozenset[str]  # those that may come more than once
    has_body: bool

    @classmethod
    def of(cls, route: APIRoute) -> _Query:
        more = route.openapi_extra or {}
        types: dict[str, Any] = {each["name"]: str for each in more.get("parameters", ()) if each["in"] == "query"}
        for parameter in route.dependant.query_params:
            model = parameter.field_info.annotation
            if isinstance(model, type) and issubclass(model, BaseModel):
                types |= {name: field.annotation for name, field in model.model_fields.items()}
            else:
                types[parameter.alias] = model
        lists = frozenset(name for name, kind in types.items() if get_origin(kind) is tuple)
        return cls(tuple(types), lists, "requestBody" in more)

    def check(self, params: QueryParams) -> None:
        """Raises InvalidRequest."""
        seen: set[str] = set()
        for name, _ in params.multi_items():
            if name not in self.names:
                taken = ", ".join(self.names) or "none"
                rest = ", and all else is sent in the body" if self.has_body else ""
                raise InvalidRequest(
                    f"There is no query parameter {shown(name)}; this path takes {taken}{rest}.", field=shown(name)
                )
            if name in seen and name not in self.lists:
                raise InvalidRequest(f"The query parameter {name} comes more than once; send it once.", field=name)
            seen.add(name)


class QueryWall:
    """ASGI middleware behind the gate. Requests without a query pass at once. `on_error` makes the response."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute], on_error: OnError) -> None:
        self._app = app
        self._on_error = on_error
        found = [route for route in routes if isinstance(route, APIRoute) and route.path.startswith(PREFIX)]
        self._queries = [(route, _Query.of(route)) for route in found]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["query_string"]:
            for route, query in self._queries:
                if route.matches(scope)[0] is not Match.FULL:
                    continue
                request = Request(scope, receive, send)
                try:
                    query.check(request.query_params)
                except InvalidRequest as error:
                    scope["route"] = route  # for metrics and the audit log
                    await (await self._on_error(request, error))(scope, receive, send)
                    return
                break
        await self._app(scope, receive, send)
