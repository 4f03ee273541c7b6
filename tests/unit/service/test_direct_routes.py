"""The way of a product's request past the framework's router."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from jobs.errors import InvalidRequest
from jobs.settings import Settings
from service import app
from service.http.direct_routes import DirectRoutes

router = APIRouter()


@router.post("/v1/product", operation_id="multiply")
async def product(request: Request, wrong: bool = False) -> Response:
    if request.headers.get("x-wrong"):
        raise InvalidRequest("It is wrong.")
    return Response(b"direct")


@router.post("/v2/models/{name}/infer")
@router.post("/v2/models/{name}/versions/{version}/infer")
async def inference(request: Request) -> Response:
    return Response(repr(request.path_params).encode())


async def beyond(_scope: Any, _receive: Any, send: Any) -> None:
    await Response(b"beyond")({"type": "http"}, _receive, send)


async def refused(_request: Request, error: Exception) -> Response:
    return Response(str(error).encode(), 422)


def asked(method: str, path: str, query: bytes = b"", wrong: bool = False) -> tuple[int, bytes, dict[str, Any]]:
    """Status and body of the reply, and the request's scope."""
    return anyio.run(_asked, method, path, query, wrong)


async def _asked(method: str, path: str, query: bytes, wrong: bool) -> tuple[int, bytes, dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    headers = [(b"x-wrong", b"1")] if wrong else []
    scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": headers}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        raise AssertionError("nobody reads a body here")

    known = [{"name": name, "version": "1"} for name in ("matmul", "naive")]
    await DirectRoutes(beyond, router.routes, refused, known)(scope, receive, send)  # type: ignore[arg-type]
    return sent[0]["status"], sent[1]["body"], scope


def test_it_leads_to_the_route() -> None:
    status, body, scope = asked("POST", "/v1/product")
    assert (status, body) == (200, b"direct")
    assert (scope["route"].path, scope["route"].operation_id) == (
        "/v1/product",
        "multiply",
    )  # for metrics and the audit


@pytest.mark.parametrize(
    ("path", "route", "parameters"),
    [
        ("/v2/models/naive/infer", "/v2/models/{name}/infer", {"name": "naive"}),
        (
            "/v2/models/matmul/versions/1/infer",
            "/v2/models/{name}/versions/{version}/infer",
            {"name": "matmul", "version": "1"},
        ),
    ],
)
def test_a_route_has_the_parameters_of_its_path(path: str, route: str, parameters: dict[str, str]) -> None:
    status, body, scope = asked("POST", path)
    assert (status, body, scope["route"].path) == (200, repr(parameters).encode(), route)


def test_an_error_of_the_service_is_answered() -> None:
    assert asked("POST", "/v1/product", wrong=True)[:2] == (422, b"It is wrong.")


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("GET", "/v1/product", b""),
        ("POST", "/v1/product/", b""),
        ("POST", "/v1/products", b""),
        ("POST", "/v1/product", b"wrong=yes"),
        ("POST", "/v1/product", b"x"),
        ("POST", "/v2/models/other/infer", b""),
        ("POST", "/v2/models/matmul/versions/2/infer", b""),
        ("GET", "/v2/models/matmul/infer", b""),
    ],
)
def test_all_else_goes_the_usual_way(method: str, path: str, query: bytes) -> None:
    status, body, scope = asked(method, path, query)
    assert (status, body) == (200, b"beyond") and "route" not in scope


@pytest.mark.parametrize(
    "path", ["/v1/matmul", "/v2/models/matmul/infer", "/v2/models/naive/infer", "/v2/models/matmul/versions/1/infer"]
)
def test_products_of_both_protocols_go_direct_routes(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    middleware: list[Any] = app.create_app(Settings()).user_middleware
    (added,) = (each for each in middleware if each.cls is DirectRoutes)
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
    direct: Any = DirectRoutes
    with pytest.raises(KeyError, match="app"):  # which its route asks for, and which the framework would have set
        anyio.run(direct(beyond, **added.kwargs), scope, None, None)
    assert scope["route"]


def test_spans_are_made_by_the_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    def has_it() -> bool:
        added: list[object] = [each.cls for each in app.create_app(Settings()).user_middleware]
        return DirectRoutes in added

    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert has_it()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    assert not has_it()
