"""Requests for products go from the gate directly to their route.

FastAPI's way there looks for the route, keeps stacks of contexts, and reads parameters for it. That takes about as long
as reading the request itself, and a route that reads its request and makes its response by itself needs none of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from jobs.errors import MatmulError

OnError = Callable[[Request, Exception], Awaitable[Response]]
Values = Mapping[str, str]  # of the parameters in a path, by name


class DirectRoutes:
    """ASGI middleware behind the gate that calls these routes directly for requests without a query. The routes must
    need nothing but the request. All other requests go on to `app`. `on_error` makes the response to an error of the
    service's own. A route with parameters in its path is known for the paths that `values` make."""

    def __init__(
        self, app: ASGIApp, routes: Iterable[BaseRoute], on_error: OnError, values: Sequence[Values] = ({},)
    ) -> None:
        self._app = app
        self._on_error = on_error
        self._routes = {
            (method, path): (route, own)
            for route in routes
            if isinstance(route, APIRoute)
            for path, own in _paths(route, values)
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._routes.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if found is None or scope["query_string"]:
            await self._app(scope, receive, send)
            return
        route, scope["path_params"] = found
        scope["route"] = route  # for metrics and the audit log
        request = Request(scope, receive, send)
        try:
            response: Response = await route.endpoint(request)
        except MatmulError as error:
            response = await self._on_error(request, error)
        await response(scope, receive, send)


def _paths(route: APIRoute, values: Sequence[Values]) -> Iterator[tuple[str, Values]]:
    """The route's paths, each with its own parameters."""
    names = route.param_convertors.keys()
    for each in values:
        if names <= each.keys():
            own = {name: each[name] for name in names}
            yield route.path.format(**own), own
